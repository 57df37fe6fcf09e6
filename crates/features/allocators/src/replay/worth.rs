//! Whether another allocator is worth it for a program, and why not.

use allotrope_text::numbers::{bytes, count, duration};

/// Share of the program's wall time from which on switching is worth it.
const TIME: f64 = 0.01;
/// Share of the peak memory from which on switching is worth it.
const MEMORY: f64 = 0.05;

/// A program that runs shorter is too small for a saving of time: its start alone, by the
/// kernel and the loader, takes a millisecond and varies by more than a hundredth of this.
const MIN_SECONDS: f64 = 0.01;
/// A program that calls the allocator less often is too small, too: what is measured of so few
/// calls is mostly the first use of memory and code, and the allocator's own start.
const MIN_OPERATIONS: u64 = 10_000;
/// A smaller saving of memory is worth nothing: allocators differ by so much before the first
/// call.
const MIN_BYTES: f64 = 1_048_576.0;

/// What the other allocator saves, each with its noise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saving {
    pub(crate) seconds: f64,
    pub(crate) seconds_error: f64,
    /// Bytes of peak memory.
    pub(crate) peak: f64,
    pub(crate) peak_error: f64,
}

/// The program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) wall_seconds: f64,
    pub(crate) operations: u64,
    /// Seconds of all operations in its allocator.
    pub(crate) allocator_seconds: f64,
    /// Peak memory of its allocator, in bytes.
    pub(crate) peak: f64,
}

/// The largest share of the wall time that a program can save if all its threads together save so
/// many of `allocator` seconds. If the threads never ran at the same time, all of it is wall time;
/// if they always did, less is. It is not more than the allocator's own saving: not even a program
/// that did nothing else would become faster by more. (The replay of one thread may take longer
/// than the program did: then the recording was made with another allocator than it is said to be.)
pub(crate) fn most_of_wall(saved: f64, allocator: f64, wall: f64) -> f64 {
    let all = saved / wall;
    match saved > 0.0 && allocator > 0.0 {
        true => all.min(saved / allocator).min(1.0),
        false => all,
    }
}

/// `time`, `memory`, `both`, `no` or `too-little`, and why for the last two.
pub(crate) fn judge(saving: &Saving, program: &Program) -> (&'static str, Option<String>) {
    let is_faster =
        saving.seconds > saving.seconds_error && saving.seconds >= program.wall_seconds * TIME;
    let is_smaller = saving.peak > saving.peak_error && saving.peak >= program.peak * MEMORY;
    let too_small = too_small(program);
    let is_small = too_small.is_some();
    let saves_memory = is_smaller && saving.peak >= MIN_BYTES;
    match (is_faster && !is_small, saves_memory) {
        (true, true) => ("both", None),
        (true, false) => ("time", None),
        (false, true) => ("memory", None),
        (false, false) if is_small && (is_faster || is_smaller) => ("too-little", too_small),
        (false, false) => (
            "no",
            Some(
                worse(saving)
                    .or(too_small)
                    .unwrap_or_else(|| why_not(saving, program)),
            ),
        ),
    }
}

/// Says that an allocator saves nothing, but takes more; `None` if it saves something, or its loss
/// is noise.
fn worse(saving: &Saving) -> Option<String> {
    let is_slower = -saving.seconds > saving.seconds_error;
    let is_larger = -saving.peak > saving.peak_error;
    let saves = saving.seconds > saving.seconds_error || saving.peak > saving.peak_error;
    match (is_slower, is_larger) {
        _ if saves => None,
        (true, true) => Some("it is slower, and takes more memory".to_owned()),
        (true, false) => Some("it is slower".to_owned()),
        (false, true) => Some("it takes more memory, and is not faster".to_owned()),
        (false, false) => None,
    }
}

/// Why the program is too small to tell; `None` if it is not.
fn too_small(program: &Program) -> Option<String> {
    if program.wall_seconds < MIN_SECONDS {
        return Some(format!(
            "the program ran only {}, and what is measured of less than {} is its start",
            duration(program.wall_seconds * 1e6),
            duration(MIN_SECONDS * 1e6)
        ));
    }
    (program.operations < MIN_OPERATIONS).then(|| {
        format!(
            "the program made only {} calls, and what is measured of less than {} is the allocator's start",
            count(program.operations),
            count(MIN_OPERATIONS)
        )
    })
}

fn why_not(saving: &Saving, program: &Program) -> String {
    let saves = saving.seconds > saving.seconds_error || saving.peak > saving.peak_error;
    let share = program.allocator_seconds / program.wall_seconds;
    if share < TIME {
        return format!(
            "all its calls take {:.2} % of the time, so none of it can be saved",
            share * 100.0
        );
    }
    if saves {
        return format!(
            "it saves less than {:.0} % of the time, and less than {:.0} % of the memory or than {}",
            TIME * 100.0,
            MEMORY * 100.0,
            bytes(MIN_BYTES as u64)
        );
    }
    "it saves nothing that is larger than the noise".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ms in the allocator of 1 s, 100 MB.
    const PROGRAM: Program = Program {
        wall_seconds: 1.0,
        operations: 1_000_000,
        allocator_seconds: 0.1,
        peak: 100e6,
    };
    const NOTHING: Saving = Saving {
        seconds: 0.0,
        seconds_error: 0.001,
        peak: 0.0,
        peak_error: 4096.0,
    };

    fn saving(seconds: f64, peak: f64) -> Saving {
        Saving {
            seconds,
            peak,
            ..NOTHING
        }
    }

    #[test]
    fn a_hundredth_of_the_time_or_a_twentieth_of_the_memory() {
        for (seconds, peak, worth) in [
            (0.0, 0.0, "no"),
            (0.009, 4.9e6, "no"),
            (0.011, 0.0, "time"),
            (0.0, 5.1e6, "memory"),
            (0.011, 5.1e6, "both"),
            (-0.5, -5e6, "no"),
        ] {
            let (found, why) = judge(&saving(seconds, peak), &PROGRAM);
            assert_eq!(found, worth, "{seconds} {peak}");
            assert_eq!(why.is_some(), worth == "no");
        }
        let noisy = Saving {
            seconds_error: 0.02,
            ..saving(0.011, 0.0)
        };
        assert_eq!(judge(&noisy, &PROGRAM).0, "no");
    }

    /// 4 threads with 80 ms of calls in a program that ran for 50 ms: another allocator that takes
    /// half of it saves at most half of the time, and not 80 %.
    #[test]
    fn threads_save_at_most_what_their_allocator_does() {
        assert_eq!(most_of_wall(0.040, 0.080, 0.050), 0.5);
        // If the calls are few, they may all be one after another.
        assert_eq!(most_of_wall(0.004, 0.008, 0.050), 0.08);
        assert!((most_of_wall(-0.010, 0.080, 0.050) + 0.2).abs() < 1e-9);
        // Twice as long as the program ran; and an allocator whose time is below that of the
        // null loop.
        assert_eq!(most_of_wall(0.100, 0.100, 0.050), 1.0);
        assert_eq!(most_of_wall(0.101, 0.100, 0.050), 1.0);
    }

    /// However small the program is.
    #[test]
    fn what_is_worse_says_so() {
        let short = Program {
            wall_seconds: 0.009,
            ..PROGRAM
        };
        for (seconds, peak, reason) in [
            (-0.05, 0.0, "it is slower"),
            (-0.05, -2e6, "it is slower, and takes more memory"),
            (0.0, -2e6, "it takes more memory, and is not faster"),
        ] {
            for program in [short, PROGRAM] {
                let (worth, why) = judge(&saving(seconds, peak), &program);
                assert_eq!((worth, why.as_deref()), ("no", Some(reason)));
            }
        }
    }

    #[test]
    fn a_few_pages_are_no_reason() {
        let program = Program {
            peak: 16384.0,
            ..PROGRAM
        };
        let few = Saving {
            peak_error: 0.0,
            ..saving(0.0, 4096.0)
        };
        let (worth, why) = judge(&few, &program);
        assert_eq!(worth, "no");
        assert!(why.unwrap().contains("than 1.0 MiB"));
    }

    #[test]
    fn a_tiny_program_is_too_little_to_tell() {
        let short = Program {
            wall_seconds: 0.009,
            ..PROGRAM
        };
        let few = Program {
            operations: 9_999,
            ..PROGRAM
        };
        for (program, reason) in [(short, "ran only 9.0 ms"), (few, "made only 9,999 calls")] {
            let program = Program {
                peak: 1e6,
                ..program
            };
            for (seconds, peak, worth) in [
                (0.05, 0.0, "too-little"),
                (0.0, 0.5e6, "too-little"),
                (0.0, 0.0, "no"),
                // So much memory is measured well.
                (0.0, 2e6, "memory"),
            ] {
                let (found, why) = judge(&saving(seconds, peak), &program);
                assert_eq!(found, worth, "{seconds} {peak}");
                match worth {
                    "memory" => assert_eq!(why, None),
                    _ => assert!(why.unwrap().contains(reason)),
                }
            }
        }
    }

    #[test]
    fn a_program_that_spends_no_time_in_its_allocator() {
        let program = Program {
            allocator_seconds: 0.002,
            ..PROGRAM
        };
        let (worth, why) = judge(&NOTHING, &program);
        assert_eq!(worth, "no");
        assert!(why.unwrap().contains("all its calls take 0.20 %"));
    }
}
