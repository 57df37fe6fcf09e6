//! The names of GHC: `package_Module_name_info`, each part in the Z-encoding
//! (`compiler/GHC/Utils/Encoding.hs`), in which `_` is `zu`, so that it only separates. Modules of
//! the program itself have no package.

use super::Names;

/// What the code of a name is: the entry of a closure or of a constructor, one that takes its
/// arguments from the stack or in registers.
const KINDS: [&str; 6] = ["info", "con_info", "static_info", "slow", "fast", "entry"];

/// Returns `None` if the name is not Haskell's, or not surely: a name of C can look like one without a
/// character that is encoded.
pub(super) fn demangle(name: &str) -> Option<Names> {
    let parts = KINDS
        .iter()
        .filter_map(|kind| name.strip_suffix(kind)?.strip_suffix('_'));
    // The longest suffix that leaves two parts or three: `con_info` rather than `info`.
    let rest = parts.min_by_key(|it| it.len())?;
    let parts: Vec<&str> = rest.split('_').collect();
    let (package, module, function) = match parts.as_slice() {
        [module, function] => (None, module, function),
        [package, module, function] => (Some(package), module, function),
        _ => return None,
    };
    let is_base = package.is_some_and(|it| *it == "base");
    let package = match package {
        Some(package) => Some(decoded(package).filter(|it| is_package(it))?),
        None => None,
    };
    let (decoded_module, decoded_function) = (decoded(module)?, decoded(function)?);
    let is_encoded = decoded_module != *module || decoded_function != *function;
    let is_sure = is_encoded || is_base || package.as_ref().is_some_and(|it| it.contains('-'));
    if !is_sure || !is_module(&decoded_module) || !is_function(&decoded_function) {
        return None;
    }
    let function = format!("{decoded_module}.{decoded_function}");
    let signature = match package {
        Some(package) => format!("{package}:{function}"),
        None => function.clone(),
    };
    Some(Names {
        function,
        signature,
    })
}

fn is_package(name: &str) -> bool {
    let is_part = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '+');
    name.starts_with(|it: char| it.is_ascii_lowercase()) && name.chars().all(is_part)
}

fn is_module(name: &str) -> bool {
    let is_letter = |it: char| it.is_alphanumeric() || matches!(it, '_' | '\'');
    let is_part = |part: &str| part.starts_with(char::is_uppercase) && part.chars().all(is_letter);
    name.split('.').all(is_part)
}

/// Names that GHC makes have `$` and a letter before the name that they are made of: `$wgo`,
/// `$fShowInt_$cshow`. Each part is an identifier or an operator.
fn is_function(name: &str) -> bool {
    let is_word = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .is_some_and(|it| it.is_alphanumeric() || it == '_')
            && letters.all(|it| it.is_alphanumeric() || matches!(it, '_' | '\'' | '#'))
    };
    let is_operator = |part: &str| {
        let is_symbol = |it: char| !it.is_alphanumeric() && !it.is_whitespace() && !it.is_control();
        !part.is_empty()
            && part
                .trim_end_matches(|it: char| it.is_ascii_digit())
                .chars()
                .all(is_symbol)
    };
    let is_made = |part: &str| {
        let after = part.trim_start_matches(|it: char| it.is_ascii_lowercase());
        is_word(part) || is_operator(part) || (after.len() < part.len() && is_operator(after))
    };
    match name.strip_prefix('$') {
        Some(made) => made.split('$').all(is_made),
        None => is_word(name) || is_operator(name) || name.split('$').all(is_word),
    }
}

/// The text of a Z-encoded one; `None` if it is not one.
fn decoded(text: &str) -> Option<String> {
    let mut all = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            'z' => all.push(lower(&mut rest)?),
            'Z' => upper(&mut rest, &mut all)?,
            letter if letter.is_ascii_alphanumeric() => all.push(letter),
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

/// The character after `z`: one of a table, or hexadecimal digits and `U`.
fn lower(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'a' => '&',
        'b' => '|',
        'c' => '^',
        'd' => '$',
        'e' => '=',
        'g' => '>',
        'h' => '#',
        'i' => '.',
        'l' => '<',
        'm' => '-',
        'n' => '!',
        'p' => '+',
        'q' => '\'',
        'r' => '\\',
        's' => '/',
        't' => '*',
        'u' => '_',
        'v' => '%',
        'z' => 'z',
        digit @ '0'..='9' => {
            let (digits, _) = rest.as_str().split_once('U')?;
            let code = format!("{digit}{digits}");
            let is_number = code.len() <= 8 && code.bytes().all(|it| it.is_ascii_hexdigit());
            let code = is_number.then(|| u32::from_str_radix(&code, 16).ok())??;
            // The digits and `U`, which are ASCII.
            rest.nth(digits.len())?;
            char::from_u32(code).filter(|it| !it.is_control())?
        }
        _ => return None,
    })
}

/// What stands after `Z`: a character, or a number and `T` or `H` for a tuple.
fn upper(rest: &mut std::str::Chars<'_>, all: &mut String) -> Option<()> {
    let letter = rest.next()?;
    let single = match letter {
        'C' => ':',
        'L' => '(',
        'M' => '[',
        'N' => ']',
        'R' => ')',
        'Z' => 'Z',
        '0'..='9' => {
            let more: String = rest
                .as_str()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            let number: usize = format!("{letter}{more}")
                .parse()
                .ok()
                .filter(|&it| it <= 64)?;
            let kind = rest.nth(more.len())?;
            let commas = ",".repeat(number.saturating_sub(1));
            match kind {
                'T' => all.push_str(&format!("({commas})")),
                'H' => all.push_str(&format!("(#{commas}#)")),
                _ => return None,
            }
            return Some(());
        }
        _ => return None,
    };
    all.push(single);
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::{Names, demangle};

    /// Symbols of a program that GHC 9.0 made.
    #[test]
    fn functions_of_modules() {
        for (raw, function, signature) in [
            ("Main_zdwgo_info", "Main.$wgo", "Main.$wgo"),
            (
                "Main_zdfFunctorP1_info",
                "Main.$fFunctorP1",
                "Main.$fFunctorP1",
            ),
            ("Main_zlzpzpzg_info", "Main.<++>", "Main.<++>"),
            (
                "containerszm0zi6zi4zi1_DataziMapziInternal_balanceL_info",
                "Data.Map.Internal.balanceL",
                "containers-0.6.4.1:Data.Map.Internal.balanceL",
            ),
            (
                "base_GHCziEventziPoll_zdfStorablePollFdzuzdcsizzeOf_info",
                "GHC.Event.Poll.$fStorablePollFd_$csizeOf",
                "base:GHC.Event.Poll.$fStorablePollFd_$csizeOf",
            ),
            (
                "base_DataziDynamic_Dynamic_con_info",
                "Data.Dynamic.Dynamic",
                "base:Data.Dynamic.Dynamic",
            ),
            (
                "base_Numeric_showHex_info",
                "Numeric.showHex",
                "base:Numeric.showHex",
            ),
            (
                "ghczmprim_GHCziTypes_ZC_con_info",
                "GHC.Types.:",
                "ghc-prim:GHC.Types.:",
            ),
            (
                "ghczmprim_GHCziTuple_Z3T_con_info",
                "GHC.Tuple.(,,)",
                "ghc-prim:GHC.Tuple.(,,)",
            ),
            (
                "base_GHCziBase_zdfMonadIOzuzdczgzgze_info",
                "GHC.Base.$fMonadIO_$c>>=",
                "base:GHC.Base.$fMonadIO_$c>>=",
            ),
            ("Main_z3b1Uzq_info", "Main.α'", "Main.α'"),
        ] {
            let names = demangle(raw);
            assert_eq!(
                (names.function.as_str(), names.signature.as_str()),
                (function, signature),
                "{raw}"
            );
        }
    }

    #[test]
    fn other_names_stay() {
        for raw in [
            "Main_main_info",
            "stg_ap_0_fast",
            "SDL_Resize_puzzle_info",
            "Resize_info",
            "get_zip_info",
            "TIFF_Foo_zip_entry",
            "Gtk_zoom_info",
            "_info",
            "__info",
            "Main__info",
            "Main_z_info",
            "Main_z3b1_info",
            "Main_zffffffffffU_info",
            "Main_z0U_info",
            "Main_Z9999999T_info",
            "Main_Zé_info",
            "é_zdé_é_info",
        ] {
            assert_eq!(demangle(raw), Names::plain(raw), "{raw}");
        }
    }

    /// Every text is read to its end or refused.
    #[test]
    fn no_text_is_too_strange() {
        for at in 0..30_000_u32 {
            let letters = ['z', 'Z', 'U', 'T', '1', 'd', 'é', '_'];
            let text: String = (0..5)
                .map(|step| letters[(at >> (3 * step)) as usize % 8])
                .collect();
            demangle(&format!("{text}_M{text}_{text}_info"));
        }
    }
}
