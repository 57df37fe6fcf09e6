//! Parses the names of functions that V8 writes: the name, the source position and the
//! kind of compiled code in one string.

/// The parts of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spelled<'a> {
    pub(super) function: &'a str,
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The kinds of code whose names V8 writes with a source position
/// (`CodeEventListener::LogEventsAndTags`).
const KINDS: [&str; 6] = [
    "JS",
    "LazyCompile",
    "Function",
    "Script",
    "Eval",
    "Callback",
];

/// `JS:*name /path/file.js:12:34`: the kind, how it was compiled (`*` and `+`
/// optimised, `~` interpreted, `^` baseline), the name, the position. Names of
/// other runtimes are returned unchanged.
pub(super) fn spell(name: &str) -> Spelled<'_> {
    let plain = Spelled {
        function: name,
        file: "",
        line: 0,
        column: 0,
    };
    let Some((kind, rest)) = name.split_once(':') else {
        return plain;
    };
    if !KINDS.contains(&kind) {
        return plain;
    }
    let rest = rest.trim_start_matches(['*', '~', '^', '+']);
    let Some((function, position)) = rest.split_once(' ') else {
        return Spelled {
            function: if rest.is_empty() { name } else { rest },
            ..plain
        };
    };
    let function = if function.is_empty() {
        "(anonymous)"
    } else {
        function
    };
    let number = |text: &str| text.parse::<u32>().ok();
    // With or without a column.
    let parts = position.rsplit_once(':').and_then(|(before, last)| {
        let last = number(last)?;
        let inner = before
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, number(line)?, last)));
        Some(inner.unwrap_or((before, last, 0)))
    });
    let (file, line, column) = parts.unwrap_or((position, 0, 0));
    Spelled {
        function,
        file,
        line,
        column,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v8_names_are_parsed_and_others_stay() {
        for (name, function, file, line, column) in [
            ("JS:*sum /srv/a.js:12:34", "sum", "/srv/a.js", 12, 34),
            (
                "LazyCompile:~sum file:///srv/a b.mjs:7",
                "sum",
                "file:///srv/a b.mjs",
                7,
                0,
            ),
            (
                "JS:^ node:internal/x:1:2",
                "(anonymous)",
                "node:internal/x",
                1,
                2,
            ),
            ("Function:~", "Function:~", "", 0, 0),
            ("JS:*f", "f", "", 0, 0),
            ("Builtin:ArrayMap", "Builtin:ArrayMap", "", 0, 0),
            ("Lcom/acme/Shop;::total", "Lcom/acme/Shop;::total", "", 0, 0),
            (
                "int32 [App] A::B(int32)[Tier1]",
                "int32 [App] A::B(int32)[Tier1]",
                "",
                0,
                0,
            ),
            ("JS:*f a.js", "f", "a.js", 0, 0),
            ("", "", "", 0, 0),
        ] {
            let expected = Spelled {
                function,
                file,
                line,
                column,
            };
            assert_eq!(spell(name), expected, "{name}");
        }
    }
}
