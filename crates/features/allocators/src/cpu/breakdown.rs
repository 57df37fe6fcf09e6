//! What the samples are made of beside the allocator's own tables: groups of functions with what
//! removing each would gain, the program's tests, their call graphs, and all that is outside.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cpu::chosen::Pattern;
use crate::cpu::names::{Key, Names};
use crate::cpu::rows::{Row, Share, row, share, sorted};
use crate::cpu::session::Counts;
use crate::cpu::space::NO_MODULE;
use crate::cpu::stacks::Step;

/// A test with this share of all samples is no test: its parts are.
const ALL: f64 = 0.95;
/// Calls with a smaller share of all samples are left out.
const MIN_SHARE: f64 = 0.001;
/// Deeper calls are left out.
const MAX_DEPTH: usize = 32;
/// Functions of a group, and functions after the first fix, that are named.
const NAMED: usize = 10;

/// A group of functions that the user wants to have summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnGroup {
    /// Its name.
    pub name: String,
    /// Its functions.
    pub pattern: Pattern,
}

impl std::str::FromStr for OwnGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, pattern) = parts.ok_or_else(|| {
            "a group is NAME=PATTERN, such as tiny=hak_tiny_* or pool=file:pool.c".to_owned()
        })?;
        Ok(Self {
            name: name.to_owned(),
            pattern: pattern.parse().map_err(|it| format!("{it}"))?,
        })
    }
}

/// The sections of a profile that are not the allocator's own tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Breakdown {
    /// Rows by the function that executed, of the samples outside of the allocator.
    pub outside: Vec<Row>,
    /// Groups of functions, the largest first.
    pub groups: Vec<Group>,
    /// What comes next if the largest group is gone.
    pub after_first: Option<AfterFirst>,
    /// The parts of the program, the largest first.
    pub tests: Vec<Test>,
}

/// A group of functions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// A ready-made group has the samples inside the allocator in such a function and in what it
    /// calls; one of the user those whose innermost function matches.
    pub ready_made: bool,
    /// The innermost functions of its samples, the most frequent first.
    pub functions: Vec<String>,
    /// Its part of the samples.
    #[serde(flatten)]
    pub share: Share,
    /// How many times as fast the program is without it.
    pub what_if: WhatIf,
}

/// The program without a part of its time: 1 / (1 - share), after Amdahl (AFIPS 1967).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Time before divided by time after; `null` if nothing would be left.
    pub factor: Option<f64>,
    /// The same for the lower end of the share's interval.
    pub low: Option<f64>,
    /// The same for the upper end.
    pub high: Option<f64>,
}

impl WhatIf {
    fn of(share: &Share) -> Self {
        let factor = |share: f64| (share < 1.0).then(|| 1.0 / (1.0 - share));
        Self {
            factor: factor(share.share),
            low: factor(share.low),
            high: factor(share.high),
        }
    }
}

/// The program without its largest group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AfterFirst {
    /// The group that is gone.
    pub group: String,
    /// Functions with their shares of what is left, the largest first.
    pub functions: Vec<Later>,
}

/// A function of a program without its largest group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Later {
    /// The function.
    pub function: String,
    /// The path of its module.
    pub module: String,
    /// Its part of the samples that are left.
    #[serde(flatten)]
    pub share: Share,
    /// How many times as fast the rest is without it, too.
    pub what_if: WhatIf,
}

/// A part of the program: what a function that `main` or a thread calls does, or what one further
/// inside does if all calls come from one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// The function.
    pub function: String,
    /// The path of its module; empty for samples of which the part is not known.
    pub module: String,
    /// Its part of the samples.
    #[serde(flatten)]
    pub share: Share,
    /// Samples inside of the allocator.
    pub inside_samples: u64,
    /// Each function's part of the test's own samples.
    pub functions: Vec<Row>,
    /// The calls of the test in order, each before those that it makes.
    pub calls: Vec<Call>,
}

/// A call in a call graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Number of calls between the test and this one.
    pub depth: usize,
    /// The function that is called.
    pub function: String,
    /// The path of its module.
    pub module: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
    /// Its part of all samples, with all that it calls.
    #[serde(flatten)]
    pub share: Share,
}

/// The ready-made group of a function that an allocator calls.
fn ready_made(function: &str) -> Option<&'static str> {
    let name = function.trim_start_matches('_');
    match crate::paths::kind_of(name) {
        "environment" => Some("environment"),
        "lock" => Some("locks"),
        "system call" => Some("system calls"),
        "string compare" | "memory" => Some("string functions"),
        _ if ["str", "stp", "mem", "bcmp", "bzero"]
            .iter()
            .any(|it| name.starts_with(it)) =>
        {
            Some("string functions")
        }
        _ => None,
    }
}

#[derive(Default)]
struct GroupSums {
    counts: Counts,
    functions: FxHashMap<Key, Counts>,
}

/// A stack of the program: functions from the outermost one inwards, inlined ones, too.
struct Chain {
    keys: Vec<Key>,
    /// Of these, the program's own: those before the first one of another module or the allocator.
    own: usize,
    is_inside: bool,
    counts: Counts,
}

/// Collects the samples.
pub(crate) struct Collector<'a> {
    own_groups: &'a [OwnGroup],
    all: u64,
    functions: FxHashMap<Key, Counts>,
    outside: FxHashMap<Key, Counts>,
    own: Vec<GroupSums>,
    ready_made: FxHashMap<&'static str, GroupSums>,
    chains: Vec<Chain>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(own_groups: &'a [OwnGroup]) -> Self {
        Self {
            own_groups,
            all: 0,
            functions: FxHashMap::default(),
            outside: FxHashMap::default(),
            own: own_groups.iter().map(|_| GroupSums::default()).collect(),
            ready_made: FxHashMap::default(),
            chains: Vec::new(),
        }
    }

    /// Adds a stack; `entry` is the index of the allocator's entry point in it.
    pub(crate) fn add(
        &mut self,
        steps: &[Step],
        counts: &Counts,
        entry: Option<usize>,
        names: &Names<'_>,
    ) {
        self.all += counts.samples;
        if counts.samples == 0 {
            return;
        }
        let Some(innermost) = steps.first() else {
            return;
        };
        let key = names.function(&innermost.frame);
        let add = |table: &mut FxHashMap<Key, Counts>| {
            table.entry(key.clone()).or_default().add(counts);
        };
        add(&mut self.functions);
        if entry.is_none() {
            add(&mut self.outside);
        }
        let file = names.frames(&innermost.frame).last();
        let file = file.map_or("", |it| &*it.file);
        for (group, sums) in self.own_groups.iter().zip(&mut self.own) {
            if group.pattern.has(&key.function, file) {
                sums.counts.add(counts);
                add(&mut sums.functions);
            }
        }
        let kind = entry.and_then(|entry| {
            let inner = steps[..entry].iter().rev();
            inner
                .filter_map(|it| ready_made(&names.function(&it.frame).function))
                .next()
        });
        if let Some(kind) = kind {
            let sums = self.ready_made.entry(kind).or_default();
            sums.counts.add(counts);
            add(&mut sums.functions);
        }
        self.add_chain(steps, counts, entry, names);
    }

    fn add_chain(
        &mut self,
        steps: &[Step],
        counts: &Counts,
        entry: Option<usize>,
        names: &Names<'_>,
    ) {
        let mut keys = Vec::new();
        let mut own = None;
        for (at, step) in steps.iter().enumerate().rev() {
            let is_program = names.is_program(step.frame.module);
            let is_inside = entry.is_some_and(|entry| at <= entry);
            let functions = names.functions(&step.frame);
            for key in functions {
                let is_start = matches!(&*key.function, "_start" | "main");
                if is_start || (keys.is_empty() && !is_program) {
                    // What is outside of the program's own code, as `__libc_start_main` and
                    // `start_thread` are.
                    keys.clear();
                    own = None;
                    continue;
                }
                if (is_inside || !is_program) && own.is_none() {
                    own = Some(keys.len());
                }
                keys.push(key);
            }
        }
        self.chains.push(Chain {
            own: own.unwrap_or(keys.len()),
            keys,
            is_inside: entry.is_some(),
            counts: *counts,
        });
    }

    pub(crate) fn finish(self, names: &Names<'_>) -> Breakdown {
        let all = self.all;
        let own = self.own_groups.iter().zip(self.own);
        let own = own.map(|(group, sums)| (group.name.clone(), false, sums));
        let ready = self.ready_made.into_iter();
        let ready = ready.map(|(name, sums)| (name.to_owned(), true, sums));
        let mut groups: Vec<(String, bool, GroupSums)> = own.chain(ready).collect();
        groups.sort_by(|(a, _, x), (b, _, y)| (y.counts.samples, a).cmp(&(x.counts.samples, b)));
        let after_first = groups.first().filter(|it| it.2.counts.samples > 0);
        let after_first = after_first.map(|(name, _, gone)| AfterFirst {
            group: name.clone(),
            functions: later(&self.functions, gone, all, names),
        });
        let groups = groups.into_iter().map(|(name, ready_made, sums)| {
            let share = share(&sums.counts, all);
            let functions = sorted(sums.functions).into_iter().take(NAMED);
            Group {
                name,
                ready_made,
                functions: functions.map(|(key, _)| key.function).collect(),
                share,
                what_if: WhatIf::of(&share),
            }
        });
        Breakdown {
            groups: groups.collect(),
            outside: sorted(self.outside)
                .into_iter()
                .map(|(key, counts)| row(key, &counts, all, names))
                .collect(),
            after_first,
            tests: tests(&self.chains, all, names),
        }
    }
}

/// The functions without a group, and their shares of what is left.
fn later(
    functions: &FxHashMap<Key, Counts>,
    gone: &GroupSums,
    all: u64,
    names: &Names<'_>,
) -> Vec<Later> {
    let left = all.saturating_sub(gone.counts.samples);
    let functions = functions.iter().map(|(key, counts)| {
        let removed = gone.functions.get(key).map_or(0, |it| it.samples);
        let mut counts = *counts;
        counts.samples = counts.samples.saturating_sub(removed);
        counts.kernel_samples = counts.kernel_samples.min(counts.samples);
        (key.clone(), counts)
    });
    let rows = sorted(functions.collect()).into_iter().take(NAMED);
    rows.map(|(key, counts)| {
        let share = share(&counts, left);
        Later {
            function: key.function,
            module: names.path(key.module),
            share,
            what_if: WhatIf::of(&share),
        }
    })
    .collect()
}

/// The function of a chain at which it belongs to a test; `None` if it has no own function.
fn test_of(chain: &Chain, level: usize) -> Option<usize> {
    let last = chain.own.checked_sub(1)?;
    Some(level.min(last))
}

fn tests(chains: &[Chain], all: u64, names: &Names<'_>) -> Vec<Test> {
    let mut level = 0;
    // A driver that calls all tests is none.
    for next in 1..MAX_DEPTH {
        let mut sums: FxHashMap<&Key, u64> = FxHashMap::default();
        let mut deeper = 0;
        for chain in chains {
            if let Some(at) = test_of(chain, level) {
                *sums.entry(&chain.keys[at]).or_default() += chain.counts.samples;
            }
            if chain.own > next {
                deeper += chain.counts.samples;
            }
        }
        let largest = sums.values().copied().max().unwrap_or(0) as f64;
        if largest < ALL * all as f64 || (deeper as f64) < largest / 2.0 {
            break;
        }
        level = next;
    }
    let mut by_test: FxHashMap<Key, Vec<(&Chain, usize)>> = FxHashMap::default();
    for chain in chains {
        let (key, at) = match test_of(chain, level) {
            Some(at) => (chain.keys[at].clone(), at),
            None => (of_main(), usize::MAX),
        };
        by_test.entry(key).or_default().push((chain, at));
    }
    let tests = by_test
        .into_iter()
        .map(|(key, chains)| test(key, &chains, all, names));
    let mut tests: Vec<Test> = tests.collect();
    tests.sort_by(|a, b| (b.share.samples, &a.function).cmp(&(a.share.samples, &b.function)));
    tests
}

/// The part of the program that is in none of its functions but `main`, or not known.
fn of_main() -> Key {
    Key {
        function: "[main, and what has no caller]".to_owned(),
        file: String::new(),
        line: 0,
        module: NO_MODULE,
        allocator: false,
    }
}

fn test(key: Key, chains: &[(&Chain, usize)], all: u64, names: &Names<'_>) -> Test {
    let mut sum = Counts::default();
    let mut inside_samples = 0;
    let mut functions: FxHashMap<Key, Counts> = FxHashMap::default();
    let mut graph = Graph::default();
    for (chain, at) in chains {
        sum.add(&chain.counts);
        if chain.is_inside {
            inside_samples += chain.counts.samples;
        }
        if let Some(innermost) = chain.keys.last() {
            functions
                .entry(innermost.clone())
                .or_default()
                .add(&chain.counts);
        }
        let below = chain.keys.get(at.saturating_add(1)..).unwrap_or_default();
        graph.add(below, &chain.counts);
    }
    let own = sum.samples;
    let functions = sorted(functions).into_iter();
    Test {
        function: key.function,
        module: names.path(key.module),
        share: share(&sum, all),
        inside_samples,
        functions: functions
            .map(|(key, counts)| row(key, &counts, own, names))
            .collect(),
        calls: graph.calls(all, names),
    }
}

/// A call tree (calling context tree, Ammons, Ball and Larus, PLDI 1997).
#[derive(Default)]
struct Graph {
    nodes: Vec<(Key, Counts, Vec<usize>)>,
    roots: Vec<usize>,
    numbers: FxHashMap<(Option<usize>, Key), usize>,
}

impl Graph {
    fn add(&mut self, keys: &[Key], counts: &Counts) {
        let mut parent = None;
        for key in keys.iter().take(MAX_DEPTH) {
            let next = self.nodes.len();
            let number = *self.numbers.entry((parent, key.clone())).or_insert(next);
            if number == next {
                self.nodes
                    .push((key.clone(), Counts::default(), Vec::new()));
                match parent {
                    Some(parent) => self.nodes[parent].2.push(number),
                    None => self.roots.push(number),
                }
            }
            self.nodes[number].1.add(counts);
            parent = Some(number);
        }
    }

    fn calls(&self, all: u64, names: &Names<'_>) -> Vec<Call> {
        let mut calls = Vec::new();
        self.write(&self.roots, 0, all, names, &mut calls);
        calls
    }

    fn write(
        &self,
        nodes: &[usize],
        depth: usize,
        all: u64,
        names: &Names<'_>,
        into: &mut Vec<Call>,
    ) {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|it| {
            let (key, counts, _) = &self.nodes[*it];
            (std::cmp::Reverse(counts.samples), key.clone())
        });
        for node in nodes {
            let (key, counts, children) = &self.nodes[node];
            if (counts.samples as f64) < MIN_SHARE * all as f64 {
                continue;
            }
            into.push(Call {
                depth,
                function: key.function.clone(),
                module: names.path(key.module),
                allocator: key.allocator,
                share: share(counts, all),
            });
            self.write(children, depth + 1, all, names, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(samples: u64) -> Counts {
        Counts {
            samples,
            ..Counts::default()
        }
    }

    /// The document's figure: 43.96 % gone is 100 / 56.04 = 1.78 times as fast.
    #[test]
    fn amdahl() {
        let it = WhatIf::of(&share(&counts(4396), 10_000));
        assert!((it.factor.unwrap() - 100.0 / 56.04).abs() < 1e-9);
        assert!(it.low < it.factor && it.factor < it.high);
        assert_eq!(WhatIf::of(&share(&counts(7), 7)).factor, None);
    }

    #[test]
    fn ready_made_groups() {
        for (function, group) in [
            ("getenv", Some("environment")),
            ("__strncmp_evex", Some("string functions")),
            ("__strlen_avx2", Some("string functions")),
            ("pthread_mutex_lock", Some("locks")),
            ("madvise", Some("system calls")),
            ("hak_free_at", None),
            ("random", None),
        ] {
            assert_eq!(ready_made(function), group, "{function}");
        }
    }

    #[test]
    fn groups_of_the_user() {
        let group: OwnGroup = "tiny=hak_tiny_*".parse().unwrap();
        assert!(group.pattern.has("hak_tiny_alloc", ""));
        for wrong in ["tiny", "=x", "tiny="] {
            assert!(wrong.parse::<OwnGroup>().is_err(), "{wrong}");
        }
    }
}
