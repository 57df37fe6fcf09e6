//! Puts findings together that are the same in several processes: workers that are forked from one
//! program all have its leak. They are of one rule, about one function, and their processes run the same
//! program.

use std::path::Path;

use allotrope_attribution::Attributed;
use allotrope_text::numbers::{bytes as in_bytes, count};
use rustc_hash::FxHashMap;

use crate::finding::{Finding, Number, Rule, Value};

/// What findings have in common that are one: the rule, the number of the function and the executable.
type Key<'a> = (Rule, Option<u32>, &'a Path);

/// The findings, in the same order, those that are the same in several processes in the place of the
/// first of them; and for each of `findings` the index of the one that it is in.
pub(crate) fn together(
    attributed: &Attributed<'_>,
    findings: Vec<Finding>,
) -> (Vec<Finding>, Vec<usize>) {
    let executables: FxHashMap<u32, &Path> = attributed
        .profile
        .processes
        .iter()
        .map(|process| (process.id, &*process.executable))
        .collect();
    let mut by_key: FxHashMap<Key<'_>, Vec<usize>> = FxHashMap::default();
    let mut groups: Vec<Vec<Finding>> = Vec::new();
    let mut places = Vec::new();
    for finding in findings {
        let function = finding.frame;
        let function = function.map(|frame| attributed.headlines.function(frame));
        let executable = executables.get(&finding.process).copied();
        let key = (finding.rule, function, executable.unwrap_or(Path::new("")));
        let of_key = by_key.entry(key).or_default();
        // Two findings of one process are two.
        let is_free = |&&group: &&usize| {
            let mut others = groups[group].iter();
            others.all(|other| other.process != finding.process)
        };
        let place = of_key.iter().find(is_free).copied();
        let place = place.unwrap_or_else(|| {
            of_key.push(groups.len());
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(finding);
        places.push(place);
    }
    (groups.into_iter().map(one).collect(), places)
}

/// The finding that these are, of which the first is the largest.
fn one(mut parts: Vec<Finding>) -> Finding {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let first = parts[0].clone();
    let sites = parts.iter().flat_map(|part| part.sites.iter().copied());
    let severity = parts.iter().map(|part| part.severity).min();
    let mut one = Finding {
        severity: severity.unwrap_or(first.severity),
        sites: sites.collect(),
        text: format!("In process {}: {}", first.process, first.text),
        parts,
        ..first
    };
    let processes = format!("in {} processes", count(one.parts.len() as u64));
    one.measure = match summed(&one) {
        Some(measure) => format!("{measure}, {processes}"),
        None => format!("{processes}, at most {}", one.measure),
    };
    one
}

/// The main number of all processes together; `None` if there is no such sum.
fn summed(finding: &Finding) -> Option<String> {
    let sums = finding.sums();
    let sum = |name: &str| {
        let number = sums.iter().find(|number| number.name == name)?;
        match number.value {
            Value::Count(value) => Some(count(value)),
            Value::Bytes(value) => Some(in_bytes(value)),
            _ => None,
        }
    };
    Some(match finding.rule {
        Rule::Leak => format!(
            "{} in {} blocks",
            sum("leaked_bytes")?,
            sum("leaked_blocks")?
        ),
        Rule::Temporaries => format!("{} allocations", sum("temporary_allocations")?),
        Rule::GrowthChain => format!("{} growths", sum("growths")?),
        Rule::ForkCopies => format!("{} copied", sum("copied_bytes")?),
        Rule::SignalHandler => format!("{} allocations", sum("allocations")?),
        _ => return None,
    })
}

/// The numbers of a rule that count what a process did in its whole run, so that those of several
/// processes can be added up. What processes hold, they hold at different times.
fn of_whole_run(rule: Rule) -> &'static [&'static str] {
    match rule {
        Rule::Leak => &["leaked_blocks", "leaked_bytes", "freed_blocks"],
        Rule::Temporaries => &["temporary_allocations"],
        Rule::GrowthChain => &["chains", "growths", "copied_bytes"],
        Rule::ForkCopies => &[
            "copied_bytes",
            "inherited_freed_bytes",
            "inherited_freed_blocks",
        ],
        Rule::SignalHandler => &["allocations"],
        _ => &[],
    }
}

impl Finding {
    /// The finding as it is in one process; `None` if it is not about this process.
    pub fn of_process(&self, process: u32) -> Option<&Self> {
        match self.parts.is_empty() {
            true => (self.process == process).then_some(self),
            false => self.parts.iter().find(|part| part.process == process),
        }
    }

    /// Whether it is this finding, or has it as a part.
    pub fn has(&self, finding: &Self) -> bool {
        self == finding || self.parts.contains(finding)
    }

    /// The sums of those numbers of the parts that can be added up; none if it has no parts.
    pub fn sums(&self) -> Vec<Number> {
        let names = of_whole_run(self.rule).iter();
        let sum = |name: &&'static str| {
            let parts = self.parts.iter();
            let values = parts.filter_map(|part| {
                let number = part.numbers.iter().find(|number| number.name == *name)?;
                Some(number.value)
            });
            let value = values.reduce(|a, b| match (a, b) {
                (Value::Count(a), Value::Count(b)) => Value::Count(a.saturating_add(b)),
                (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes(a.saturating_add(b)),
                (a, _) => a,
            })?;
            Some(Number { name, value })
        };
        names.filter_map(sum).collect()
    }
}
