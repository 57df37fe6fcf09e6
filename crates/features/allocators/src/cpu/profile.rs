//! Names and tables: shares of CPU time by entry point, function, line and calling site.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use allotrope_symbols::{Locator, ModuleSymbols, NamedFrame as Named, Nearest, Ran, Resolved};
use allotrope_text::text_of;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::cpu::allocator_code::{Kind, belongs, plain};
use crate::cpu::events::Quantity;
use crate::cpu::module::Module;
use crate::cpu::session::{Counts, Session};
use crate::cpu::space::Frame;

/// What was sampled, and where it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// `allotrope-cpu/1`.
    pub format: &'static str,
    /// The clock: `cycles` or `cpu-clock`.
    pub clock: &'static str,
    /// `precise_ip` of perf_event_open(2).
    pub precise_ip: u8,
    /// What the instruction of a sample means.
    pub skid: &'static str,
    /// Whether time in the kernel is part of it.
    pub kernel: bool,
    /// Samples of CPU time.
    pub samples: u64,
    /// Records that the kernel dropped.
    pub lost: u64,
    /// Samples of counters rather than of the clock have filled the buffer.
    #[serde(skip)]
    pub is_lost_to_counters: bool,
    /// Samples whose frames are unknown: no user space registers, or a process whose code is
    /// unknown.
    pub samples_without_stack: u64,
    /// CPU seconds; absent if the clock counts cycles.
    pub cpu_seconds: Option<f64>,
    /// The allocators that were found, by the path of their code.
    pub allocators: Vec<String>,
    /// Everything inside the allocator.
    pub inside: Share,
    /// Rows by the function through which the program called.
    pub entry_points: Vec<Row>,
    /// Rows by the function that executed, of the allocator or called by it.
    pub functions: Vec<Row>,
    /// Rows by source line, inlined code at its own line.
    pub lines: Vec<Row>,
    /// Rows by the code that called the allocator.
    pub sites: Vec<Row>,
    /// Counters by name; `null`: unavailable.
    pub counters: BTreeMap<&'static str, Option<Counter>>,
    /// The counters that are unavailable because records were lost, of which nothing else tells
    /// how much they counted.
    pub lost_counters: Vec<&'static str>,
    /// Calls of the allocator in the run; `null` if they are not known.
    pub operations: Option<u64>,
    /// How they are known: `given`, `recording` or `second run`; `null` if they are not.
    pub operations_source: Option<&'static str>,
    /// Nanoseconds of CPU time inside the allocator an operation.
    pub nanoseconds_per_operation: Option<f64>,
}

/// A part of all samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// Samples.
    pub samples: u64,
    /// Samples that were in the kernel.
    pub kernel_samples: u64,
    /// Samples of all samples, 0 to 1.
    pub share: f64,
    /// The 95 % interval of the share (Wilson score).
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The function. Without a name, its distance from the nearest exported function or the
    /// start of its section: `malloc+0x340 (no symbol)`.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown or if the row is of a whole function.
    pub line: u32,
    /// The path of its module.
    pub module: String,
    /// Whether it belongs to the allocator; otherwise the allocator calls it, or it calls.
    pub allocator: bool,
    /// Part of the samples that the row has.
    #[serde(flatten)]
    pub share: Share,
}

/// What a counter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counter {
    /// Amount in all code: exact, unless threads had to be counted twice (those of a process that
    /// began while others were opened); then estimated from samples.
    pub total: u64,
    /// Amount inside the allocator, estimated from samples.
    pub inside: u64,
    /// Amount inside the allocator, an operation; `null` if the operations are not known, or if too
    /// little was counted for a sample of it. Never 0.
    pub per_operation: Option<f64>,
}

/// The calls of the allocator in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Number of the calls.
    pub number: u64,
    /// How the number is known.
    pub source: &'static str,
}

impl Operations {
    /// The user states them.
    pub const GIVEN: &'static str = "given";
    /// A recording has them.
    pub const RECORDING: &'static str = "recording";
    /// They were counted in a second run of the program.
    pub const SECOND_RUN: &'static str = "second run";
}

impl Profile {
    /// The profile of a finished session. `operations` are the calls of the allocator in the
    /// run, if they are known.
    pub fn new(session: &Session, locator: &Locator, operations: Option<Operations>) -> Self {
        let names = Names::new(session, locator);
        let mut tables = Tables::default();
        for (stack, counts) in &session.stacks {
            tables.add(stack, counts, &names);
        }
        tables.finish(session, &names, operations)
    }
}

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    function: String,
    file: String,
    line: u32,
    module: u32,
    allocator: bool,
}

#[derive(Default)]
struct Tables {
    all: Counts,
    inside: Counts,
    without_stack: u64,
    allocators: FxHashSet<u32>,
    entry_points: FxHashMap<Key, Counts>,
    functions: FxHashMap<Key, Counts>,
    lines: FxHashMap<Key, Counts>,
    sites: FxHashMap<Key, Counts>,
}

impl Tables {
    fn add(&mut self, stack: &[Frame], counts: &Counts, names: &Names<'_>) {
        self.all.add(counts);
        if stack.is_empty() {
            self.without_stack += counts.samples;
        }
        // The innermost frames of the allocator, and all that it called: the run of its
        // frames that ends at the entry point. `operator new` of libstdc++ belongs to it.
        let Some(first) = stack.iter().position(|frame| names.is_allocator(frame)) else {
            return;
        };
        let run = stack[first..].iter();
        let entry = first + run.take_while(|frame| names.is_allocator(frame)).count() - 1;
        self.inside.add(counts);
        for frame in &stack[first..=entry] {
            self.allocators.insert(frame.module);
        }
        let add = |table: &mut FxHashMap<Key, Counts>, key| {
            table.entry(key).or_default().add(counts);
        };
        add(&mut self.entry_points, names.function(&stack[entry]));
        add(&mut self.functions, names.function(&stack[0]));
        add(&mut self.lines, names.line(&stack[0]));
        let site = match stack.get(entry + 1) {
            Some(caller) => names.line(caller),
            None => Key {
                function: "[unknown caller]".to_owned(),
                file: String::new(),
                line: 0,
                module: u32::MAX,
                allocator: false,
            },
        };
        add(&mut self.sites, site);
    }

    fn finish(
        self,
        session: &Session,
        names: &Names<'_>,
        operations: Option<Operations>,
    ) -> Profile {
        let source = session.source();
        let samples = self.all.samples;
        let rows = |table: FxHashMap<Key, Counts>| rows(table, samples, names);
        let mut allocators: Vec<String> =
            self.allocators.iter().map(|it| names.path(*it)).collect();
        allocators.sort();
        let clock = Quantity::Clock as usize;
        let is_time = source.name == "cpu-clock";
        // What was never sampled is unknown, not 0.
        let per_operation = |amount: u64| {
            let number = operations?.number.max(1);
            (amount > 0).then(|| amount as f64 / number as f64)
        };
        let mut lost_counters = Vec::new();
        let counters = Quantity::COUNTERS.map(|quantity| {
            let at = match quantity == Quantity::Cycles && !is_time {
                true => clock,
                false => quantity as usize,
            };
            if session.unavailable().contains(&quantity) {
                return (quantity.name(), None);
            }
            let (all, inside) = (self.all.amounts[at], self.inside.amounts[at]);
            let counted = match session.counted[at] {
                Some(total) => Some((total, part(total, inside, all))),
                None if session.lost > 0 => None,
                None => Some((all, inside)),
            };
            if counted.is_none() {
                lost_counters.push(quantity.name());
            }
            let counter = counted.map(|(total, inside)| Counter {
                total,
                inside,
                per_operation: per_operation(inside),
            });
            (quantity.name(), counter)
        });
        Profile {
            format: "allotrope-cpu/1",
            clock: source.name,
            precise_ip: source.precise,
            skid: skid(source.name, source.precise),
            kernel: source.kernel,
            samples,
            lost: session.lost,
            is_lost_to_counters: session.counter_samples > samples,
            samples_without_stack: self.without_stack,
            cpu_seconds: is_time.then(|| self.all.amounts[clock] as f64 / 1e9),
            allocators,
            inside: share(&self.inside, samples),
            entry_points: rows(self.entry_points),
            functions: rows(self.functions),
            lines: rows(self.lines),
            sites: rows(self.sites),
            counters: counters.into(),
            lost_counters,
            operations: operations.map(|it| it.number),
            operations_source: operations.map(|it| it.source),
            nanoseconds_per_operation: is_time
                .then(|| per_operation(self.inside.amounts[clock]))
                .flatten(),
        }
    }
}

/// The part of an exact total that the samples put inside: they may be fewer than what was
/// counted, since some are lost, and since a thread that ends leaves a part of a period.
fn part(total: u64, inside: u64, all: u64) -> u64 {
    match all {
        0 => 0,
        all => (total as f64 * (inside as f64 / all as f64)).round() as u64,
    }
}

fn skid(clock: &str, precise: u8) -> &'static str {
    match (clock, precise) {
        ("cpu-clock", _) => {
            "a timer interrupts the program, and a sample names the instruction that would have been next: time of a slow instruction is often shown at the one after it, so a line can be off by one; shares of functions are right"
        }
        (_, 0) => {
            "the processor reports an instruction some cycles late: a line can be off by several; shares of functions are nearly right"
        }
        _ => {
            "the processor itself notes the instruction (precise_ip): it is at most the one after the one that took the time"
        }
    }
}

/// The largest first.
fn rows(table: FxHashMap<Key, Counts>, samples: u64, names: &Names<'_>) -> Vec<Row> {
    let mut rows: Vec<(Key, Counts)> = table.into_iter().collect();
    rows.retain(|(_, counts)| counts.samples > 0);
    rows.sort_by(|(a, x), (b, y)| (y.samples, a).cmp(&(x.samples, b)));
    let rows = rows.into_iter().map(|(key, counts)| Row {
        function: key.function,
        file: key.file,
        line: key.line,
        module: names.path(key.module),
        allocator: key.allocator,
        share: share(&counts, samples),
    });
    rows.collect()
}

fn share(counts: &Counts, of: u64) -> Share {
    let (low, high) = wilson(counts.samples, of);
    Share {
        samples: counts.samples,
        kernel_samples: counts.kernel_samples,
        share: counts.samples as f64 / of.max(1) as f64,
        low,
        high,
    }
}

/// The 95 % score interval of a proportion (Wilson, JASA 22, 1927).
fn wilson(hits: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    )
}

/// The names of all frames.
struct Names<'a> {
    session: &'a Session,
    kinds: Vec<Kind>,
    named: FxHashMap<Frame, Vec<Named>>,
    /// What is known of code without a name, by frame.
    unnamed: FxHashMap<Frame, String>,
}

impl<'a> Names<'a> {
    fn new(session: &'a Session, locator: &Locator) -> Self {
        let mut wanted: FxHashMap<u32, FxHashSet<(u64, bool)>> = FxHashMap::default();
        for frame in session.stacks.keys().flatten() {
            let wanted = wanted.entry(frame.module).or_default();
            wanted.insert((frame.address, frame.exact));
        }
        let mut named = FxHashMap::default();
        let mut unnamed = FxHashMap::default();
        for (number, addresses) in wanted {
            let Some(module) = session.modules.all.get(number as usize) else {
                continue;
            };
            let path = Path::new(OsStr::from_bytes(&module.path));
            // Read only if something has no name.
            let nearest = LazyCell::new(|| Nearest::read(locator, path));
            let addresses: Vec<(u64, bool)> = addresses.into_iter().collect();
            let symbols = ModuleSymbols::load(
                locator,
                path,
                &Ran::new(&module.build_id, module.file),
                None,
            );
            let symbols = symbols.ok();
            let mut found = symbols.map(|it| it.resolve(&addresses)).unwrap_or_default();
            found.resize_with(addresses.len(), Resolved::default);
            for ((address, exact), found) in addresses.iter().zip(found) {
                let frame = Frame {
                    module: number,
                    address: *address,
                    exact: *exact,
                };
                if found.frames.is_empty() {
                    let inside = address.saturating_sub(u64::from(!exact));
                    unnamed.extend(nearest.describe(inside).map(|it| (frame, it.name)));
                } else {
                    named.insert(frame, found.frames);
                }
            }
        }
        let kinds = session.modules.all.iter().map(|module| kind(module));
        Self {
            session,
            kinds: kinds.collect(),
            named,
            unnamed,
        }
    }

    fn frames(&self, frame: &Frame) -> &[Named] {
        self.named.get(frame).map_or(&[], |it| it)
    }

    fn is_allocator(&self, frame: &Frame) -> bool {
        let kind = self.kinds.get(frame.module as usize);
        let function = self.frames(frame).last();
        let function = function.map(|it| &*it.function);
        kind.is_some_and(|kind| belongs(*kind, function))
    }

    fn key(&self, frame: &Frame, named: Option<&Named>, with_line: bool) -> Key {
        let (file, line) = match named.filter(|_| with_line) {
            Some(named) => (named.file.to_string(), named.line),
            None => (String::new(), 0),
        };
        Key {
            function: match named {
                Some(named) => self.shown(frame, &named.function).to_owned(),
                None => self.unnamed(frame),
            },
            file,
            line,
            module: frame.module,
            allocator: self.is_allocator(frame),
        }
    }

    fn unnamed(&self, frame: &Frame) -> String {
        if let Some(name) = self.unnamed.get(frame) {
            return name.clone();
        }
        let path = self.path(frame.module);
        match path.rsplit('/').next().unwrap_or_default() {
            "" => format!("{:#x}", frame.address),
            name => format!("{name}+{:#x}", frame.address),
        }
    }

    /// The function that is not inlined.
    fn function(&self, frame: &Frame) -> Key {
        self.key(frame, self.frames(frame).last(), false)
    }

    /// The innermost function and its line.
    fn line(&self, frame: &Frame) -> Key {
        self.key(frame, self.frames(frame).first(), true)
    }

    /// The name that programs call: `malloc` rather than `__GI___libc_malloc`.
    fn shown<'n>(&self, frame: &Frame, function: &'n str) -> &'n str {
        match self.kinds.get(frame.module as usize) {
            Some(Kind::CLibrary) => plain(function),
            _ => function,
        }
    }

    fn path(&self, module: u32) -> String {
        let module = self.session.modules.all.get(module as usize);
        module.map_or_else(String::new, |it| text_of(&it.path).into_owned())
    }
}

fn kind(module: &Module) -> Kind {
    let exports = module.exports;
    match exports.malloc {
        _ if exports.c_library => Kind::CLibrary,
        // The loader has a malloc for its own use; programs have much more than theirs.
        true if !exports.program && !is_loader(&module.path) => Kind::Allocator,
        _ => Kind::Other,
    }
}

fn is_loader(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-") || name.starts_with(b"ld.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from the formula, computed by hand: 0 of 10 has the upper end
    /// z² / (n + z²) = 3.8415 / 13.8415.
    #[test]
    fn the_score_interval() {
        let (low, high) = wilson(0, 10);
        assert_eq!(low, 0.0);
        assert!((high - 0.277_53).abs() < 1e-4);
        let (low, high) = wilson(50, 100);
        assert!((low + high - 1.0).abs() < 1e-12);
        assert!(low < 0.41 && low > 0.40);
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
