//! Tables that follow from those of `paths`: hot functions, what a change would save,
//! and what it did save.

use crate::paths::compare::compare;
use crate::paths::findings::names;
use crate::paths::report::{Allocator as Stepped, Callee, Path, Report as Paths};

use crate::hot_functions::share_of_all;
use crate::report::{Change, Estimate};

/// Estimates below this share of all instructions are left out.
const MIN: f64 = 0.001;

/// What removing callees and paths would save, the most first.
pub(crate) fn estimates(stepped: &Stepped) -> Vec<Estimate> {
    let mean = mean(stepped);
    let callees = stepped.callees.iter().filter(|it| is_function(it));
    let mut all: Vec<Estimate> = callees.map(|it| of_callee(it, mean)).collect();
    all.extend(stepped.paths.iter().filter_map(|it| of_path(it, stepped)));
    all.retain(|it| it.saved_share >= MIN);
    all.sort_by(|a, b| b.saved_instructions.total_cmp(&a.saved_instructions));
    all
}

fn mean(stepped: &Stepped) -> f64 {
    stepped.instructions.first().map_or(0.0, |it| it.mean)
}

/// Whether the callee is a function, not a single instruction of the allocator's own code, whose
/// cost is not its number.
fn is_function(callee: &Callee) -> bool {
    !matches!(&*callee.function, "locked instruction" | "system call")
}

/// Estimates the saving without the callee: its instructions and those of what it calls are not
/// executed.
fn of_callee(callee: &Callee, mean: f64) -> Estimate {
    Estimate {
        kind: "callee",
        function: callee.function.clone(),
        by: callee.caller.clone(),
        file: callee.file.clone(),
        line: callee.line,
        share_of_operations: callee.share_of_operations,
        saved_instructions: callee.share_of_instructions * mean,
        saved_share: callee.share_of_instructions,
    }
}

/// Estimates the saving without the path: its operations take the most frequent one of the entry
/// point. `None` if that would not save anything.
fn of_path(path: &Path, stepped: &Stepped) -> Option<Estimate> {
    let same = stepped.paths.iter();
    let same = same.filter(|it| it.entry_point == path.entry_point);
    let usual = same.max_by_key(|it| it.operations)?;
    let share_of_operations = share_of_all(path.operations, stepped);
    let saved = (path.instructions - usual.instructions) * share_of_operations;
    let first = path.functions.first();
    (saved > 0.0).then(|| Estimate {
        kind: "path",
        function: path.entry_point.clone(),
        by: names(path),
        file: first.map_or_else(String::new, |it| it.file.clone()),
        line: first.map_or(0, |it| it.line),
        share_of_operations,
        saved_instructions: saved,
        saved_share: saved / mean(stepped).max(1.0),
    })
}

/// Two versions of an allocator: what the change saved, beside what the earlier version's
/// callees that are gone were estimated to take. Both are of the same operations.
pub(crate) fn change(
    before: &Stepped,
    after: &Stepped,
    recorded_operations: u64,
    every: u64,
) -> Change {
    let report = |stepped: &Stepped| Paths {
        format: crate::paths::report::FORMAT.to_owned(),
        recording: String::new(),
        recorded_operations,
        every,
        environment: None,
        allocators: vec![stepped.clone()],
    };
    let (rows, refused) = match compare(&report(before), &report(after), &[]) {
        Ok(comparison) => (comparison.rows, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let is_gone = |callee: &&Callee| {
        let mut left = after.callees.iter();
        is_function(callee) && !left.any(|it| it.function == callee.function)
    };
    let gone = before.callees.iter().filter(is_gone);
    let removed: Vec<Estimate> = gone.map(|it| of_callee(it, mean(before))).collect();
    Change {
        name: after.name.clone(),
        before_library: (!before.library.is_empty()).then(|| before.library.clone()),
        measured_saving: refused.is_none().then(|| mean(before) - mean(after)),
        estimated_saving: (!removed.is_empty()).then(|| {
            let saved = removed.iter().map(|it| it.saved_instructions);
            saved.sum()
        }),
        refused,
        before: None,
        rows,
        removed,
        time: None,
        not_timed: None,
        program: None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::hot_functions::functions;
    use crate::paths::report::{Function, Instructions};

    /// Two paths of `free`: 90 operations of 10 instructions, 10 of 110, of which 100 are
    /// `getenv`.
    pub(crate) fn stepped() -> Stepped {
        let function = |name: &str, allocator, instructions| Function {
            function: name.to_owned(),
            file: String::new(),
            line: 0,
            module: "m".to_owned(),
            allocator,
            instructions,
        };
        let path = |functions: Vec<Function>, operations: u64| Path {
            entry_point: "free".to_owned(),
            operations,
            share_of_operations: operations as f64 / 100.0,
            instructions: functions.iter().map(|it| it.instructions).sum(),
            share_of_instructions: 0.5,
            functions,
        };
        let instructions = Instructions {
            entry_point: "all".to_owned(),
            operations: 100,
            mean: 20.0,
            low: 20.0,
            high: 20.0,
            median: 10,
            p99: 110,
            locked: 0.0,
            system_calls: 0.0,
        };
        let callee = |function: &str, share_of_instructions| Callee {
            function: function.to_owned(),
            kind: "environment".to_owned(),
            caller: "free".to_owned(),
            file: "a.c".to_owned(),
            line: 3,
            share_of_operations: 0.1,
            share_of_instructions,
            entry_points: Vec::new(),
        };
        Stepped {
            name: "mine".to_owned(),
            library: "/mine.so".to_owned(),
            runs: 2,
            operations: 100,
            cut: 0,
            instructions: vec![instructions],
            size_classes: Vec::new(),
            paths: vec![
                path(
                    vec![
                        function("free", true, 10.0),
                        function("getenv", false, 100.0),
                    ],
                    10,
                ),
                path(vec![function("free", true, 10.0)], 90),
            ],
            callees: vec![callee("getenv", 0.5), callee("locked instruction", 0.05)],
            lines: Vec::new(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn functions_have_their_own_instructions_of_all_paths() {
        let rows = functions(&stepped());
        let of = |name: &str| {
            let row = rows.iter().find(|it| it.function == name).unwrap();
            (row.instructions, row.share_of_instructions)
        };
        // 10 in each operation; 100 in a tenth of them.
        assert_eq!(of("free"), (10.0, 0.5));
        assert_eq!(of("getenv"), (10.0, 0.5));
    }

    #[test]
    fn a_callee_and_a_path_are_estimated() {
        let all = estimates(&stepped());
        let kinds: Vec<(&str, f64)> = all
            .iter()
            .map(|it| (it.kind, it.saved_instructions))
            .collect();
        // The callee: half of 20. The path: 100 more than the usual one in a tenth. A locked
        // instruction is none.
        assert_eq!(kinds, [("callee", 10.0), ("path", 10.0)]);
    }

    #[test]
    fn a_change_is_beside_its_estimate() {
        let mut after = stepped();
        after.callees.remove(0);
        after.instructions[0].mean = 9.0;
        let change = change(&stepped(), &after, 100, 1);
        assert_eq!(change.estimated_saving, Some(10.0));
        assert_eq!(change.measured_saving, Some(11.0));
        assert_eq!(change.removed.len(), 1);
        assert_eq!(change.rows[0].before, 20.0);
    }
}
