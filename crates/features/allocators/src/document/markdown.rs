//! A document as Markdown (GitHub's, for the tables). Names are escaped, so that none becomes
//! markup.

use std::io::{self, Write};

use allotrope_text::shown;

use super::{Block, Document};

/// Writes a document.
///
/// # Errors
/// Those of `out`.
pub fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# {}", escaped(&document.title))?;
    for section in &document.sections {
        let marks = "#".repeat(section.level + 1);
        writeln!(out, "\n{marks} {}", escaped(&section.title))?;
        for block in &section.blocks {
            writeln!(out)?;
            write_block(block, out)?;
        }
    }
    Ok(())
}

fn write_block(block: &Block, out: &mut dyn Write) -> io::Result<()> {
    match block {
        Block::Text(text) => writeln!(out, "{}", escaped(text)),
        Block::List(sentences) => {
            let mut sentences = sentences.iter();
            sentences.try_for_each(|it| writeln!(out, "- {}", escaped(it)))
        }
        Block::Table {
            columns,
            rows,
            more,
        } => {
            table(columns, rows, out)?;
            match more {
                0 => Ok(()),
                more => writeln!(out, "\n… {more} more"),
            }
        }
        Block::Commands(commands) => {
            // A fence is longer than any in it.
            let longest = commands.iter().flat_map(|it| it.split(|c| c != '`'));
            let longest = longest.map(str::len).max().unwrap_or(0);
            let fence = "`".repeat((longest + 1).max(3));
            writeln!(out, "{fence}sh")?;
            for command in commands {
                writeln!(out, "{command}")?;
            }
            writeln!(out, "{fence}")
        }
    }
}

fn table(columns: &[&str], rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| {} |", columns.join(" | "))?;
    let last = columns.len().saturating_sub(1);
    let rules = (0..columns.len()).map(|at| if at == last { "---" } else { "---:" });
    writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
    for row in rows {
        let cells: Vec<String> = row.iter().map(|it| escaped(it)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Escapes what Markdown and HTML interpret.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in shown(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                escaped.extend(['\\', c]);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Section;

    #[test]
    fn names_are_no_markup() {
        let hostile = "a|b <script> `x` *y* [l](u)\n# z";
        let document = Document {
            title: hostile.to_owned(),
            sections: vec![Section {
                level: 1,
                title: hostile.to_owned(),
                blocks: vec![
                    Block::Text(hostile.to_owned()),
                    Block::Table {
                        columns: vec!["a", "b"],
                        rows: vec![vec!["1".to_owned(), hostile.to_owned()]],
                        more: 0,
                    },
                    Block::Commands(vec!["x '```'".to_owned()]),
                ],
            }],
        };
        let mut out = Vec::new();
        write(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("<script>"), "{text}");
        assert!(text.contains("a\\|b"), "{text}");
        assert!(text.contains("````sh\n"), "{text}");
        // The line break is shown, so it begins no heading.
        assert_eq!(text.lines().filter(|it| it.starts_with('#')).count(), 2);
    }
}
