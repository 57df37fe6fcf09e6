//! Names and tables: shares of CPU time by entry point, function, line and calling site.

use std::collections::BTreeMap;

use allotrope_symbols::Locator;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::cpu::annotation::{Annotation, Sources};
use crate::cpu::breakdown::{Breakdown, Collector, OwnGroup};
use crate::cpu::chosen::Chosen;
use crate::cpu::counter::{Counter, add_rates};
use crate::cpu::doubts;
use crate::cpu::folded::{self, Folded};
use crate::cpu::names::{Evidence, Key, Names};
use crate::cpu::operations::Operations;
use crate::cpu::origin::Origin;
use crate::cpu::quantity::Quantity;
use crate::cpu::rows::{Row, Share, row, share, sorted};
use crate::cpu::session::{Counts, Session};
use crate::cpu::stacks::{Codes, Stack, Step, stacks};

/// The name and number of the format of the JSON.
pub(crate) const FORMAT: &str = "allotrope-cpu/1";

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
    /// Everything inside the allocator, by proof.
    pub inside: Share,
    /// The same with what is a guess; equal to `inside` if nothing is.
    pub inside_with_guesses: Share,
    /// Rows by the function that is thought to be the allocator's, and why: what
    /// `inside_with_guesses` has beside `inside`. No other table has it as inside.
    pub guesses: Vec<Guess>,
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
    /// Why each counter that is `null` is unavailable.
    pub unavailable: BTreeMap<&'static str, String>,
    /// Calls of the allocator in the run; `null` if they are not known.
    pub operations: Option<u64>,
    /// How they are known: `given`, `recording` or `second run`; `null` if they are not.
    pub operations_source: Option<&'static str>,
    /// The calls of a further run, if they were counted twice.
    pub operations_again: Option<u64>,
    /// Nanoseconds of CPU time inside the allocator an operation.
    pub nanoseconds_per_operation: Option<f64>,
    /// Groups, parts of the program, what is outside.
    #[serde(flatten)]
    pub breakdown: Breakdown,
    /// The functions of which the instructions were asked for.
    pub annotations: Vec<Annotation>,
    /// The stacks, if they were asked for.
    #[serde(skip)]
    pub folded: Vec<Folded>,
    /// What was run, when and where.
    pub origin: Origin,
    /// The program's own figures, in the order in which it printed them.
    pub scores: Vec<Score>,
    /// What cannot be right, or makes figures doubtful, as sentences.
    pub doubts: Vec<String>,
}

/// A function that may be the allocator's, called without an entry point of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guess {
    /// The function, with the samples that only it puts inside.
    #[serde(flatten)]
    pub row: Row,
    /// Why it is thought to be the allocator's.
    pub reason: &'static str,
}

/// What is known and wanted beside the samples.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The calls of the allocator in the run, if they are known.
    pub operations: Option<Operations>,
    /// Instructions of an operation on average, as stepping has counted them, if it has.
    pub exact_instructions: Option<f64>,
    /// Functions that are the allocator's, whatever else is known of them.
    pub chosen: &'a Chosen,
    /// Groups to sum up.
    pub groups: &'a [OwnGroup],
    /// Functions of which the instructions are wanted.
    pub annotate: &'a [String],
    /// Whether the stacks themselves are wanted.
    pub folded: bool,
    /// What was run, when and where.
    pub origin: Origin,
    /// The program's own figures.
    pub scores: Vec<Score>,
}

/// A figure that the program has printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The line in which it stands.
    pub line: String,
    /// The number.
    pub value: f64,
}

impl Profile {
    /// The profile of a finished session.
    pub fn new(session: &Session, locator: &Locator, wanted: Wanted<'_>) -> Self {
        let codes = Codes::read(session);
        let stacks = stacks(session, &codes);
        let names = Names::new(session, &codes, &stacks, wanted.chosen, locator);
        let mut tables = Tables::default();
        let mut collector = Collector::new(wanted.groups);
        for stack in &stacks {
            let entry = tables.add(stack, &names);
            collector.add(&stack.steps, stack.counts, entry, &names);
        }
        let breakdown = collector.finish(&names);
        let sources = Sources {
            modules: &session.modules.all,
            codes: &codes,
            stacks: &stacks,
            names: &names,
            locator,
        };
        let annotations = sources.annotations(wanted.annotate);
        let folded = match wanted.folded {
            true => folded::of(&stacks, &names),
            false => Vec::new(),
        };
        let mut profile = tables.finish(session, &names, wanted.operations);
        profile.doubts.extend(doubts::among(&profile.counters));
        if let Some(exact) = wanted.exact_instructions {
            let counters = profile.counters.iter();
            let counters = counters.filter_map(|(name, it)| Some((*name, (*it)?.per_operation?)));
            profile.doubts.extend(doubts::against(counters, exact));
        }
        Self {
            breakdown,
            annotations,
            folded,
            origin: wanted.origin,
            scores: wanted.scores,
            ..profile
        }
    }
}

/// Which steps of a stack are the allocator's and what it called.
struct Inside {
    /// Index of the innermost frame of the allocator.
    first: usize,
    /// Index of the function through which the program called.
    entry: usize,
}

/// What of a stack is inside of an allocator: the innermost frames of the allocator, and all that
/// they called. `operator new` of libstdc++ belongs to it. In a program that an allocator is linked
/// into, frames between two of the allocator are taken for its own: nothing tells helpers from
/// functions that it calls back.
fn inside(steps: &[Step], evidence: &[Evidence], names: &Names<'_>) -> Option<Inside> {
    let is_proven = |it: &Evidence| *it == Evidence::Proof;
    let first = evidence.iter().position(is_proven)?;
    let run = evidence[first..].iter();
    let run = run.take_while(|it| **it > Evidence::None).count();
    let run = &evidence[first..first + run];
    let mut entry = first + run.iter().rposition(is_proven).unwrap_or(0);
    let module = steps[entry].frame.module;
    if names.is_linked(module) {
        let same = steps[entry..].iter();
        let same = same.take_while(|it| it.frame.module == module).count();
        let further = evidence[entry..entry + same].iter();
        entry += further
            .rev()
            .position(is_proven)
            .map_or(0, |it| same - 1 - it);
    }
    Some(Inside { first, entry })
}

#[derive(Default)]
struct Tables {
    all: Counts,
    inside: Counts,
    guessed: Counts,
    without_stack: u64,
    allocators: FxHashSet<u32>,
    guesses: FxHashMap<Key, (Counts, &'static str)>,
    entry_points: FxHashMap<Key, Counts>,
    functions: FxHashMap<Key, Counts>,
    lines: FxHashMap<Key, Counts>,
    sites: FxHashMap<Key, Counts>,
}

impl Tables {
    /// Adds a stack; returns the index of the allocator's entry point in it.
    fn add(&mut self, stack: &Stack<'_>, names: &Names<'_>) -> Option<usize> {
        let Stack { steps, counts } = stack;
        self.all.add(counts);
        if steps.is_empty() {
            self.without_stack += counts.samples;
        }
        let evidence: Vec<Evidence> = steps.iter().map(|it| names.evidence(it)).collect();
        let Some(Inside { first, entry }) = inside(steps, &evidence, names) else {
            self.add_guess(stack, &evidence, names);
            return None;
        };
        self.inside.add(counts);
        for step in &steps[first..=entry] {
            self.allocators.insert(step.frame.module);
        }
        let add = |table: &mut FxHashMap<Key, Counts>, key| {
            table.entry(key).or_default().add(counts);
        };
        let innermost = &steps[0].frame;
        add(&mut self.entry_points, names.function(&steps[entry].frame));
        add(&mut self.functions, names.function(innermost));
        add(&mut self.lines, names.line(innermost));
        let site = match steps.get(entry + 1) {
            Some(caller) => names.line(&caller.frame),
            None => Names::unknown_caller(),
        };
        add(&mut self.sites, site);
        Some(entry)
    }

    fn add_guess(&mut self, stack: &Stack<'_>, evidence: &[Evidence], names: &Names<'_>) {
        let is_guessed = |it: &Evidence| *it == Evidence::Guess;
        let Some(first) = evidence.iter().position(is_guessed) else {
            return;
        };
        let run = evidence[first..].iter().take_while(|it| is_guessed(it));
        let outermost = &stack.steps[first + run.count() - 1];
        self.guessed.add(stack.counts);
        let row = self
            .guesses
            .entry(names.function(&outermost.frame))
            .or_insert_with(|| (Counts::default(), names.reason(outermost)));
        row.0.add(stack.counts);
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
        let mut with_guesses = self.inside;
        with_guesses.add(&self.guessed);
        let mut reasons: FxHashMap<Key, &'static str> = FxHashMap::default();
        let guesses = self.guesses.into_iter().map(|(key, (counts, reason))| {
            reasons.insert(key.clone(), reason);
            (key, counts)
        });
        let guesses = sorted(guesses.collect())
            .into_iter()
            .map(|(key, counts)| Guess {
                reason: reasons.get(&key).copied().unwrap_or_default(),
                row: row(key, &counts, samples, names),
            });
        let guesses: Vec<Guess> = guesses.collect();
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
        let mut unavailable = BTreeMap::new();
        let counters = Quantity::COUNTERS.map(|quantity| {
            let at = match quantity == Quantity::Cycles && !is_time {
                true => clock,
                false => quantity as usize,
            };
            let mut missing = session.unavailable().iter();
            if let Some((_, why)) = missing.find(|(of, _)| *of == quantity) {
                unavailable.insert(quantity.name(), why.clone());
                return (quantity.name(), None);
            }
            let (all, inside) = (self.all.amounts[at], self.inside.amounts[at]);
            let counted = match session.counted[at] {
                Some(it) => Some((it.amount, it.part, part(it.amount, inside, all))),
                None if session.lost > 0 => None,
                None => Some((all, 1.0, inside)),
            };
            if counted.is_none() {
                lost_counters.push(quantity.name());
                unavailable.insert(quantity.name(), LOST.to_owned());
            }
            let counter = counted.map(|(total, counted_part, inside)| Counter {
                counted_part,
                per_operation: per_operation(inside),
                ..Counter::of(total, inside)
            });
            (quantity.name(), counter)
        });
        let mut counters = BTreeMap::from(counters);
        add_rates(&mut counters);
        let nanoseconds_per_operation = is_time
            .then(|| per_operation(self.inside.amounts[clock]))
            .flatten();
        Profile {
            breakdown: Breakdown::default(),
            annotations: Vec::new(),
            folded: Vec::new(),
            origin: Origin::default(),
            scores: Vec::new(),
            doubts: doubts::of(operations, nanoseconds_per_operation),
            operations_again: operations.and_then(|it| it.again),
            format: FORMAT,
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
            inside_with_guesses: share(&with_guesses, samples),
            guesses,
            entry_points: rows(self.entry_points),
            functions: rows(self.functions),
            lines: rows(self.lines),
            sites: rows(self.sites),
            counters,
            lost_counters,
            unavailable,
            operations: operations.map(|it| it.number),
            operations_source: operations.map(|it| it.source),
            nanoseconds_per_operation,
        }
    }
}

/// Why there is no sum of samples.
const LOST: &str = "records were lost";

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

fn rows(table: FxHashMap<Key, Counts>, samples: u64, names: &Names<'_>) -> Vec<Row> {
    let rows = sorted(table).into_iter();
    rows.map(|(key, counts)| row(key, &counts, samples, names))
        .collect()
}
