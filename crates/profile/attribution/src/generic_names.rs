//! Functions whose name says only that they obtain memory, or that they work on a container or
//! a string: `AllocateHeap`, `memory_get_block`, `sqlite3HashInsert`, `QString::QString`. Their
//! caller says what the memory is for.
//!
//! A name is split into words, at underscores and where the case changes, and a word into those
//! that it consists of (`newobj`). A name is generic if all of its words are in the lists below; the
//! first word may be the prefix of a library (`jv_array_sized`).

/// Words of which one alone says that a function allocates.
const ALLOCATION: &[&str] = &[
    "alloc",
    "allocate",
    "allocated",
    "allocation",
    "allocations",
    "calloc",
    "malloc",
    "mallocz",
    "memalign",
    "permalloc",
    "realloc",
    "reallocate",
];

/// Words that may decide alone, whatever words are beside them: `safe_malloc_add_2op_`.
const MALLOC: &[&str] = &["calloc", "malloc", "realloc", "reallocate"];

/// Words for memory. With one of [`OBTAIN`] they say that a function allocates.
const MEMORY: &[&str] = &["heap", "mem", "memory"];

/// See [`MEMORY`].
const OBTAIN: &[&str] = &["acquire", "get", "new", "request"];

/// Words for containers and strings.
const CONTAINER: &[&str] = &[
    "array",
    "arrays",
    "buf",
    "buffer",
    "bytearray",
    "cstr",
    "deque",
    "dict",
    "hash",
    "hashmap",
    "hashset",
    "hashtable",
    "list",
    "map",
    "multimap",
    "queue",
    "set",
    "slist",
    "stack",
    "str",
    "strbuf",
    "string",
    "strings",
    "table",
    "tree",
    "variant",
    "vec",
    "vector",
    "vectors",
];

/// What is done with a container that exists.
const CHANGE: &[&str] = &[
    "add", "append", "assign", "cat", "concat", "emplace", "enlarge", "ensure", "expand", "extend",
    "grow", "growth", "increase", "insert", "prepend", "push", "put", "rehash", "reserve",
    "resize",
];

/// How a container or an object is made.
const MAKE: &[&str] = &[
    "clone", "copy", "create", "detach", "dup", "from", "init", "make", "new", "sized",
];

/// Words that only say how, or of what size.
const DETAIL: &[&str] = &[
    "align",
    "aligned",
    "arena",
    "array",
    "at",
    "atomic",
    "aux",
    "back",
    "backing",
    "block",
    "blocks",
    "byte",
    "bytes",
    "capacity",
    "checked",
    "chunk",
    "clear",
    "data",
    "default",
    "die",
    "double",
    "entries",
    "entry",
    "ex",
    "external",
    "fail",
    "fast",
    "finish",
    "first",
    "fresh",
    "front",
    "gc",
    "helper",
    "huge",
    "impl",
    "in",
    "int",
    "internal",
    "large",
    "last",
    "latin",
    "len",
    "length",
    "limited",
    "literal",
    "node",
    "nothrow",
    "obj",
    "object",
    "objects",
    "or",
    "page",
    "pages",
    "pool",
    "preallocated",
    "ptr",
    "raw",
    "resource",
    "safe",
    "size",
    "slow",
    "small",
    "space",
    "storage",
    "store",
    "sys",
    "throw",
    "tiny",
    "try",
    "unsafe",
    "user",
    "utf",
    "virtual",
    "with",
    "zero",
    "zeroed",
];

/// First words that are no library's prefix: `by_malloc` is one way of several.
const RELATION: &[&str] = &["by", "for", "on", "to", "via"];

/// Parts of the names of classes that are containers: one of the first list with any of both.
const CONTAINER_CLASS: &[&str] = &[
    "array",
    "deque",
    "hash",
    "hashmap",
    "hashset",
    "hashtable",
    "list",
    "map",
    "set",
    "string",
    "table",
    "vec",
    "vector",
];
const CONTAINER_CLASS_DETAIL: &[&str] = &[
    "base", "bit", "buffer", "byte", "bytes", "data", "dense", "flat", "growable", "impl",
    "indexed", "linked", "multi", "ordered", "ptr", "queue", "raw", "shared", "simple", "small",
    "stack",
];

/// Most letters of a word that is split into others. Names come from files of strangers, and the ways
/// to split a word may double with each part of it.
const MAX_WORD: usize = 32;
/// Fewest letters of a word of which a longer one consists.
const MIN_PART: usize = 3;
/// Most letters of a prefix that needs no other function with it.
const MAX_SHORT_PREFIX: usize = 3;

/// What a generic name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// That the function allocates.
    Allocates,
    /// That it allocates, and something else.
    MayAllocate,
    /// That it changes a container.
    Changes,
    /// That it makes a container or a string.
    MakesContainer,
    /// That it makes something.
    Makes,
    /// That it makes an object, of whatever kind.
    MakesObject,
    /// That it is a function of a class that is a container or an allocator.
    InContainer,
    /// That it copies a value.
    Copies,
}

/// A generic name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenericName {
    pub(crate) says: Says,
    /// A first word that is in none of the lists and has more than three letters: the prefix of
    /// a library, or what the function is about.
    pub(crate) prefix: Option<String>,
}

/// What a function's name says, if it is generic; `None` for all others.
pub(crate) fn generic(function: &str) -> Option<GenericName> {
    let named = |says| GenericName { says, prefix: None };
    let (_, copy) = function
        .split_once(" as core::clone::Clone>::clone")
        .unzip();
    if copy.is_some_and(|inner| inner.is_empty() || inner.starts_with("::")) {
        return Some(named(Says::Copies));
    }
    let bare = untemplated(function);
    let (class, name) = match bare.rsplit_once("::") {
        Some((class, name)) => (class.rsplit("::").next(), name),
        None => (None, bare.as_str()),
    };
    if class.is_some_and(|class| is_container_class(class, function)) {
        return Some(named(Says::InContainer));
    }
    let words = words(name);
    let (mut prefix, mut rest, mut has_prefix) = (None, &words[..], false);
    if let [first, others @ ..] = rest
        && !others.is_empty()
        && parts(first).is_none()
        && !RELATION.contains(&first.as_str())
    {
        prefix = Some(first)
            .filter(|it| it.len() > MAX_SHORT_PREFIX)
            .cloned();
        rest = others;
        has_prefix = true;
    }
    // The letter of a part of a library: `luaH_new`.
    while let [letter, others @ ..] = rest
        && letter.len() == 1
        && !others.is_empty()
    {
        rest = others;
    }
    let mut all: Vec<&str> = Vec::new();
    for word in rest {
        let Some(parts) = parts(word) else {
            let is_malloc = |it: &String| MALLOC.contains(&it.as_str());
            let may_allocate = words.iter().any(is_malloc);
            return may_allocate.then(|| named(Says::MayAllocate));
        };
        all.extend(parts);
    }
    let has = |list: &[&str]| all.iter().any(|word| list.contains(word));
    let says = if has(ALLOCATION) || has(MEMORY) && has(OBTAIN) {
        Says::Allocates
    } else if has(CONTAINER) && has(CHANGE) {
        Says::Changes
    } else if has(CONTAINER) && has(MAKE) {
        Says::MakesContainer
    } else if has(&["create", "make", "new"]) && class.is_none() {
        match !has_prefix && has(&["obj", "object", "objects"]) {
            true => Says::MakesObject,
            false => Says::Makes,
        }
    } else {
        return None;
    };
    Some(GenericName { says, prefix })
}

/// The first word of a function's name, in small letters.
pub(crate) fn first_word(function: &str) -> Option<String> {
    let bare = untemplated(function);
    let name = bare.rsplit("::").next().unwrap_or_default();
    words(name).into_iter().next()
}

/// A name without what is between angle brackets; all of it if nothing else is there.
fn untemplated(function: &str) -> String {
    let mut depth = 0_usize;
    let outside = function.chars().filter(|&c| {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                return false;
            }
            _ => {}
        }
        depth == 0 && c != '>'
    });
    let outside: String = outside.collect();
    match outside.is_empty() {
        true => function.to_owned(),
        false => outside,
    }
}

/// Whether a class is an allocator by its name, or a container: a template, of several words, or
/// `String`.
fn is_container_class(class: &str, function: &str) -> bool {
    let words = words(class);
    if words.last().is_some_and(|it| it == "allocator") {
        return true;
    }
    let is_known = |word: &String| {
        let word = word.as_str();
        // The letter before the names of a library's classes.
        word.len() == 1
            || word.bytes().all(|it| it.is_ascii_digit())
            || CONTAINER_CLASS.contains(&word)
            || CONTAINER_CLASS_DETAIL.contains(&word)
    };
    words.iter().all(is_known)
        && words
            .iter()
            .any(|it| CONTAINER_CLASS.contains(&it.as_str()))
        && (words.len() > 1
            || words.iter().any(|it| it == "string")
            || function.contains(&format!("{class}<")))
}

/// The words of an identifier in small letters: `PyDataMem_UserNEW` has `py`, `data`, `mem`,
/// `user`, `new`; digits are words of their own.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (index, &c) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|it| letters.get(it));
        let next = letters.get(index + 1);
        let begins = before.is_some_and(|before| {
            c.is_ascii_digit() != before.is_ascii_digit()
                || c.is_ascii_uppercase()
                    && (before.is_ascii_lowercase()
                        || next.is_some_and(|next| next.is_ascii_lowercase()))
        });
        if (begins || !c.is_ascii_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The words of the lists of which a word consists: itself, or two and more (`newobj`). A number
/// has none. `None` if it consists of others.
fn parts(word: &str) -> Option<Vec<&'static str>> {
    if word.bytes().all(|it| it.is_ascii_digit()) {
        return Some(Vec::new());
    }
    if word.len() > MAX_WORD {
        return None;
    }
    let lists = [ALLOCATION, MEMORY, OBTAIN, CONTAINER, CHANGE, MAKE, DETAIL];
    let known = |part: &str| lists.iter().flat_map(|it| *it).find(|it| **it == part);
    if let Some(&known) = known(word) {
        return Some(vec![known]);
    }
    // The letter of a variant that ends the program or fills with zeros: `xrealloc`, `xnew`.
    let variant = word.split_at_checked(1).map(|(_, rest)| rest);
    let variant = variant.filter(|rest| ALLOCATION.contains(rest) || *rest == "new");
    if let Some(&known) = variant.and_then(known) {
        return Some(vec![known]);
    }
    for at in MIN_PART..(word.len() + 1).saturating_sub(MIN_PART) {
        let Some((first, rest)) = word.split_at_checked(at) else {
            continue;
        };
        if let Some(&first) = known(first)
            && let Some(rest) = parts(rest)
        {
            return Some([vec![first], rest].concat());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(function: &str) -> Option<Says> {
        generic(function).map(|it| it.says)
    }

    #[test]
    fn names_that_only_allocate_are_generic() {
        for name in [
            "os::malloc",
            "AllocateHeap",
            "AcquireVirtualMemory",
            "memory_get_block",
            "PyDataMem_UserNEW",
            "PL_malloc_atomic",
            "lsx_realloc",
            "node::BackingStore::Allocate",
            "app::alloc_block",
            "Minisat::xrealloc",
            "dbReallocFinish",
            "_MagickReallocateResourceLimitedMemory",
            "pool_permalloc<ivl_nexus_s>",
        ] {
            assert_eq!(says(name), Some(Says::Allocates), "{name}");
        }
    }

    #[test]
    fn names_with_other_words_may_be_allocators() {
        for name in ["safe_malloc_add_2op_", "by_malloc"] {
            assert_eq!(says(name), Some(Says::MayAllocate), "{name}");
        }
    }

    #[test]
    fn names_of_containers_are_generic() {
        for (name, expected) in [
            ("sqlite3HashInsert", Says::Changes),
            ("_hashtable_insert", Says::Changes),
            ("strbuf_grow", Says::Changes),
            ("hash_insert_at", Says::Changes),
            ("re_node_set_insert_last", Says::Changes),
            ("wmem_tree_new", Says::MakesContainer),
            ("jv_array_sized", Says::MakesContainer),
            ("createstrobj", Says::MakesContainer),
            ("luaC_newobj", Says::Makes),
            ("createObject", Says::MakesObject),
            ("xnew_STRING", Says::MakesContainer),
            (
                "Minisat::ClauseAllocator::ClauseAllocator",
                Says::InContainer,
            ),
            (
                "Minisat::RegionAllocator<unsigned int>::capacity",
                Says::InContainer,
            ),
            (
                "<stats::Partial<T> as core::clone::Clone>::clone",
                Says::Copies,
            ),
            ("ImagingNewInternal", Says::Makes),
            ("QString::QString", Says::InContainer),
            (
                "llvm::DenseMapBase<llvm::DenseMap<A, B*>, A, B*>::grow",
                Says::InContainer,
            ),
            ("Array<Table*>::clear", Says::InContainer),
        ] {
            assert_eq!(says(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn names_that_say_what_is_made_are_not() {
        for name in [
            "main",
            "load",
            "by_anything",
            "ImagingCopy",
            "aeCreateEventLoop",
            "xmlAllocParserInputBuffer",
            "png_create_info_struct",
            "G1CollectedHeap::G1CollectedHeap",
            "G1Arguments::create_heap",
            "Pattern::new",
            "app::Pattern::new",
            "<app::Node as core::fmt::Display>::fmt",
            "QXmlStreamReader::QXmlStreamReader",
            "Map::load",
            "tile::Map::new",
            "read_line",
            "operator<<",
            "",
        ] {
            assert_eq!(says(name), None, "{name}");
        }
    }

    #[test]
    fn a_prefix_is_told_from_what_is_made() {
        let prefix = |function: &str| generic(function).and_then(|it| it.prefix);
        assert_eq!(prefix("jv_array_sized"), None);
        assert_eq!(prefix("type_new_alloc").as_deref(), Some("type"));
        assert_eq!(prefix("frame_alloc").as_deref(), Some("frame"));
        assert_eq!(prefix("ImagingAllocateArray").as_deref(), Some("imaging"));
        assert_eq!(first_word("ImagingCopy").as_deref(), Some("imaging"));
        assert_eq!(first_word("a::b_c<d::e>").as_deref(), Some("b"));
    }

    #[test]
    fn a_word_that_can_be_split_in_many_ways_takes_no_time() {
        // Each part is `strbuf`, or `str` and `buf`; the last letter fits nothing.
        let hostile = format!("{}q", "strbuf".repeat(40));
        assert_eq!(says(&hostile), None);
        assert_eq!(says("hashtableinsert"), Some(Says::Changes));
    }

    #[test]
    fn words_end_at_changes_of_case_and_at_digits() {
        assert_eq!(words("PyDataMem_UserNEW").join(" "), "py data mem user new");
        assert_eq!(words("sqlite3HashInsert").join(" "), "sqlite 3 hash insert");
        assert_eq!(words("XMLParser").join(" "), "xml parser");
        assert_eq!(words("ümlaut_neu").join(" "), "mlaut neu");
    }
}
