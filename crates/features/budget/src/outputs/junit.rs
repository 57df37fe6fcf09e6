//! Writes the report as JUnit XML for CI systems: a test is a test suite, a
//! case is a test case with the text output as its failure. An improvement is a
//! skipped case with a message, because JUnit has no such outcome.
//!
//! The schema is that of Ant and Jenkins (<https://llg.cubic.org/docs/junit/>). By quick-xml: quick-junit on top of
//! it would bring chrono and five more crates for three kinds of elements.

use std::io::{self, Write};

use allotrope_text::{shown, shown_lines};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::{TextOptions, text, wording};
use crate::result::{CaseResult, Outcome, Report, TestResult};

/// Writes the report as XML.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut xml = Writer::new_with_indent(&mut *out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("testsuites")
        .with_attribute(("name", "allotrope"))
        .write_inner_content(|xml| report.tests.iter().try_for_each(|test| suite(xml, test)))?;
    writeln!(out)
}

fn suite<W: Write>(xml: &mut Writer<W>, test: &TestResult) -> io::Result<()> {
    let troubles = wording::troubles(test);
    let failed = test
        .cases
        .iter()
        .filter(|case| case.outcome() == Outcome::Failed)
        .count();
    let improved = test
        .cases
        .iter()
        .filter(|case| case.outcome() == Outcome::Improved)
        .count();
    let all = test.cases.len() + usize::from(!troubles.is_empty());
    let errors = usize::from(!troubles.is_empty());
    let seconds = format!("{:.3}", test.duration.as_secs_f64());
    xml.create_element("testsuite")
        .with_attribute(("name", &*shown(&test.name)))
        .with_attribute(("tests", all.to_string().as_str()))
        .with_attribute(("failures", failed.to_string().as_str()))
        .with_attribute(("errors", errors.to_string().as_str()))
        .with_attribute(("skipped", improved.to_string().as_str()))
        .with_attribute(("time", seconds.as_str()))
        .write_inner_content(|xml| {
            for result in &test.cases {
                case(xml, test, result)?;
            }
            if !troubles.is_empty() {
                let log = format!("{}\n\n{}", troubles.join("\n"), test.output);
                element(
                    xml,
                    test,
                    &test.name,
                    Some(("error", troubles.join("; "), log)),
                )?;
            }
            if !test.notes.is_empty() {
                let notes = test.notes.join("\n");
                xml.create_element("system-out")
                    .write_text_content(BytesText::new(&shown_lines(&notes)))?;
            }
            Ok(())
        })?;
    Ok(())
}

fn case<W: Write>(xml: &mut Writer<W>, test: &TestResult, case: &CaseResult) -> io::Result<()> {
    let sentences: Vec<String> = case
        .checks
        .iter()
        .filter(|check| !check.status.passes())
        .map(wording::sentence)
        .collect();
    let kind = match case.outcome() {
        Outcome::Passed => return element(xml, test, &case.name, None),
        Outcome::Improved => "skipped",
        Outcome::Failed => "failure",
    };
    let mut log = Vec::new();
    text::write_case(test, case, &TextOptions::default(), &mut log)?;
    let log = String::from_utf8_lossy(&log);
    let log = format!("{log}  Run again: {}\n", test.reproduce);
    element(
        xml,
        test,
        &case.name,
        Some((kind, sentences.join("; "), log)),
    )
}

fn element<W: Write>(
    xml: &mut Writer<W>,
    test: &TestResult,
    name: &str,
    inner: Option<(&str, String, String)>,
) -> io::Result<()> {
    let (name, class) = (shown(name), shown(&test.name));
    let element = xml
        .create_element("testcase")
        .with_attribute(("name", &*name))
        .with_attribute(("classname", &*class));
    let Some((kind, message, log)) = inner else {
        element.write_empty()?;
        return Ok(());
    };
    element.write_inner_content(|xml| {
        xml.create_element(kind)
            .with_attribute(("message", &*shown(&message)))
            .write_text_content(BytesText::new(&shown_lines(&log)))?;
        Ok(())
    })?;
    Ok(())
}
