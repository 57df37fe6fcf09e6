//! The names of usual allocation wrappers: `wrappers.txt`.

use std::sync::OnceLock;

use super::Glue;

const LIST: &str = include_str!("../wrappers.txt");

/// Whether a function is in the list of usual wrappers, given its module's file name and
/// its qualified name.
pub(crate) fn is_listed(module: &str, function: &str) -> bool {
    static GLUE: OnceLock<Glue> = OnceLock::new();
    let list = GLUE.get_or_init(|| {
        let mut list = Glue::none();
        // Cannot fail: a test parses the list.
        let _ = list.add(LIST);
        list
    });
    list.has_function(module, function) || is_operator_of_class(function)
}

/// Whether a function is the `operator new` of a class: patterns have no `*` at their
/// beginning.
fn is_operator_of_class(function: &str) -> bool {
    let name = function.strip_suffix("[]").unwrap_or(function);
    name.ends_with("::operator new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_pattern() {
        Glue::none().add(LIST).expect("wrappers.txt");
    }

    #[test]
    fn usual_wrappers_are_known_by_name() {
        for (module, function) in [
            ("gdb", "xmalloc"),
            ("perl", "Perl_safesysmalloc"),
            ("libavutil.so.57", "av_malloc"),
            ("libglib-2.0.so.0", "g_slice_alloc"),
            ("python3.11", "PyMem_RawMalloc"),
            ("redis-server", "zmalloc"),
            ("libxml2.so.2", "xmlStrdup"),
            ("app", "xmalloc.constprop.0"),
            ("vvp", "vvp_net_t::operator new"),
            ("libpng16.so.16", "png_malloc_warn"),
        ] {
            assert!(is_listed(module, function), "{function}");
        }
        for function in [
            "main",
            "xmalloc_tests",
            "av_frame_alloc",
            "parse",
            "PyList_New",
        ] {
            assert!(!is_listed("app", function), "{function}");
        }
    }
}
