//! The number of columns that a text takes on a terminal (Unicode Standard Annex #11, by
//! `unicode-width`: a Han character or an emoji takes two, a combining mark none), and texts cut
//! to a number of them. The texts have no control characters: see [`shown`](crate::shown).

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The number of columns of a text.
pub fn columns(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.width(),
    }
}

/// The text; if it is wider than `width` columns, its end is replaced by `…`.
pub fn cut(text: &str, width: usize) -> String {
    fitted(text, width, |kept| {
        format!("{}…", head(text, kept).trim_end())
    })
}

/// The text; if it is wider than `width` columns, its middle is replaced by `…`.
pub fn cut_middle(text: &str, width: usize) -> String {
    fitted(text, width, |kept| {
        let (front, back) = (kept / 2, kept - kept / 2);
        format!("{}…{}", head(text, front), tail(text, back))
    })
}

/// The text; if it is wider than `width` columns, its start is replaced by `…`.
pub fn cut_start(text: &str, width: usize) -> String {
    fitted(text, width, |kept| format!("…{}", tail(text, kept)))
}

/// `cut` has the columns that are left beside the ellipsis.
fn fitted(text: &str, width: usize, cut: impl FnOnce(usize) -> String) -> String {
    match width {
        width if columns(text) <= width => text.to_owned(),
        0 => String::new(),
        width => cut(width - 1),
    }
}

/// The longest start of the text that takes at most `width` columns.
fn head(text: &str, width: usize) -> &str {
    let ends: Vec<usize> = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .collect();
    let fitting = ends.partition_point(|&end| columns(&text[..end]) <= width);
    &text[..fitting.checked_sub(1).map_or(0, |last| ends[last])]
}

/// The longest end of the text that takes at most `width` columns. It does not begin with a mark
/// that would combine with the ellipsis before it.
fn tail(text: &str, width: usize) -> &str {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let cut = starts.partition_point(|&start| columns(&text[start..]) > width);
    let tail = &text[starts.get(cut).copied().unwrap_or(text.len())..];
    tail.trim_start_matches(|c: char| c.width() == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!(columns("abc"), 3);
        assert_eq!(columns("漢字"), 4);
        assert_eq!(columns("e\u{301}"), 1);
        assert_eq!(columns("🦀"), 2);
        // A heart that is an emoji, and a family of three joined to one emoji.
        assert_eq!(columns("❤\u{fe0f}"), 2);
        assert_eq!(columns("👩\u{200d}👩\u{200d}👧"), 2);
    }

    #[test]
    fn what_is_cut_has_an_ellipsis() {
        assert_eq!(cut("äbc", 3), "äbc");
        assert_eq!(cut("äbcd", 3), "äb…");
        assert_eq!(cut("a bcd", 3), "a…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut_middle("abcdef", 4), "a…ef");
        assert_eq!(cut_start("abcdef", 4), "…def");
    }

    #[test]
    fn nothing_is_cut_within_a_character() {
        // The second character does not fit the column that is left.
        assert_eq!(cut("漢字漢字", 4), "漢…");
        assert_eq!(cut_start("漢字漢字", 4), "…字");
        assert_eq!(cut_middle("漢字漢字", 6), "漢…字");
        // An accent stays with its letter, and leaves with it.
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(cut_start("xe\u{301}e", 2), "…e");
        for family in ["👩\u{200d}👧ab", "ab👩\u{200d}👧"] {
            for width in 0..=4 {
                for cut in [cut, cut_middle, cut_start] {
                    assert!(columns(&cut(family, width)) <= width);
                }
            }
        }
    }
}
