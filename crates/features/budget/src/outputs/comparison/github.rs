//! Writes a comparison as text, followed by the workflow commands with which GitHub Actions
//! annotates the source lines that allocate more.

use std::io::{self, Write};

use super::{ComparisonOptions, write_text};
use crate::comparison::{Comparison, Side};
use crate::explanation::location;
use crate::outputs::github::{Annotation, blamed, weight, write_annotations};
use crate::outputs::wording;

/// Writes the text and the annotations, at most ten, the worst first.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    comparison: &Comparison,
    sides: [&Side; 2],
    options: &ComparisonOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_text(comparison, sides, options, out)?;
    let mut annotations = Vec::new();
    for case in comparison.tests.iter().flat_map(|test| &test.cases) {
        for check in case.checks.iter().filter(|check| check.status.fails()) {
            let (metric, before) = (check.metric, &sides[0].name);
            let difference = check.difference().map(wording::signed).unwrap_or_default();
            let mut message = format!("{difference} {metric} since {before}");
            let mut diffs = case.diffs.iter();
            let diff = diffs.find(|(of, _)| *of == metric);
            let diff = diff.map(|(_, diff)| diff);
            let location = diff.and_then(|diff| location(diff, &sides[1].folder));
            if let Some(blamed) = diff.and_then(blamed) {
                message.push_str(&format!("\n{blamed}"));
            }
            annotations.push(Annotation {
                is_error: true,
                weight: weight(check),
                location,
                subjects: vec![format!("{metric} of {}", case.name)],
                message,
            });
        }
    }
    write_annotations(annotations, out)
}
