//! A document as text for a terminal, at most as wide as wanted; only a command is never cut, so
//! that it can be pasted.

use super::{Block, Document, Text};
use crate::style::{Role, Style};
use crate::{columns, cut, shown_lines};

pub(super) fn lines(document: &Document, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for block in &document.0 {
        append(block, style, &mut lines);
    }
    lines
}

fn append(block: &Block, style: Style, lines: &mut Vec<String>) {
    let list = |items: &[Text], mark: &dyn Fn(usize) -> String| -> Vec<String> {
        let items = items.iter().enumerate().map(|(index, item)| {
            let mark = mark(index);
            let rest = " ".repeat(columns(&mark));
            style.fitted(&item.shown(), [&mark, &rest], Role::Plain)
        });
        items.flatten().collect()
    };
    match block {
        Block::Heading(level, text) => heading(*level, &text.shown(), style, lines),
        Block::Sentences(text) => {
            lines.extend(style.fitted(&text.shown(), ["", ""], Role::Plain));
        }
        Block::Warning(text) => lines.extend(style.fitted(text, ["! ", "  "], Role::Warning)),
        Block::List(items) => lines.extend(list(items, &|_| "* ".to_owned())),
        Block::Numbered(items) => {
            lines.extend(list(items, &|index| format!("{}. ", index + 1)));
        }
        Block::Table(table) => lines.extend(table.lines(style)),
        Block::Gap => lines.push(String::new()),
        Block::Commands(commands) => {
            for it in commands {
                command(it, style.columns(), lines);
            }
        }
        Block::Lines(text) => {
            let text = shown_lines(text);
            lines.extend(text.lines().map(|line| cut(line, style.columns())));
        }
        Block::Folded(summary, part) => {
            lines.extend(style.fitted(summary, ["", ""], Role::Title));
            lines.extend(self::lines(part, style));
        }
    }
}

fn heading(level: usize, text: &str, style: Style, lines: &mut Vec<String>) {
    if !lines.is_empty() {
        lines.push(String::new());
    }
    let indents = if level > 2 { ["- ", "  "] } else { ["", ""] };
    let title = match level {
        // It may be a long command line.
        1 => vec![style.paint(Role::Title, &cut(text, style.columns()))],
        _ => style.fitted(text, indents, Role::Title),
    };
    lines.extend(title);
    if level == 2 {
        let widest = columns(text).min(style.columns());
        lines.push("=".repeat(widest));
    }
}

/// Appends a command; the shell joins the lines of a long one.
fn command(command: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = " ".to_owned();
    for word in shell_words(command) {
        if line.len() > 4 && columns(&line) + columns(word) + 3 > width {
            lines.push(format!("{line} \\"));
            line = "   ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push(line);
}

/// The words of a command; a blank in quotes separates none. A command with escapes stays
/// whole.
fn shell_words(command: &str) -> Vec<&str> {
    if command.contains('\\') {
        return vec![command];
    }
    let mut is_quoted = false;
    let words = command.split(|c| {
        is_quoted ^= c == '\'';
        c == ' ' && !is_quoted
    });
    words.collect()
}
