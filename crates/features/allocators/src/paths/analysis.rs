//! From the steps of operations to the tables of a report.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::paths::code::Code;
use crate::paths::names::Names;
use crate::paths::operation::Operation;
use crate::paths::report::{
    Allocator, Callee, CalleeOfEntry, Function, Instructions, Line, Path, SizeClass,
};

/// The smallest size class, in bytes.
const MIN: u64 = 16;
/// Rows of the table of lines.
const LINES: usize = 200;

/// One run: its operations and the code that they executed.
pub(crate) struct Run {
    pub(crate) operations: Vec<Operation>,
    pub(crate) code: Code,
}

/// Fills in everything but the names of the allocator and its library, and the findings.
/// Tables are of the first run; means are of all.
pub(crate) fn analyse(runs: &[Run], names: &Names) -> Allocator {
    let first = &runs[0];
    let mut entries: Vec<&str> = first.operations.iter().map(|it| it.entry_point).collect();
    entries.sort_unstable();
    entries.dedup();
    let mut instructions = vec![instructions_of(runs, None)];
    instructions.extend(
        entries
            .iter()
            .map(|entry| instructions_of(runs, Some(entry))),
    );
    Allocator {
        name: String::new(),
        library: String::new(),
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        operations: first.operations.len() as u64,
        cut: first.operations.iter().filter(|it| it.cut).count() as u64,
        instructions,
        size_classes: size_classes(&first.operations),
        paths: paths(first, names),
        callees: callees(first, names),
        lines: lines(first, names),
        findings: Vec::new(),
    }
}

fn instructions_of(runs: &[Run], entry: Option<&str>) -> Instructions {
    let is_wanted = |it: &&Operation| entry.is_none_or(|entry| it.entry_point == entry);
    let mut means = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let (mut locked, mut system_calls) = (0, 0);
    for (number, run) in runs.iter().enumerate() {
        let wanted: Vec<&Operation> = run.operations.iter().filter(is_wanted).collect();
        let total: usize = wanted.iter().map(|it| it.steps.len()).sum();
        means.push(total as f64 / wanted.len().max(1) as f64);
        if number == 0 {
            counts = wanted.iter().map(|it| it.steps.len() as u64).collect();
            for step in wanted.iter().flat_map(|it| &it.steps) {
                let instruction = run.code.instruction(*step);
                locked += u64::from(instruction.locked);
                system_calls += u64::from(instruction.system_call);
            }
        }
    }
    counts.sort_unstable();
    let operations = counts.len() as u64;
    let each = |count: u64| count as f64 / operations.max(1) as f64;
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(0.0, f64::max);
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    Instructions {
        entry_point: entry.unwrap_or("all").to_owned(),
        operations,
        // The sum of three equal numbers, divided by three, may differ from each in its last
        // digit, which a limit of +0 would notice.
        mean: mean.max(low).min(high),
        low,
        high,
        median: quantile(&counts, 0.5),
        p99: quantile(&counts, 0.99),
        locked: each(locked),
        system_calls: each(system_calls),
    }
}

/// The smallest value that this part of the sorted values does not exceed.
fn quantile(sorted: &[u64], part: f64) -> u64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// The class of a size: the next power of two, 16 at least.
pub(crate) fn size_class(size: u64) -> u64 {
    size.max(MIN)
        .checked_next_power_of_two()
        .unwrap_or(u64::MAX)
}

fn size_classes(operations: &[Operation]) -> Vec<SizeClass> {
    let mut classes: BTreeMap<(&str, u64), Vec<u64>> = BTreeMap::new();
    for operation in operations {
        let class = (operation.entry_point, size_class(operation.size));
        let counts = classes.entry(class).or_default();
        counts.push(operation.steps.len() as u64);
    }
    let classes = classes.into_iter().map(|((entry, class), mut counts)| {
        counts.sort_unstable();
        SizeClass {
            entry_point: entry.to_owned(),
            up_to_bytes: class,
            operations: counts.len() as u64,
            mean: counts.iter().sum::<u64>() as f64 / counts.len() as f64,
            median: quantile(&counts, 0.5),
        }
    });
    classes.collect()
}

/// Instructions and operations of an entry point.
fn totals(run: &Run) -> HashMap<&'static str, (u64, u64)> {
    let mut totals: HashMap<&'static str, (u64, u64)> = HashMap::new();
    for operation in &run.operations {
        let total = totals.entry(operation.entry_point).or_default();
        total.0 += operation.steps.len() as u64;
        total.1 += 1;
    }
    totals
}

/// What operations of one path have in common.
#[derive(Default)]
struct PathCounts {
    operations: u64,
    /// Instructions of each function, by its position in the path.
    instructions: Vec<u64>,
    /// The first executed address of each function.
    first: Vec<u32>,
}

fn paths(run: &Run, names: &Names) -> Vec<Path> {
    let mut paths: HashMap<(&'static str, Vec<u32>), PathCounts> = HashMap::new();
    for operation in &run.operations {
        let mut order: Vec<u32> = Vec::new();
        let mut counts: Vec<(u64, u32)> = Vec::new();
        for step in &operation.steps {
            let function = names.addresses[*step as usize].function;
            let at = order.iter().position(|known| *known == function);
            let at = at.unwrap_or_else(|| {
                order.push(function);
                counts.push((0, *step));
                order.len() - 1
            });
            counts[at].0 += 1;
        }
        let path = paths.entry((operation.entry_point, order)).or_default();
        path.operations += 1;
        path.instructions.resize(counts.len(), 0);
        for (sum, (count, _)) in path.instructions.iter_mut().zip(&counts) {
            *sum += count;
        }
        if path.first.is_empty() {
            path.first = counts.iter().map(|it| it.1).collect();
        }
    }
    let totals = totals(run);
    let mut rows: Vec<Path> = paths
        .into_iter()
        .map(|((entry, order), counts)| path_row(entry, &order, &counts, totals[entry], names))
        .collect();
    let weight = |path: &Path| path.operations as f64 * path.instructions;
    rows.sort_by(|a, b| {
        let names = |path: &Path| -> Vec<String> {
            path.functions
                .iter()
                .map(|it| it.function.clone())
                .collect()
        };
        weight(b)
            .total_cmp(&weight(a))
            .then_with(|| (&a.entry_point, names(a)).cmp(&(&b.entry_point, names(b))))
    });
    rows
}

fn path_row(
    entry: &str,
    order: &[u32],
    counts: &PathCounts,
    (all_instructions, all_operations): (u64, u64),
    names: &Names,
) -> Path {
    let operations = counts.operations as f64;
    let functions = order.iter().zip(&counts.instructions).zip(&counts.first);
    let functions = functions.map(|((function, instructions), first)| {
        let name = &names.functions[*function as usize];
        let place = &names.addresses[*first as usize];
        Function {
            function: name.name.clone(),
            file: place.file.clone(),
            line: place.line,
            module: name.module.clone(),
            allocator: name.allocator,
            instructions: *instructions as f64 / operations,
        }
    });
    let total: u64 = counts.instructions.iter().sum();
    Path {
        entry_point: entry.to_owned(),
        functions: functions.collect(),
        operations: counts.operations,
        share_of_operations: operations / all_operations.max(1) as f64,
        instructions: total as f64 / operations,
        share_of_instructions: total as f64 / all_instructions.max(1) as f64,
    }
}

fn lines(run: &Run, names: &Names) -> Vec<Line> {
    let mut lines: HashMap<(&str, &str, u32), u64> = HashMap::new();
    let mut total = 0;
    for step in run.operations.iter().flat_map(|it| &it.steps) {
        let named = &names.addresses[*step as usize];
        total += 1;
        if named.line > 0 {
            let key = (&*named.inner, &*named.file, named.line);
            *lines.entry(key).or_default() += 1;
        }
    }
    let mut rows: Vec<_> = lines.into_iter().collect();
    rows.sort_by(|(a, x), (b, y)| (y, a).cmp(&(x, b)));
    rows.truncate(LINES);
    let operations = run.operations.len().max(1) as f64;
    let rows = rows
        .into_iter()
        .map(|((function, file, line), count)| Line {
            function: function.to_owned(),
            file: file.to_owned(),
            line,
            instructions: count as f64 / operations,
            share_of_instructions: count as f64 / total.max(1) as f64,
        });
    rows.collect()
}

/// What the allocator's code calls, where: callee, caller, file, line.
type CallKey = (String, String, String, u32);

#[derive(Default)]
struct Calls {
    /// Operations and instructions by entry point.
    entries: BTreeMap<&'static str, (u64, u64)>,
}

fn callees(run: &Run, names: &Names) -> Vec<Callee> {
    let mut calls: HashMap<CallKey, Calls> = HashMap::new();
    for operation in &run.operations {
        let mut seen: HashSet<CallKey> = HashSet::new();
        for (key, instructions) in calls_of(operation, &run.code, names) {
            let is_new = seen.insert(key.clone());
            let entries = &mut calls.entry(key).or_default().entries;
            let counts = entries.entry(operation.entry_point).or_default();
            counts.0 += u64::from(is_new);
            counts.1 += instructions;
        }
    }
    let totals = totals(run);
    let all: (u64, u64) = totals.values().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let mut rows: Vec<Callee> = Vec::new();
    for ((function, caller, file, line), calls) in calls {
        let entry_points = calls.entries.iter().map(|(entry, counts)| CalleeOfEntry {
            entry_point: (*entry).to_owned(),
            share_of_operations: share(counts.0, totals[entry].1),
            share_of_instructions: share(counts.1, totals[entry].0),
        });
        let entry_points: Vec<CalleeOfEntry> = entry_points.collect();
        let counts = calls
            .entries
            .values()
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        rows.push(Callee {
            kind: kind_of(&function).to_owned(),
            function,
            caller,
            file,
            line,
            share_of_operations: share(counts.0, all.1),
            share_of_instructions: share(counts.1, all.0),
            entry_points,
        });
    }
    rows.sort_by(|a, b| {
        let place = |it: &Callee| (it.function.clone(), it.caller.clone(), it.line);
        b.share_of_instructions
            .total_cmp(&a.share_of_instructions)
            .then_with(|| place(a).cmp(&place(b)))
    });
    rows
}

/// The calls of one operation with their instructions, those of inner calls included; and the
/// system calls and locked instructions of the allocator's own code.
fn calls_of(operation: &Operation, code: &Code, names: &Names) -> Vec<(CallKey, u64)> {
    let mut found: Vec<(CallKey, u64)> = Vec::new();
    // The allocator's last instruction in no stub: the call, if a foreign one follows.
    let mut last: Option<u32> = None;
    let (mut inside_call, mut is_stub) = (false, false);
    for step in &operation.steps {
        let named = &names.addresses[*step as usize];
        let function = &names.functions[named.function as usize];
        let instruction = code.instruction(*step);
        if function.allocator {
            inside_call = false;
            // The stub of a linkage table is not the place of the call.
            if !function.is_stub || last.is_none() {
                last = Some(*step);
            }
            let what = match instruction {
                it if it.system_call => SYSTEM_CALL,
                it if it.locked => LOCKED,
                _ => continue,
            };
            found.push((call_key(what, *step, names), 1));
        } else if inside_call && let Some((key, count)) = found.last_mut() {
            *count += 1;
            // A stub leads to the function that is called.
            if is_stub && !function.is_stub {
                key.0.clone_from(&function.name);
            }
            is_stub &= function.is_stub;
        } else {
            inside_call = true;
            is_stub = function.is_stub;
            // An operation may begin in a wrapper of the C++ library.
            found.push((call_key(&function.name, last.unwrap_or(*step), names), 1));
        }
    }
    found
}

fn call_key(callee: &str, call: u32, names: &Names) -> CallKey {
    let place = &names.addresses[call as usize];
    let caller = names.functions[place.function as usize].name.clone();
    (callee.to_owned(), caller, place.file.clone(), place.line)
}

pub(crate) const SYSTEM_CALL: &str = "system call";
pub(crate) const LOCKED: &str = "locked instruction";

/// What kind of work a function is.
pub(crate) fn kind_of(function: &str) -> &'static str {
    let name = function.trim_start_matches('_');
    let starts = |prefixes: &[&str]| prefixes.iter().any(|it| name.starts_with(it));
    match name {
        SYSTEM_CALL => "system call",
        LOCKED => "lock",
        "getenv" | "secure_getenv" | "setenv" | "putenv" | "unsetenv" => "environment",
        "setlocale" | "uselocale" | "newlocale" | "localeconv" | "nl_langinfo" => "locale",
        _ if starts(&["ctype_", "strcoll", "strxfrm"]) => "locale",
        _ if starts(&[
            "strcmp",
            "strncmp",
            "memcmp",
            "strcasecmp",
            "strncasecmp",
            "bcmp",
        ]) =>
        {
            "string compare"
        }
        _ if starts(&[
            "pthread_mutex",
            "pthread_rwlock",
            "pthread_spin",
            "lll_",
            "sem_",
        ]) =>
        {
            "lock"
        }
        _ if starts(&["pthread_cond", "mtx_"]) => "lock",
        "mmap" | "mmap64" | "munmap" | "mremap" | "madvise" | "mprotect" | "brk" | "sbrk"
        | "syscall" | "sched_yield" | "read" | "write" | "open" | "openat" | "close"
        | "getrandom" | "sysconf" | "sched_getcpu" => "system call",
        _ if starts(&["memcpy", "memmove", "memset", "bzero"]) => "memory",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (function, kind) in [
            ("getenv", "environment"),
            ("__strncmp_avx2", "string compare"),
            ("pthread_mutex_lock", "lock"),
            ("__lll_lock_wait_private", "lock"),
            ("madvise", "system call"),
            ("system call", "system call"),
            ("locked instruction", "lock"),
            ("__memset_avx2_unaligned_erms", "memory"),
            ("__ctype_b_loc", "locale"),
            ("log_free", "other"),
        ] {
            assert_eq!(kind_of(function), kind, "{function}");
        }
    }

    #[test]
    fn classes_and_quantiles() {
        assert_eq!([0, 16, 17, 32, 33].map(size_class), [16, 16, 32, 32, 64]);
        assert_eq!(size_class(u64::MAX), u64::MAX);
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.99), 4);
    }
}
