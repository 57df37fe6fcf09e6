//! The candidates of rules with their conditions as JSON, `allotrope-why/1`. `docs/report-json.md`
//! documents the fields.

use std::io::{self, Write};

use allotrope_findings::{Ask, Check, Limit, Outcome, Rule, Tried, Value};
use allotrope_profile::{FrameForm, Profile};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::json_findings::serialize_value;

#[derive(Serialize)]
struct Form<'a> {
    format: &'static str,
    /// What the candidates are restricted to; null: nothing.
    about: Option<&'a str>,
    rules: Vec<RuleForm<'a>>,
}

#[derive(Serialize)]
struct RuleForm<'a> {
    rule: &'static str,
    candidates: Vec<TriedForm<'a>>,
}

#[derive(Serialize)]
struct TriedForm<'a> {
    process: u32,
    /// The line that the finding names; null for the process as a whole.
    frame: Option<FrameForm<'a>>,
    sites: &'a [u32],
    outcome: OutcomeForm<'a>,
    process_conditions: Vec<CheckForm<'a>>,
    conditions: Vec<CheckForm<'a>>,
}

/// What became of a candidate.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum OutcomeForm<'a> {
    Shown {
        finding: usize,
    },
    NotMet {
        unmet: usize,
    },
    Suppressed {
        blocks: u64,
        suppression: &'a str,
        list: &'a str,
    },
    PartOf {
        function: Option<&'a str>,
    },
    SaysNothing {
        why: &'static str,
    },
    SwitchedOff,
    SaidBetter {
        rule: &'static str,
        finding: Option<usize>,
    },
    TooMany {
        shown: usize,
    },
}

struct CheckForm<'a>(&'a Check);

/// Writes why these rules have a finding or none. `about` is what the candidates are restricted to.
pub fn write_why_json(
    profile: &Profile,
    (rules, tried): (&[Rule], &[Tried]),
    about: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let of_rule = |rule: Rule| RuleForm {
        rule: rule.name(),
        candidates: tried
            .iter()
            .filter(|tried| tried.rule == rule)
            .map(|tried| form(profile, tried))
            .collect(),
    };
    let form = Form {
        format: "allotrope-why/1",
        about,
        rules: rules.iter().map(|&rule| of_rule(rule)).collect(),
    };
    let mut out = io::BufWriter::new(out);
    allotrope_text::to_json_writer(&mut out, &form)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn form<'a>(profile: &'a Profile, tried: &'a Tried) -> TriedForm<'a> {
    let frame = |index: Option<u32>| index.and_then(|it| profile.frames.get(it as usize));
    TriedForm {
        process: tried.process,
        frame: frame(tried.frame).map(|it| FrameForm::new(it, profile.module_name(it))),
        sites: &tried.sites,
        outcome: match &tried.outcome {
            Outcome::Shown(index) => OutcomeForm::Shown { finding: index + 1 },
            Outcome::NotMet => OutcomeForm::NotMet {
                unmet: tried.unmet(),
            },
            Outcome::Suppressed { blocks, rule, list } => OutcomeForm::Suppressed {
                blocks: *blocks,
                suppression: rule,
                list,
            },
            Outcome::PartOf(of) => OutcomeForm::PartOf {
                function: frame(*of).map(|it| &*it.function),
            },
            Outcome::SaysNothing(why) => OutcomeForm::SaysNothing { why },
            Outcome::Off => OutcomeForm::SwitchedOff,
            Outcome::SaidBetter(rule, index) => OutcomeForm::SaidBetter {
                rule: rule.name(),
                finding: index.map(|index| index + 1),
            },
            Outcome::TooMany(shown) => OutcomeForm::TooMany { shown: *shown },
        },
        process_conditions: tried.of_process.iter().map(CheckForm).collect(),
        conditions: tried.conditions.iter().map(CheckForm).collect(),
    }
}

impl Serialize for CheckForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let check = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", check.name)?;
        map.serialize_entry("words", check.words)?;
        map.serialize_entry("met", &check.met)?;
        match &check.ask {
            Ask::Fact => {}
            Ask::Number { measured, limit } => {
                let unit = match measured {
                    Value::Count(_) => "count",
                    Value::Bytes(_) => "bytes",
                    Value::Nanoseconds(_) => "ns",
                    Value::Share(_) => "share",
                    Value::Number(_) => "number",
                };
                let kind = match limit {
                    Limit::AtLeast(_) => "at_least",
                    Limit::AtMost(_) => "at_most",
                    Limit::MoreThan(_) => "more_than",
                    Limit::LessThan(_) => "less_than",
                };
                map.serialize_entry("unit", unit)?;
                serialize_value(&mut map, "measured", *measured)?;
                serialize_value(&mut map, kind, limit.value())?;
            }
            Ask::AnyOf(of) => {
                let of: Vec<CheckForm<'_>> = of.iter().map(CheckForm).collect();
                map.serialize_entry("any_of", &of)?;
            }
            Ask::AllOf(of) => {
                let of: Vec<CheckForm<'_>> = of.iter().map(CheckForm).collect();
                map.serialize_entry("all_of", &of)?;
            }
        }
        map.end()
    }
}
