//! The findings in the JSON report.

use std::borrow::Cow;

use allotrope_findings::{Finding, Number, Value};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// A finding. `docs/findings.md` has the numbers of each rule.
#[derive(Serialize)]
pub(crate) struct FindingForm<'a> {
    rule: &'static str,
    severity: &'static str,
    title: &'a str,
    measure: &'a str,
    text: &'a str,
    advice: &'a str,
    /// The id of the process.
    process: u32,
    /// Those of all its processes, if it is the same in several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<u32>,
    /// An index into `frames`; null if there is no line to look at.
    frame: Option<u32>,
    /// Numbers of sites, the largest first.
    sites: &'a [u32],
    numbers: Numbers<'a>,
    /// Those of the numbers that can be added up, of all processes.
    #[serde(skip_serializing_if = "Numbers::is_empty")]
    sums: Numbers<'a>,
    /// Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    mended: Option<MendedForm>,
}

/// The figures of the process if the mistake were mended.
#[derive(Serialize)]
struct MendedForm {
    peak: u64,
    allocations: u64,
    byte_seconds: f64,
}

/// The numbers and thresholds by name: counts, bytes, nanoseconds, shares from 0 to 1.
struct Numbers<'a>(Cow<'a, [Number]>);

impl Numbers<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FindingForm<'a> {
    pub(crate) fn of(finding: &'a Finding) -> Self {
        Self {
            rule: finding.rule.name(),
            severity: finding.severity.name(),
            title: &finding.title,
            measure: &finding.measure,
            text: &finding.text,
            advice: &finding.advice,
            process: finding.process,
            processes: finding.parts.iter().map(|part| part.process).collect(),
            frame: finding.frame,
            sites: &finding.sites,
            numbers: Numbers(Cow::Borrowed(&finding.numbers)),
            sums: Numbers(Cow::Owned(finding.sums())),
            mended: finding.mended.map(|mended| MendedForm {
                peak: mended.peak_bytes,
                allocations: mended.allocations,
                byte_seconds: mended.byte_seconds,
            }),
        }
    }
}

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for number in self.0.iter() {
            serialize_value(&mut map, number.name, number.value)?;
        }
        map.end()
    }
}

/// Writes a value without its unit.
pub(crate) fn serialize_value<M: SerializeMap>(
    map: &mut M,
    name: &str,
    value: Value,
) -> Result<(), M::Error> {
    match value {
        Value::Count(value) | Value::Bytes(value) | Value::Nanoseconds(value) => {
            map.serialize_entry(name, &value)
        }
        Value::Share(value) | Value::Number(value) => map.serialize_entry(name, &value),
    }
}
