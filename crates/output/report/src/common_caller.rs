//! The common caller: the innermost function through which most of what is held at the peak was
//! allocated, where no single function that heads stacks holds it.

use allotrope_attribution::{Headlines, Origin};
use allotrope_profile::{Process, Profile};
use rustc_hash::FxHashMap;

/// Least part of the peak that is most of it.
const MOST: f64 = 0.8;

/// A function below which most of the peak was allocated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CommonCaller {
    /// One of its frames: that of the call below which most is.
    pub(crate) frame: u32,
    /// Which part of the bytes at the peak was allocated below it, from 0 to 1.
    pub(crate) share: f64,
}

/// What is known about a function.
#[derive(Clone, Copy, Default)]
struct Below {
    /// Bytes at the peak that were allocated below it.
    bytes: u64,
    /// Of these, those of stacks in which it calls itself, perhaps through others.
    recursive: u64,
    /// Bytes at the peak of stacks that it heads.
    headed: u64,
    /// Sum of its distances from the outermost frame, by bytes.
    depth: f64,
    /// The last stack that was added, and the frame with most bytes so far.
    last: usize,
    frame: (u64, u32),
}

/// The common caller of the blocks at the peak of a process. `None` if a function that heads stacks
/// holds most itself, if only `main` and what starts programs is common, or if nothing is.
///
/// Functions that call themselves are none: an interpreter's loop is below and above everything. If
/// functions of the program's own code are common, one of these is taken, else a named one of any
/// code.
pub(crate) fn common_caller(
    profile: &Profile,
    process: &Process,
    headlines: &Headlines,
) -> Option<CommonCaller> {
    let mut functions: FxHashMap<u32, Below> = FxHashMap::default();
    let mut total = 0_u64;
    for (number, site) in (1..).zip(&process.sites) {
        let bytes = site.bytes_at_peak;
        if bytes == 0 {
            continue;
        }
        // Sites of a damaged or hostile file may have any figures.
        let add = |sum: &mut u64| *sum = sum.saturating_add(bytes);
        add(&mut total);
        if let Some(head) = headlines.head(site) {
            let head = functions.entry(headlines.function(head)).or_default();
            add(&mut head.headed);
        }
        let mut inner = u32::MAX;
        for (depth, &frame) in site.stack.iter().rev().enumerate() {
            let function = headlines.function(frame);
            let is_same = std::mem::replace(&mut inner, function) == function;
            if is_same || headlines.origin(frame) <= Origin::Unnamed {
                continue;
            }
            let below = functions.entry(function).or_default();
            if std::mem::replace(&mut below.last, number) == number {
                add(&mut below.recursive);
                continue;
            }
            add(&mut below.bytes);
            below.depth += depth as f64 * bytes as f64;
            below.frame = below.frame.max((bytes, frame));
        }
    }
    let most = MOST * total as f64;
    let name = |frame: u32| {
        profile
            .frames
            .get(frame as usize)
            .map_or("", |it| &it.function)
    };
    let is_main = |frame: u32| matches!(name(frame).rsplit("::").next(), Some("main"));
    let common = functions
        .values()
        .filter(|it| it.bytes as f64 >= most && total > 0);
    // The program's own before others; of these the innermost.
    let common = common.max_by(|a, b| {
        let rank = |it: &Below| {
            (
                headlines.origin(it.frame.1) >= Origin::Own,
                it.depth / it.bytes as f64,
            )
        };
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })?;
    let says_more = common.headed < common.bytes / 2
        && common.recursive < common.bytes / 2
        && functions.values().all(|it| (it.headed as f64) < most);
    let (_, frame) = common.frame;
    (says_more && !is_main(frame)).then(|| CommonCaller {
        frame,
        share: common.bytes as f64 / total as f64,
    })
}

#[cfg(test)]
mod tests {
    use allotrope_attribution::Glue;
    use allotrope_profile::{Frame, Site};

    use super::*;

    /// The common caller of stacks with these functions, innermost first, and bytes at the peak.
    fn of(stacks: &[(&[&str], u64)]) -> Option<(String, f64)> {
        let mut profile = Profile::default();
        let mut process = Process::default();
        for (number, (stack, bytes)) in (1..).zip(stacks) {
            let first = profile.frames.len() as u32;
            for function in *stack {
                profile.frames.push(Frame {
                    function: (*function).into(),
                    file: "/src/app/main.cc".into(),
                    line: 1,
                    ..Frame::default()
                });
            }
            process.sites.push(Site {
                number,
                stack: (first..profile.frames.len() as u32)
                    .collect::<Vec<_>>()
                    .into(),
                allocations: 1,
                bytes_at_peak: *bytes,
                ..Site::default()
            });
        }
        profile.processes.push(process);
        let headlines = Headlines::new(&profile, &Glue::default());
        let found = common_caller(&profile, &profile.processes[0], &headlines)?;
        let function = profile.frames[found.frame as usize].function.to_string();
        Some((function, found.share))
    }

    #[test]
    fn the_innermost_function_with_most_of_the_peak_below_it_is_named() {
        let found = of(&[
            (&["tiles", "draw", "run", "main"], 50),
            (&["text", "draw", "run", "main"], 42),
            (&["other", "main"], 8),
        ]);
        assert_eq!(found, Some(("draw".to_owned(), 0.92)));
        // Through several callers.
        let found = of(&[
            (&["tiles", "draw", "a", "main"], 50),
            (&["text", "draw", "b", "main"], 50),
        ]);
        assert_eq!(found, Some(("draw".to_owned(), 1.0)));
    }

    #[test]
    fn nothing_is_said_where_the_list_says_it() {
        // The function itself holds it.
        assert_eq!(
            of(&[(&["load", "run", "main"], 95), (&["other", "main"], 5)]),
            None
        );
        assert_eq!(
            of(&[(&["load", "run", "main"], 50), (&["other", "main"], 50)]),
            None
        );
        // A loop of an interpreter.
        let stack: &[&str] = &["list", "eval", "call", "eval", "call", "eval", "main"];
        let other: &[&str] = &["dict", "eval", "call", "eval", "call", "eval", "main"];
        assert_eq!(of(&[(stack, 50), (other, 50)]), None);
        assert_eq!(of(&[]), None);
    }
}
