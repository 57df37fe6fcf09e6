//! Shortens names, paths and stacks to a number of columns and escapes control
//! characters in them, so that a hostile name cannot control the terminal.

use allotrope_text::{columns, cut, cut_middle, cut_start, shown, wrap as wrapped};

/// The text with control characters escaped: names come from files that anybody
/// may have written.
pub(crate) fn clean(text: &str) -> String {
    shown(text).into_owned()
}

/// A function's name in at most `room` columns: template arguments are left out
/// first, the most deeply nested ones before the outer ones, then the middle.
pub(crate) fn name(function: &str, room: usize) -> String {
    let function = clean(function);
    if columns(&function) <= room {
        return function;
    }
    // `<Vec<A> as Clone>::clone` without what is in its outermost brackets could be any
    // function of that name.
    let outermost = if function.starts_with('<') { 2 } else { 1 };
    for depth in (outermost..=3).rev() {
        let collapsed = collapse(&function, depth);
        if columns(&collapsed) <= room {
            return collapsed;
        }
    }
    cut_middle(&collapse(&function, outermost), room)
}

/// The names of several functions, each in at most `room` columns as by [`name`]. Where that makes
/// different ones alike, they keep the part in which they differ.
pub(crate) fn names(functions: &[&str], room: usize) -> Vec<String> {
    let short = functions.iter().map(|function| name(function, room));
    let short: Vec<String> = short.collect();
    let alike = |at: usize| {
        let others = functions.iter().zip(&short);
        let others =
            others.filter(|(function, it)| **it == short[at] && **function != functions[at]);
        others.map(|(function, _)| *function).collect::<Vec<_>>()
    };
    let told_apart = short.iter().enumerate().map(|(at, it)| match alike(at) {
        none if none.is_empty() => it.clone(),
        others => told_apart(functions[at], &others, room),
    });
    told_apart.collect()
}

/// A name in at most `room` columns with the part in which it differs from all others.
fn told_apart(function: &str, others: &[&str], room: usize) -> String {
    let text = clean(function);
    let common = |other: &&str| {
        let other = clean(other);
        let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b);
        same.map(|(a, _)| a.len_utf8()).sum::<usize>()
    };
    let differs = others.iter().map(common).max().unwrap_or(0);
    // From the start of the word in which the difference is.
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = text[..differs]
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + 1);
    let start = (start..=differs).find(|at| text.is_char_boundary(*at));
    let start = start.unwrap_or(differs);
    let head = room / 3;
    match columns(&text[..start]) <= head {
        true => cut_middle(&text, room),
        false => format!(
            "{}{}",
            cut(&text, head),
            cut_middle(&text[start..], room - head)
        ),
    }
}

/// A path in at most `room` columns: its start is left out if needed.
pub(crate) fn path(path: &str, room: usize) -> String {
    let path = clean(path);
    if columns(&path) <= room {
        return path;
    }
    let path = cut_start(&path, room.max(1));
    let tail = &path['…'.len_utf8()..];
    // Begins with a whole folder name if that drops less than half.
    match tail.find('/') {
        Some(slash) if slash < tail.len() / 2 => format!("…{}", &tail[slash..]),
        _ => path,
    }
}

/// Replaces template arguments at nesting depth `depth` and deeper by `<…>`.
/// Brackets in operators and arrows do not count.
fn collapse(function: &str, depth: usize) -> String {
    let mut out = String::with_capacity(function.len());
    let mut open = 0_usize;
    let mut previous = ' ';
    for c in function.chars() {
        let operator = open < depth && continues_operator(&out, c);
        match c {
            '<' if !operator => {
                open += 1;
                if open == depth {
                    out.push_str("<…");
                } else if open < depth {
                    out.push(c);
                }
            }
            '>' if open > 0 && !operator && previous != '-' => {
                if open <= depth {
                    out.push(c);
                }
                open -= 1;
            }
            _ if open < depth => out.push(c),
            _ => {}
        }
        previous = c;
    }
    if open == 0 { out } else { function.to_owned() }
}

/// Whether `next` continues an operator's name at the end of `read`. (Demanglers put a
/// space between `operator<` and template arguments.)
fn continues_operator(read: &str, next: char) -> bool {
    const NAMES: [&str; 5] = ["<=>", "<<=", ">>=", "->*", "<="];
    let word = read.trim_end_matches(['<', '>', '=', '-']);
    let mut name = read[word.len()..].to_owned();
    name.push(next);
    word.ends_with("operator") && NAMES.iter().any(|known| known.starts_with(&name))
}

/// A line of callers in at most `room` columns: the innermost ones that fit,
/// then the outermost.
pub(crate) fn callers(names: &[&str], room: usize) -> String {
    const ARROW: &str = "← ";
    const MAX_LENGTH: usize = 48;
    let mut parts: Vec<String> = Vec::new();
    let mut used = 0;
    let last = names
        .last()
        .map(|last| name(last, MAX_LENGTH.min(room / 2)));
    let reserved = last.as_deref().map_or(0, columns) + columns(" ← … ← ");
    for (index, function) in names.iter().enumerate() {
        let part = name(function, MAX_LENGTH.min(room.saturating_sub(2)));
        let needed = columns(&part) + columns(ARROW) + usize::from(index > 0);
        let is_last = index + 1 == names.len();
        let limit = if is_last {
            room
        } else {
            room.saturating_sub(reserved)
        };
        if used + needed > limit {
            break;
        }
        used += needed;
        parts.push(format!("{ARROW}{part}"));
    }
    let shown = parts.len();
    if shown < names.len() {
        if shown + 1 < names.len() {
            parts.push(format!("{ARROW}…"));
        }
        parts.extend(last.map(|last| format!("{ARROW}{last}")));
    }
    cut_middle(&parts.join(" "), room)
}

/// The text in lines of at most `room` columns, broken between words. Of a wider word the middle
/// is left out, but not of a command, which is to be pasted.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = wrapped(clean(text).trim(), ["", ""], room);
    for line in &mut lines {
        if !line.contains(' ') {
            *line = cut_middle(line, room);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_template_arguments_are_left_out_first() {
        let long = "std::map<int, std::vector<std::pair<char, long>>>::insert";
        assert_eq!(name(long, 80), long);
        assert_eq!(
            name(long, 50),
            "std::map<int, std::vector<std::pair<…>>>::insert"
        );
        assert_eq!(name(long, 40), "std::map<int, std::vector<…>>::insert");
        assert_eq!(name(long, 25), "std::map<…>::insert");
        assert_eq!(columns(&name(long, 10)), 10);
    }

    #[test]
    fn names_that_would_read_alike_keep_their_difference() {
        let long = [
            "std::vector<app::parser::Instruction, std::allocator<app::parser::Instruction>>::push_back",
            "std::vector<app::parser::Declaration, std::allocator<app::parser::Declaration>>::push_back",
            "std::vector<app::lexer::Token, std::allocator<app::lexer::Token>>::push_back",
            "main",
        ];
        let short = names(&long, 44);
        assert_eq!(short[3], "main");
        for (at, word) in [(0, "Instr"), (1, "Decl"), (2, "Token")] {
            assert!(short[at].contains(word), "{short:?}");
            assert!(short[at].ends_with("push_back"), "{short:?}");
            assert!(columns(&short[at]) <= 44, "{short:?}");
        }
        // One name twice stays as it is: it is one function.
        let twice = names(&["a::<u8>::f", "a::<u8>::f"], 8);
        assert_eq!(twice, [name("a::<u8>::f", 8), name("a::<u8>::f", 8)]);
    }

    #[test]
    fn a_method_of_a_trait_keeps_its_type() {
        let long = "<alloc::vec::Vec<app::Item<u8>> as core::clone::Clone>::clone";
        assert_eq!(
            name(long, 55),
            "<alloc::vec::Vec<…> as core::clone::Clone>::clone"
        );
        assert_eq!(name(long, 30), "<alloc::vec::V…::Clone>::clone");
    }

    #[test]
    fn brackets_of_operators_are_no_template() {
        let name = "operator<<";
        assert_eq!(collapse(name, 1), name);
        assert_eq!(collapse("a::operator-><int>", 1), "a::operator-><…>");
        assert_eq!(collapse("f<a->b, c>", 1), "f<…>");
        assert_eq!(collapse("odd<", 1), "odd<");
    }

    #[test]
    fn paths_keep_their_end() {
        assert_eq!(path("/home/user/project/src/main.rs", 14), "…/src/main.rs");
        assert_eq!(path("main.rs", 14), "main.rs");
        assert_eq!(columns(&path(&"x".repeat(50), 14)), 14);
    }

    #[test]
    fn callers_end_with_the_outermost_one() {
        assert_eq!(callers(&["a", "b", "main"], 40), "← a ← b ← main");
        let many = ["alpha", "beta", "gamma", "delta", "main"];
        assert_eq!(callers(&many, 30), "← alpha ← beta ← … ← main");
        assert!(columns(&callers(&many, 12)) <= 12);
        assert_eq!(callers(&[], 10), "");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(name("a\x1b[31mb", 80), r"a\x1b[31mb");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
    }
}
