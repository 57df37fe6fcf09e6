//! The names of functions that Emacs has compiled to native code (`comp-c-func-name` in its
//! `comp.el`): `F`, the Lisp name in hexadecimal digits, the same name with only the characters that a C
//! name may have, and a number.

use super::Names;

/// Returns `None` if the name is not Emacs's: both forms of the name must say the same.
pub(super) fn demangle(name: &str) -> Option<Names> {
    let (digits, rest) = name.strip_prefix('F')?.split_once('_')?;
    let (readable, number) = rest.rsplit_once('_')?;
    let number: u32 = number.parse().ok()?;
    if digits.is_empty()
        || !digits
            .bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    let bytes = (0..digits.len()).step_by(2).map(|at| {
        let byte = digits.get(at..at + 2)?;
        u8::from_str_radix(byte, 16).ok()
    });
    let lisp = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    let expected = lisp.replace('-', "_");
    let expected = expected
        .chars()
        .filter(|&it| it.is_ascii_alphanumeric() || it == '_');
    if lisp.chars().any(char::is_control) || !expected.eq(readable.chars()) {
        return None;
    }
    Some(match number {
        0 => Names::plain(&lisp),
        // Several functions of a file without a name are told apart, as closures of Rust are.
        _ => Names::plain(&format!("{lisp}#{number}")),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Names, demangle};

    /// Symbols of Emacs 28.2's `seq` and `autoload`.
    #[test]
    fn lisp_functions() {
        for (raw, function) in [
            (
                "F6175746f6c6f61642d727562726963_autoload_rubric_0",
                "autoload-rubric",
            ),
            (
                "F62617463682d7570646174652d6175746f6c6f6164732d2d73756d6d617279_batch_update_autoloads__summary_0",
                "batch-update-autoloads--summary",
            ),
            (
                "F616e6f6e796d6f75732d6c616d626461_anonymous_lambda_10",
                "anonymous-lambda#10",
            ),
            ("F666f6f3d3f_foo_0", "foo=?"),
        ] {
            assert_eq!(demangle(raw), Names::plain(function), "{raw}");
        }
    }

    #[test]
    fn other_names_stay() {
        for raw in [
            "F",
            "F_",
            "F__0",
            "Fcons",
            "Fadd_one_1",
            "F666_foo_0",
            "F666f6f_fop_0",
            "F666f6f_foo",
            "F666f6f_foo_-1",
            "Fff_ÿ_0",
            "F0a__0",
        ] {
            assert_eq!(demangle(raw), Names::plain(raw), "{raw}");
        }
    }
}
