//! The candidates of rules with their conditions: the measured numbers beside the limits.

use std::io::{self, Write};

use allotrope_findings::{Ask, Check, Limit, Outcome, Rule, Tried, Value};
use allotrope_profile::Profile;
use allotrope_text::document::write_lines;
use allotrope_text::{Role, TextWriter, columns, wrap};
use allotrope_trace::model::ImageId;

use crate::numbers::{bytes, count, duration, plural};
use crate::shorten::clean;
use crate::text::{Screen, TextOptions, frames};

/// Least columns of the measured number and of the limit: so the tables of most candidates are alike.
const LEAST: [usize; 2] = [11, 18];

/// Writes why these rules have a finding or none. `about` is what the candidates are restricted to.
pub fn write_why(
    screen: &Screen<'_>,
    (rules, tried): (&[Rule], &[Tried]),
    about: Option<&str>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    for (index, &rule) in rules.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let of_rule: Vec<&Tried> = tried.iter().filter(|it| it.rule == rule).collect();
        write_rule(screen, (rule, &of_rule), about, options, &mut out)?;
    }
    out.flush()
}

fn write_rule(
    screen: &Screen<'_>,
    (rule, tried): (Rule, &[&Tried]),
    about: Option<&str>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let profile = screen.attributed.profile;
    let is_found = |it: &&&Tried| matches!(it.outcome, Outcome::Shown(_));
    let said = match tried.iter().filter(is_found).count() {
        0 => "no finding".to_owned(),
        found => plural(found, "finding", "findings"),
    };
    let about = about.map_or_else(String::new, |about| format!(" about {}", clean(about)));
    let title = format!("{}: {said}{about}", rule.name());
    write_lines(out, style.fitted(&title, ["", "  "], Role::Title))?;
    if tried.is_empty() {
        let text = match about.is_empty() {
            true => "No process allocated anything.",
            false => "No candidate of this rule has blocks of it.",
        };
        return write_lines(out, style.fitted(text, ["  ", "  "], Role::Plain));
    }
    let many = profile.processes.len() > 1;
    let mut process: Option<ImageId> = None;
    for tried in tried {
        writeln!(out)?;
        let of_process = match many {
            true => format!("process {}: ", tried.process),
            false => String::new(),
        };
        let frame = tried.frame.and_then(|it| profile.frames.get(it as usize));
        match frame {
            Some(frame) => writeln!(
                out,
                "{}",
                frames::line(profile, frame, &format!("  {of_process}"), style)
            )?,
            None => writeln!(out, "  {of_process}the process as a whole")?,
        }
        write_outcome(screen, tried, options, out)?;
        let room = widest(&tried.conditions, widest(&tried.of_process, LEAST));
        // The conditions about a process are those of all its candidates.
        if process.replace(tried.process) != Some(tried.process) {
            write_checks(&tried.of_process, 0, room, options, out)?;
        } else if !tried.of_process.is_empty() {
            writeln!(out, "    the conditions about the process: as above")?;
        }
        write_checks(&tried.conditions, 0, room, options, out)?;
    }
    Ok(())
}

/// What became of a candidate.
fn write_outcome(
    screen: &Screen<'_>,
    tried: &Tried,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let trace = &screen.trace;
    let silent = "It meets all conditions, and is silent:";
    let text = match &tried.outcome {
        Outcome::Shown(index) => {
            format!(
                "It is finding {0}: `allotrope show {trace} {0}`.",
                index + 1
            )
        }
        Outcome::NotMet => {
            let unmet = plural(tried.unmet(), "condition is", "conditions are");
            format!("{unmet} not met, of {}.", count(tried.all() as u64))
        }
        Outcome::Suppressed { blocks, rule, list } => format!(
            "Silent by a suppression: {} expected to leak, by {rule} of {list}.",
            plural(*blocks as usize, "block is", "blocks are"),
        ),
        Outcome::PartOf(frame) => format!(
            "{silent} it is a part of the finding about {}.",
            function(screen.attributed.profile, *frame)
        ),
        Outcome::SaysNothing(why) => format!("{silent} its function says nothing: {why}."),
        Outcome::Off => format!("{silent} the rule is switched off (--no-finding)."),
        Outcome::SaidBetter(rule, Some(index)) => format!(
            "{silent} finding {} ({}) says the same, and says more.",
            index + 1,
            rule.name()
        ),
        Outcome::SaidBetter(rule, None) => {
            format!("{silent} {} says the same, and says more.", rule.name())
        }
        Outcome::TooMany(most) => {
            format!("{silent} {most} better findings of this rule are shown.")
        }
    };
    let role = match tried.outcome {
        Outcome::Shown(_) => Role::Good,
        _ => Role::Warning,
    };
    write_lines(out, options.style.fitted(&text, ["  ", "  "], role))
}

fn function(profile: &Profile, frame: Option<u32>) -> String {
    let frame = frame.and_then(|it| profile.frames.get(it as usize));
    frame.map_or_else(
        || "another function".to_owned(),
        |frame| clean(&frame.function),
    )
}

/// The columns of the widest measured number and limit, at least `least`.
fn widest(checks: &[Check], least: [usize; 2]) -> [usize; 2] {
    checks.iter().fold(least, |widest, check| match &check.ask {
        Ask::Fact => widest,
        Ask::AnyOf(of) | Ask::AllOf(of) => self::widest(of, widest),
        Ask::Number { measured, limit } => {
            let columns = numbers(*measured, *limit).map(|it| columns(&it));
            [0, 1].map(|at| widest[at].max(columns[at]))
        }
    })
}

/// A line for each condition: whether it is met, what it measures, the number, and the limit.
fn write_checks(
    checks: &[Check],
    depth: usize,
    [of_measured, of_limit]: [usize; 2],
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    for check in checks {
        let (mark, role) = match check.met {
            true => ("✓", Role::Good),
            false => ("✗", Role::Bad),
        };
        let mark = options.style.paint(role, mark);
        let indent = " ".repeat(4 + 2 * depth);
        let (text, numbers) = match &check.ask {
            Ask::Number { measured, limit } => {
                let numbers = numbers(*measured, *limit);
                (check.words.to_owned(), Some(numbers))
            }
            Ask::Fact => (check.words.to_owned(), None),
            Ask::AnyOf(_) => (format!("{}; one of:", check.words), None),
            Ask::AllOf(_) => (format!("{}:", check.words), None),
        };
        let width = options.style.columns();
        let room = width.saturating_sub(indent.len() + 2);
        let room = match numbers {
            Some(_) => room.saturating_sub(2 + of_measured + 2 + of_limit),
            None => room,
        };
        let mut lines = wrap(&text, ["", ""], room).into_iter().peekable();
        let mut before = format!("{indent}{mark} ");
        while let Some(line) = lines.next() {
            match (&numbers, lines.peek()) {
                (Some([measured, limit]), None) => {
                    let pad = room.saturating_sub(columns(&line));
                    writeln!(
                        out,
                        "{before}{line}{:pad$}  {measured:>of_measured$}  {limit}",
                        ""
                    )?;
                }
                _ => writeln!(out, "{before}{line}")?,
            }
            before = format!("{indent}  ");
        }
        if let Ask::AnyOf(of) | Ask::AllOf(of) = &check.ask {
            write_checks(of, depth + 1, [of_measured, of_limit], options, out)?;
        }
    }
    Ok(())
}

/// The measured number and the limit in words, exact if they would look the same otherwise.
fn numbers(measured: Value, limit: Limit) -> [String; 2] {
    let floor = limit.value();
    let mut both = [measured, floor].map(|value| shown(value, 1));
    if both[0] == both[1] && measured != floor {
        both = [measured, floor].map(exact);
    }
    let [measured, floor] = both;
    let limit = match limit {
        Limit::AtLeast(_) => "at least",
        Limit::AtMost(_) => "at most",
        Limit::MoreThan(_) => "more than",
        Limit::LessThan(_) => "less than",
    };
    [measured, format!("{limit} {floor}")]
}

fn shown(value: Value, decimals: usize) -> String {
    match value {
        Value::Count(value) => count(value),
        Value::Bytes(value) => bytes(value),
        Value::Nanoseconds(value) => duration(value as f64 / 1e3),
        Value::Share(value) => format!("{:.decimals$} %", value * 100.0),
        Value::Number(value) => format!("{value:.decimals$}"),
    }
}

fn exact(value: Value) -> String {
    match value {
        Value::Bytes(value) => format!("{} B", count(value)),
        Value::Nanoseconds(value) => format!("{} ns", count(value)),
        other => shown(other, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_look_the_same_are_exact() {
        let numbers = |measured, limit| numbers(measured, limit).join(" | ");
        let mib = 1 << 20;
        let at_least = |value| Limit::AtLeast(Value::Bytes(value));
        assert_eq!(
            numbers(Value::Bytes(mib), at_least(mib)),
            "1.0 MiB | at least 1.0 MiB"
        );
        assert_eq!(
            numbers(Value::Bytes(mib - 1), at_least(mib)),
            "1,048,575 B | at least 1,048,576 B"
        );
        assert_eq!(
            numbers(Value::Share(0.0499), Limit::AtMost(Value::Share(0.05))),
            "4.990000 % | at most 5.000000 %"
        );
        assert_eq!(
            numbers(Value::Share(0.042), Limit::LessThan(Value::Share(0.05))),
            "4.2 % | less than 5.0 %"
        );
    }
}
