//! A document as text for a terminal, at most as wide as wanted; only a word of a command that
//! is longer is not cut, so that it can be pasted.

use std::io::{self, Write};

use allotrope_text::{cut, shown, wrap};

use super::{Block, Document};

/// Narrowest lines.
const NARROWEST: usize = 60;
/// Widest cell of all columns but the last.
const WIDEST: usize = 16;

/// Writes a document in lines of at most `width` columns.
///
/// # Errors
/// Those of `out`.
pub fn write(document: &Document, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = width.max(NARROWEST);
    writeln!(out, "{}", cut(&shown(&document.title), width))?;
    for section in &document.sections {
        let mark = if section.level == 1 { "" } else { "- " };
        let title = cut(&shown(&section.title), width - mark.len());
        writeln!(out, "\n{mark}{title}")?;
        if section.level == 1 {
            writeln!(out, "{}", "=".repeat(title.chars().count()))?;
        }
        for block in &section.blocks {
            write_block(block, width, out)?;
        }
    }
    Ok(())
}

fn write_block(block: &Block, width: usize, out: &mut dyn Write) -> io::Result<()> {
    match block {
        Block::Text(text) => sentence(text, ["", ""], width, out),
        Block::List(sentences) => {
            let mut sentences = sentences.iter();
            sentences.try_for_each(|it| sentence(it, ["* ", "  "], width, out))
        }
        Block::Table {
            columns,
            rows,
            more,
        } => {
            table(columns, rows, width, out)?;
            match more {
                0 => Ok(()),
                more => writeln!(out, "  … {more} more"),
            }
        }
        Block::Commands(commands) => {
            let mut commands = commands.iter();
            commands.try_for_each(|it| command(it, width, out))
        }
    }
}

fn table(
    columns: &[&str],
    rows: &[Vec<String>],
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cell = |text: &str, is_last| match is_last {
        true => shown(text).into_owned(),
        false => cut(&shown(text), WIDEST),
    };
    let last = columns.len().saturating_sub(1);
    let titles: Vec<String> = columns.iter().map(|it| (*it).to_owned()).collect();
    let rows = [&titles].into_iter().chain(rows).map(|row| {
        let cells = row.iter().enumerate();
        cells.map(|(at, it)| cell(it, at == last)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row: &Vec<String>| row.get(at));
        cells.map(|it| it.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..last).map(widest).collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        line.push_str("  ");
        line.push_str(row.last().map_or("", |it| it));
        writeln!(out, "{}", cut(&line, width))?;
    }
    Ok(())
}

/// Writes a sentence in lines of this width; a longer word is cut.
fn sentence(text: &str, indents: [&str; 2], width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = wrap(&shown(text), indents, width).into_iter();
    lines.try_for_each(|line| writeln!(out, "{}", cut(&line, width)))
}

/// Writes a command; the shell joins the lines of a long one.
fn command(command: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = " ".to_owned();
    for word in shell_words(command) {
        if line.len() > 4 && line.chars().count() + word.chars().count() + 3 > width {
            writeln!(out, "{line} \\")?;
            line = "   ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(out, "{line}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Section;

    #[test]
    fn everything_fits_and_commands_can_be_pasted() {
        let long = "word ".repeat(40);
        let command = format!(
            "allotrope replay 'my app' --alloc {}",
            "x=./y.so ".repeat(9)
        );
        let document = Document {
            title: long.clone(),
            sections: vec![Section {
                level: 2,
                title: long.clone(),
                blocks: vec![
                    Block::Text("x".repeat(200)),
                    Block::List(vec![long.clone()]),
                    Block::Table {
                        columns: vec!["share", "function"],
                        rows: vec![vec!["1".repeat(50), long]],
                        more: 3,
                    },
                    Block::Commands(vec![command.clone()]),
                ],
            }],
        };
        let mut out = Vec::new();
        write(&document, 80, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|it| it.chars().count() <= 80), "{text}");
        let joined = text.replace(" \\\n   ", "");
        assert!(joined.contains(command.trim_end()), "{joined}");
        assert!(text.contains("… 3 more"), "{text}");
    }
}
