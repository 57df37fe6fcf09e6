//! A document as Markdown (CommonMark with GitHub's tables). Names are escaped, so that none
//! becomes markup.

use std::io::{self, Write};

use super::{Block, Document, Table, Text};
use crate::style::Role;
use crate::{shown, shown_lines};

pub(super) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let is_printed = |block: &&Block| !matches!(block, Block::Gap);
    for (index, block) in document.0.iter().filter(is_printed).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_block(block, out)?;
    }
    Ok(())
}

fn write_block(block: &Block, out: &mut dyn Write) -> io::Result<()> {
    match block {
        Block::Heading(level, text) => writeln!(out, "{} {}", "#".repeat(*level), marked(text)),
        Block::Sentences(text) => writeln!(out, "{}", marked(text)),
        Block::Warning(text) => writeln!(out, "> {}", escaped(text)),
        Block::List(items) => {
            let mut items = items.iter();
            items.try_for_each(|item| writeln!(out, "- {}", marked(item)))
        }
        Block::Numbered(items) => {
            let mut items = (1..).zip(items);
            items.try_for_each(|(number, item)| writeln!(out, "{number}. {}", marked(item)))
        }
        Block::Table(table) => write_table(table, out),
        Block::Gap => Ok(()),
        Block::Commands(commands) => write_fenced("sh", &commands.join("\n"), out),
        Block::Lines(text) => write_fenced("", text.trim_matches('\n'), out),
        Block::Folded(summary, part) => {
            // Markdown is not interpreted within the summary, which is HTML.
            let summary = shown(summary).replace('&', "&amp;").replace('<', "&lt;");
            writeln!(out, "<details><summary>{summary}</summary>\n")?;
            write(part, out)?;
            writeln!(out, "\n</details>")
        }
    }
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut row = |cells: &mut dyn Iterator<Item = String>| {
        writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let columns = || table.columns.iter();
    row(&mut columns().map(|column| escaped(&column.title)))?;
    let rule = |is_right| if is_right { "---:" } else { "---" };
    row(&mut columns().map(|column| rule(column.is_right).to_owned()))?;
    for (_, cells) in &table.rows {
        row(&mut cells.iter().map(cell))?;
    }
    match &*table.more {
        "" => Ok(()),
        more => writeln!(out, "\n… {}", escaped(more)),
    }
}

/// A cell of a table. A bar ends it even within code, unless it is escaped.
fn cell(text: &Text) -> String {
    let code = |role: Role| matches!(role, Role::Function | Role::Code);
    let pieces = text.0.iter();
    let pieces = pieces.map(|(role, text)| match code(*role) {
        true => piece(*role, text).replace('|', "\\|"),
        false => piece(*role, text),
    });
    pieces.collect()
}

fn marked(text: &Text) -> String {
    let pieces = text.0.iter();
    pieces.map(|(role, text)| piece(*role, text)).collect()
}

fn piece(role: Role, text: &str) -> String {
    match role {
        _ if text.is_empty() => String::new(),
        Role::Title => format!("**{}**", escaped(text)),
        Role::Emphasis => format!("*{}*", escaped(text)),
        Role::Function | Role::Code => code(text),
        Role::Plain | Role::Location | Role::Warning | Role::Good | Role::Bad => escaped(text),
    }
}

/// Escapes what Markdown and HTML interpret.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in shown(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' | '>' => {
                escaped.extend(['\\', c]);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A code span for any text (CommonMark 6.1).
fn code(text: &str) -> String {
    let text = shown(text);
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let fence = fence(&text);
    format!("{fence} {text} {fence}")
}

fn write_fenced(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = shown_lines(text);
    let fence = fence(&text);
    writeln!(out, "{fence}{language}\n{text}\n{fence}")
}

/// A fence of backticks that is longer than any in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}
