//! A form of names that gcc writes and the demangler's grammar lacks: a member of a
//! named type, `sr <type> <name>`, as in the conditions of `std::enable_if`. The names of
//! `std::swap` and `std::make_shared` contain it.
//!
//! [`rewrite`] replaces it by an expression with the same substitutions that the
//! demangler can read: a member of `typeid (type)`. [`restore`] changes the demangled
//! text back to the member of the type.

const SCOPED: &str = "sr";
const MEMBER_OF_TYPEID: &str = "dtti";
/// The most members that are restored. Each one may move the whole rest of the text; names of
/// the standard library have a few.
const MAX_RESTORED: usize = 256;

/// Returns `name` in the form that the demangler can read; `None` if it has no such
/// member.
pub(super) fn rewrite(name: &str) -> Option<String> {
    let mut rewritten = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while !rest.is_empty() {
        let length = length_of_name_or_literal(rest);
        if length > 0 {
            let (token, after) = rest.split_at_checked(length)?;
            rewritten.push_str(token);
            rest = after;
        } else if let Some(after) = rest.strip_prefix(SCOPED).filter(|r| is_named_type(r)) {
            rewritten.push_str(MEMBER_OF_TYPEID);
            rest = after;
        } else {
            let mut characters = rest.chars();
            rewritten.extend(characters.next());
            rest = characters.as_str();
        }
    }
    (rewritten != name).then_some(rewritten)
}

/// Bytes of the identifier (`5value`) or literal (`Lm256E`) at the start of `text`, whose
/// letters have no meaning in the grammar; 0 if there is none.
fn length_of_name_or_literal(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let count = digits(text);
    if count > 0 {
        let length: usize = text[..count].parse().unwrap_or(0);
        // The digits may be something else than a length, such as the number of a lambda.
        let fits = text
            .as_bytes()
            .get(count)
            .is_some_and(|b| *b != b'_' || length > 1);
        return if fits {
            count.saturating_add(length)
        } else {
            count
        };
    }
    match text.as_bytes() {
        [b'L', kind, ..] if kind.is_ascii_lowercase() => {
            let sign = usize::from(text[2..].starts_with('n'));
            2 + sign + digits(&text[2 + sign..])
        }
        // Numbers of substitutions and template parameters.
        [b'S' | b'T', ..] => 1 + digits(&text[1..]),
        _ => 0,
    }
}

/// Whether a type begins that is written by its name. The demangler knows the other forms.
fn is_named_type(text: &str) -> bool {
    text.starts_with("St")
        || text.starts_with('N')
        || text.starts_with(|c: char| c.is_ascii_digit())
}

/// Restores the text of a rewritten name: `(typeid (T)).m` becomes `T::m`.
pub(super) fn restore(text: &str) -> String {
    const OPEN: &str = "(typeid (";
    const CLOSE: &str = ")).";
    let mut restored = text.to_owned();
    // The last one contains no other: those inside of it were restored before.
    for _ in 0..MAX_RESTORED {
        let Some(start) = restored.rfind(OPEN) else {
            break;
        };
        let inside = start + OPEN.len();
        let Some(end) = closing(&restored[inside..]).map(|end| inside + end) else {
            break;
        };
        if !restored[end..].starts_with(CLOSE) {
            break;
        }
        restored.replace_range(end..end + CLOSE.len(), "::");
        restored.replace_range(start..inside, "");
    }
    // Parentheses that are no longer needed, as in `!(x)`, stay: the meaning is the same.
    restored
}

/// The index at which the parenthesis that was opened before `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1usize;
    text.bytes().position(|byte| {
        match byte {
            b'(' => open += 1,
            b')' => open -= 1,
            _ => {}
        }
        open == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_identifiers_and_literals_alone() {
        for name in [
            "_Z6usrSt1v",
            "_ZN4srSt1aEv",
            "_Z1fILm11EEvv",
            "_Z1fIXsrT_5valueEEvv",
        ] {
            assert_eq!(rewrite(name), None, "{name}");
        }
        let rewritten = rewrite("_ZN4srSt1fIXsrSt1aIT_E5valueEEEvv");
        assert_eq!(
            rewritten.as_deref(),
            Some("_ZN4srSt1fIXdttiSt1aIT_E5valueEEEvv")
        );
    }

    #[test]
    fn restores_members_within_members() {
        let text = "f<(typeid (A<(typeid (B<void (int)>)).x>)).y>";
        assert_eq!(restore(text), "f<A<B<void (int)>::x>::y>");
        assert_eq!(restore("(typeid (a"), "(typeid (a");
        assert_eq!(restore("(typeid (a))"), "(typeid (a))");
    }
}
