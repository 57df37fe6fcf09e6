//! Recognises C++ constructors by their names.

/// Whether a linkage name can be that of a constructor: `_ZN4NodeC2Ei` (Itanium C++ ABI, 5.1.4.3).
/// Of a few others, too.
pub(crate) fn is_constructor(linkage: &[u8]) -> bool {
    let is_kind = |it: &[u8]| it[0] == b'C' && matches!(it[1], b'1'..=b'5');
    linkage.starts_with(b"_ZN")
        && linkage
            .windows(3)
            .any(|it| is_kind(it) && matches!(it[2], b'E' | b'I' | b'B'))
}

/// The class whose constructor this is: `demo::Node<int>` of `demo::Node<int>::Node`.
pub(crate) fn constructed(function: &str) -> Option<&str> {
    let (class, name) = split_last(function)?;
    let own = split_last(class).map_or(class, |(_, own)| own);
    let plain = |name: &'_ str| {
        let end = name.find(['<', '[']).unwrap_or(name.len());
        name[..end].trim_end().to_owned()
    };
    let own = plain(own);
    (!own.is_empty() && own == plain(name)).then_some(class)
}

/// Splits at the last `::` outside of brackets. `None` if there is none, or where a bracket may be
/// an operator.
fn split_last(name: &str) -> Option<(&str, &str)> {
    if name.contains("operator") || name.contains("->") {
        return None;
    }
    let mut depth = 0_i32;
    let bytes = name.as_bytes();
    for at in (1..bytes.len()).rev() {
        match bytes[at] {
            b'>' | b')' | b']' | b'}' => depth += 1,
            b'<' | b'(' | b'[' | b'{' => depth -= 1,
            b':' if depth == 0 && bytes[at - 1] == b':' => {
                return Some((&name[..at - 1], &name[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_are_recognised_by_their_linkage_names() {
        for (name, is) in [
            ("_ZN4NodeC2Ei", true),
            ("_ZN4NodeC1ERKS_", true),
            ("_ZN3BoxIiEC4IlEET_", true),
            ("_ZN4NodeD2Ev", false),
            ("_ZN4Node5cloneEv", false),
            ("_Z4mainC2E", false),
            ("", false),
        ] {
            assert_eq!(is_constructor(name.as_bytes()), is, "{name}");
        }
    }

    #[test]
    fn constructors_have_the_names_of_their_classes() {
        for (function, class) in [
            ("Node::Node", Some("Node")),
            ("a::b::Node::Node", Some("a::b::Node")),
            ("Box<a::B<int>, c>::Box", Some("Box<a::B<int>, c>")),
            ("Box<int>::Box<long>", Some("Box<int>")),
            ("f()::{lambda(int)#1}::operator()", None),
            (
                "Closure<f()::{lambda()#1}>::Closure",
                Some("Closure<f()::{lambda()#1}>"),
            ),
            (
                "(anonymous namespace)::Node::Node",
                Some("(anonymous namespace)::Node"),
            ),
            ("Node::~Node", None),
            ("Node::clone", None),
            ("Node", None),
            ("::", None),
            ("Node::", None),
            ("", None),
        ] {
            assert_eq!(constructed(function), class, "{function}");
        }
    }
}
