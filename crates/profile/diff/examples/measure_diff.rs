//! Measures the time and memory of a comparison, for 10 K to 1 M distinct
//! stacks of depth 30 a side.
//!
//! Two cases: in a *version* most stacks are the same; some have other counts,
//! are new or gone, or have renamed, cloned or newly inlined functions. In a
//! *rewrite*, a third of all stacks must be matched by similarity.
//!
//! `cargo run --release -p allotrope-diff --example measure_diff [STACKS...]`

use std::time::Instant;

use allotrope_diff::{DiffOptions, Kind, compare};
use allotrope_profile::{CountedStack, Metric, MetricSet, StackFrame, StackSet};

const DEPTH: usize = 30;
const FUNCTIONS: u64 = 20_000;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// What differs in the second version, per thousand stacks.
#[derive(Clone, Copy)]
struct Changes {
    name: &'static str,
    counted: u64,
    gone_and_new: u64,
    cloned: u64,
    inserted: u64,
    /// One in this many functions is renamed.
    renamed_of: u32,
}

const CASES: [Changes; 2] = [
    Changes {
        name: "version",
        counted: 30,
        gone_and_new: 10,
        cloned: 30,
        inserted: 10,
        renamed_of: 1000,
    },
    Changes {
        name: "rewrite",
        counted: 50,
        gone_and_new: 50,
        cloned: 100,
        inserted: 150,
        renamed_of: 100,
    },
];

fn main() {
    let sizes: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() {
        vec![10_000, 100_000, 1_000_000]
    } else {
        sizes
    };
    println!(
        "case      stacks a side   seconds      cpu   us/stack   input MB   peak MB   entries (folded)"
    );
    for changes in CASES {
        for &size in &sizes {
            measure(changes, size);
        }
    }
}

fn measure(changes: Changes, size: usize) {
    let (before, after) = versions(changes, size);
    // Resets the peak of the previous measurement.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let input = status_mb("VmRSS:");
    let (started, worked) = (Instant::now(), processor_seconds());
    let diff = compare(&[before], &[after], &DiffOptions::default()).expect("comparable");
    let seconds = started.elapsed().as_secs_f64();
    let worked = processor_seconds() - worked;
    let folded = diff
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Moved)
        .count();
    println!(
        "{:8} {size:14} {seconds:9.2} {worked:8.2} {:10.2} {input:10} {:9} {:9} ({folded})",
        changes.name,
        worked * 1e6 / size as f64,
        status_mb("VmHWM:"),
        diff.entries.len(),
    );
}

fn versions(changes: Changes, size: usize) -> (StackSet, StackSet) {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut before = set();
    let mut after = set();
    // The functions of the second version, some renamed, followed by their
    // clones.
    let functions = FUNCTIONS as u32;
    before.frames = (0..functions)
        .map(|f| frame(format!("space::function_{f}")))
        .collect();
    let name = |f: u32| {
        if f % changes.renamed_of == changes.renamed_of - 1 {
            format!("space::renamed_{f}_now")
        } else {
            format!("space::function_{f}")
        }
    };
    let clone = |f| frame(format!("{}.isra.0", name(f)));
    after.frames = (0..functions).map(|f| frame(name(f))).collect();
    after.frames.extend((0..functions).map(clone));
    for _ in 0..size {
        let stack = stack(&mut numbers);
        let count = 1 + numbers.below(1000) * numbers.below(20);
        let position = 1 + numbers.below(DEPTH as u64 - 2) as usize;
        let mut changed = stack.clone();
        let mut rest = numbers.below(1000);
        let mut is = |share: u64| {
            let hit = rest < share;
            rest = if hit {
                u64::MAX
            } else {
                rest.saturating_sub(share)
            };
            hit
        };
        let mut count_after = count;
        if is(changes.counted) {
            count_after += 1 + count / 2;
        } else if is(changes.gone_and_new) {
            changed = self::stack(&mut numbers);
            count_after = 1 + numbers.below(5000);
        } else if is(changes.cloned) {
            changed[position] += functions;
        } else if is(changes.inserted) {
            changed.insert(position, numbers.below(FUNCTIONS) as u32);
        }
        push(&mut before, stack, count);
        push(&mut after, changed, count_after);
    }
    (before, after)
}

/// A random path through a program: many stacks share the outer functions, few
/// the inner ones.
fn stack(numbers: &mut Numbers) -> Vec<u32> {
    let mut stack: Vec<u32> = (0..DEPTH as u64)
        .map(|level| numbers.below((4 << (level / 2)).min(FUNCTIONS)) as u32)
        .collect();
    stack.reverse();
    stack
}

fn frame(function: String) -> StackFrame {
    StackFrame {
        function: function.into(),
        module: "program".into(),
        file: "program.cc".into(),
        line: 1,
        ..StackFrame::default()
    }
}

fn set() -> StackSet {
    StackSet {
        known: MetricSet::OF_STACKS,
        ..StackSet::default()
    }
}

fn push(set: &mut StackSet, frames: Vec<u32>, count: u64) {
    set.stacks.push(CountedStack {
        frames: frames.into_boxed_slice(),
        figures: [count; Metric::OF_STACKS.len()],
        maximum: None,
    });
}

/// CPU time of this thread in seconds; other programs on the machine do not
/// count.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|ns| ns.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// A line of this process's status file, in MB; 0 if missing.
fn status_mb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}
