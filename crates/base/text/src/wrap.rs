//! Breaks text into lines of a given number of columns.

use crate::columns;

/// The text in lines of at most `width` columns. The first line begins with `first`, each
/// further one with `rest`. It is broken at blanks outside backticks only, so that commands and
/// paths can be copied: a word that is wider has a line of its own, and is not cut.
pub fn wrap(text: &str, [first, rest]: [&str; 2], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words(text) {
        if !is_empty && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// The words of a text between its blanks. What is in backticks is one word, blanks
/// included: a command that is wrapped cannot be pasted.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        let end = text.find(|c: char| {
            quoted ^= c == '`';
            c == ' ' && !quoted
        });
        // A backtick without its end quotes nothing.
        let end = if quoted { text.find(' ') } else { end };
        let (word, after) = match end {
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_indented() {
        let text = "one two three `a command` thisisverylong";
        assert_eq!(
            wrap(text, ["* ", "  "], 12),
            ["* one two", "  three", "  `a command`", "  thisisverylong"]
        );
        assert_eq!(wrap("", ["> ", ""], 5), ["> "]);
        // Columns of a table within the text stay.
        assert_eq!(wrap("a  b", ["", ""], 10), ["a  b"]);
    }
}
