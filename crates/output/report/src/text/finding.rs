//! The lines of a finding: what and how much, where, why, and what to try. Nothing ends in the middle of a
//! sentence: what does not fit is left out from its end, by whole sentences.

use allotrope_findings::{Finding, Severity};
use allotrope_text::columns;

use crate::numbers::count;
use crate::shorten::{clean, wrap};
use crate::text::screen_parts::{Screen, code, number, stack};
use crate::text::{TextOptions, frames};

const INDENT: &str = "    ";
/// Before the advice.
const ARROW: &str = "→ ";

/// How much of a finding is shown besides what, how much and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing.
    None,
    /// Why and what to try, as far as all lines of the finding are so many.
    Lines(usize),
    /// Why and what to try.
    Full,
}

/// A finding.
pub(super) fn finding_lines(
    screen: &Screen<'_>,
    finding: &Finding,
    detail: Detail,
    many_processes: bool,
    options: &TextOptions,
) -> Vec<String> {
    let width = options.style.columns() - INDENT.len();
    let profile = screen.attributed.profile;
    let number = number(screen, finding).unwrap_or(0);
    let head = head(finding, width);
    let head = head
        .into_iter()
        .enumerate()
        .map(|(index, line)| match index {
            0 => format!("{number:>2}  {line}"),
            _ => format!("{INDENT}{line}"),
        });
    let mut lines: Vec<String> = head.collect();
    let process = match (finding.parts.len(), many_processes) {
        (0, true) => format!("process {}: ", finding.process),
        (0, false) => String::new(),
        (parts, _) => format!("{} processes: ", count(parts as u64)),
    };
    let frame = finding.frame;
    let frame = frame.and_then(|index| profile.frames.get(index as usize));
    if let Some(frame) = frame {
        let before = format!("{INDENT}{process}");
        lines.push(frames::line(profile, frame, &before, options.style));
        lines.extend(code(Some(frame), INDENT, options));
    }
    if options.all_frames {
        let largest = finding.sites.first().and_then(|it| profile.site(*it));
        lines.extend(
            largest
                .into_iter()
                .flat_map(|(_, site)| stack(screen, site, options)),
        );
    }
    let room = match detail {
        Detail::None => return lines,
        Detail::Lines(most) => most.saturating_sub(lines.len()),
        Detail::Full => usize::MAX,
    };
    let [why, advice] = sentences_in(finding, room, width);
    lines.extend(why.into_iter().map(|line| format!("{INDENT}{line}")));
    let arrows = std::iter::once(ARROW).chain(std::iter::repeat("  "));
    let advice = arrows.zip(advice);
    lines.extend(advice.map(|(arrow, line)| format!("{INDENT}{arrow}{line}")));
    lines
}

/// The title and the measure, on a line of its own if both do not fit one.
fn head(finding: &Finding, width: usize) -> Vec<String> {
    let hint = match finding.severity {
        Severity::Problem => "",
        Severity::Hint => " (hint)",
    };
    let title = format!("{}{hint}", clean(&finding.title));
    let measure = clean(&finding.measure);
    if measure.is_empty() {
        return wrap(&title, width);
    }
    let both = format!("{title}: {measure}");
    if columns(&both) <= width {
        return vec![both];
    }
    let mut lines = wrap(&format!("{title}:"), width);
    lines.extend(wrap(&measure, width));
    lines
}

/// Lines of the text and of the advice, together at most so many: first a sentence of each, then the rest
/// of the text, then that of the advice.
fn sentences_in(finding: &Finding, room: usize, width: usize) -> [Vec<String>; 2] {
    let [text, advice] = [&finding.text, &finding.advice].map(|it| sentences(it));
    let lines = |sentences: &[&str], width: usize| match sentences {
        [] => Vec::new(),
        some => wrap(&some.join(" "), width),
    };
    let of_text = |number: usize| lines(&text[..number], width);
    let of_advice = |number: usize| lines(&advice[..number], width - columns(ARROW));
    let mut shown = [0, 0];
    let first = (0..2).map(|which| (which, 1));
    let others = (2..=text.len()).map(|number| (0, number));
    let others = others.chain((2..=advice.len()).map(|number| (1, number)));
    let most = [text.len(), advice.len()];
    for (which, number) in first.chain(others) {
        let mut more = shown;
        more[which] = number;
        let is_next = number == shown[which] + 1 && number <= most[which];
        if is_next && of_text(more[0]).len() + of_advice(more[1]).len() <= room {
            shown = more;
        }
    }
    [of_text(shown[0]), of_advice(shown[1])]
}

/// The sentences of a text: each ends with a full stop or a question mark, outside of backticks, before a
/// blank and a capital or a backtick.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut from, mut is_quoted) = (0, false);
    for (at, c) in text.char_indices() {
        is_quoted ^= c == '`';
        let rest = &text[at..];
        let is_end = !is_quoted && (rest.starts_with(". ") || rest.starts_with("? "));
        if is_end && rest[2..].starts_with(|c: char| c.is_uppercase() || c == '`') {
            found.push(&text[from..=at]);
            from = at + 2;
        }
    }
    if from < text.len() {
        found.push(&text[from..]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_findings::Rule;

    fn finding(text: &str, advice: &str) -> Finding {
        Finding {
            rule: Rule::Leak,
            severity: Severity::Hint,
            title: "blocks that are never freed".to_owned(),
            measure: "93.8 KiB in 800 blocks".to_owned(),
            text: text.to_owned(),
            advice: advice.to_owned(),
            process: 1,
            frame: None,
            sites: Vec::new(),
            numbers: Vec::new(),
            mended: None,
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_text_is_left_out_by_whole_sentences() {
        assert_eq!(
            sentences("4.0 KiB leaked. Mended: peak −4 %. Does it? `a. B` shows it."),
            [
                "4.0 KiB leaked.",
                "Mended: peak −4 %.",
                "Does it?",
                "`a. B` shows it."
            ]
        );
        assert_eq!(sentences(""), [""; 0]);
        let finding = finding("One two three. Four.", "Try it. Or leave it.");
        let lines = |room| sentences_in(&finding, room, 10).map(|lines| lines.join("|"));
        assert_eq!(lines(0), ["", ""]);
        // The first sentence of the text takes two lines, that of the advice one.
        assert_eq!(lines(1), ["", "Try it."]);
        assert_eq!(lines(2), ["One two|three.", ""]);
        assert_eq!(lines(3), ["One two|three.", "Try it."]);
        assert_eq!(lines(4), ["One two|three.|Four.", "Try it."]);
        assert_eq!(lines(9), ["One two|three.|Four.", "Try it.|Or leave|it."]);
    }

    #[test]
    fn a_measure_is_never_cut() {
        let finding = finding("", "");
        assert_eq!(
            head(&finding, 60),
            ["blocks that are never freed (hint): 93.8 KiB in 800 blocks"]
        );
        assert_eq!(
            head(&finding, 40),
            [
                "blocks that are never freed (hint):",
                "93.8 KiB in 800 blocks"
            ]
        );
        assert_eq!(
            head(&finding, 20),
            [
                "blocks that are",
                "never freed (hint):",
                "93.8 KiB in 800",
                "blocks"
            ]
        );
    }
}
