//! The names of OCaml's native compiler: `caml`, the module, a separator, the function and a
//! number that tells functions of one name apart. The separator is `__`, since OCaml 5.1 `.`; characters
//! of operators are `$` and two hexadecimal digits (`asmcomp/compilenv.ml`, `asmcomp/emitaux.ml`).

use super::Names;

/// Returns `None` if the name is not OCaml's. The spelling has no number: it changes with every
/// function that is added before.
pub(super) fn demangle(name: &str) -> Option<Names> {
    let path = name.strip_prefix("caml")?;
    let (module, function) = split(path)?;
    let function = match function {
        // The code of the module itself, which runs once.
        "entry" => function,
        _ => {
            let (function, number) = function.rsplit_once('_')?;
            let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
            Some(function).filter(|it| is_number && !it.is_empty())?
        }
    };
    let module = module.replace("__", ".");
    Some(Names::plain(&format!("{module}.{}", unescaped(function)?)))
}

/// The module, whose last part begins with an upper case letter, and the function, which does not.
fn split(path: &str) -> Option<(&str, &str)> {
    let mut split = None;
    let mut from = 0;
    loop {
        let rest = &path[from..];
        let end = rest.find("__").into_iter().chain(rest.find('.')).min();
        let Some(at) = end.map(|end| from + end) else {
            break;
        };
        let next = at + if path[at..].starts_with('.') { 1 } else { 2 };
        if rest.starts_with(|it: char| it.is_ascii_uppercase()) {
            split = Some((&path[..at], &path[next..]));
        }
        from = next;
    }
    let is_module = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '\'' | '.');
    split.filter(|(module, _)| {
        module.starts_with(|it: char| it.is_ascii_uppercase()) && module.chars().all(is_module)
    })
}

fn unescaped(function: &str) -> Option<String> {
    let mut parts = function.split('$');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let code = part.get(..2).filter(|it| !it.starts_with('+'))?;
        let code = u8::from_str_radix(code, 16).ok()?;
        text.push(Some(char::from(code)).filter(char::is_ascii_graphic)?);
        text.push_str(&part[2..]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use crate::{Names, demangle};

    /// Symbols of programs that OCaml 4.13 made, and the separator of 5.1.
    #[test]
    fn functions_of_modules() {
        for (raw, function) in [
            ("camlA__build_81", "A.build"),
            ("camlA__fun_215", "A.fun"),
            ("camlA__entry", "A.entry"),
            ("camlA__$5e$5e_83", "A.^^"),
            ("camlStdlib__$40_197", "Stdlib.@"),
            (
                "camlStdlib__Buffer__add_int16_be_630",
                "Stdlib.Buffer.add_int16_be",
            ),
            (
                "camlCamlinternalAtomic__compare_and_set_23",
                "CamlinternalAtomic.compare_and_set",
            ),
            ("camlDune__exe__Main__my__own_7", "Dune.exe.Main.my__own"),
            ("camlStdlib__List.map_268", "Stdlib.List.map"),
            ("camlA.f'_2", "A.f'"),
        ] {
            assert_eq!(demangle(raw), Names::plain(function), "{raw}");
        }
    }

    #[test]
    fn other_names_stay() {
        for raw in [
            "caml_alloc_string",
            "caml_main",
            "camlA",
            "camlA__code_begin",
            "camlA__",
            "camlA___1",
            "camlA__f_",
            "camlA__$5_1",
            "camlA__$00_1",
            "camlA__$+5_1",
            "camlA__$é_1",
            "camlé__f_1",
            "camelA__f_1",
        ] {
            assert_eq!(demangle(raw), Names::plain(raw), "{raw}");
        }
    }
}
