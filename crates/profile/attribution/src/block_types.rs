//! The types of blocks, as far as the names in a stack or the debug information prove them, and the
//! C++ operator that asked for them.
//!
//! From the innermost frame outwards, functions that only pass a request on are skipped. The
//! first other function decides: if it allocates for objects of one type and nothing else, and
//! its name has this type, the blocks of the site are one such object each, or an array of
//! them. Every other function ends the search, and the type is unknown. So no frame between
//! the deciding one and the allocation may construct anything: a constructor that is inlined
//! without a trace could have allocated something else there.
//!
//! - C++: the member `allocate` of the standard allocators (libstdc++, libc++), which containers,
//!   `make_shared` and `allocate_shared` call; the members of `basic_string`, which allocate
//!   characters only; `make_unique`, if the line is one of its own.
//! - Rust: `Box<T>` and `RawVec<T>` where names have type arguments, which is so with the mangling
//!   scheme v0. With the older one, the debug information has them.
//!
//! Where names prove nothing and the function is the one that called `operator new`, the recording
//! may have the class whose constructor initialises the block there (`block_types` of
//! `allotrope-symbols`). It counts if all blocks of the site have the size of that class, or of an
//! array of its objects.
//!
//! `docs/report-json.md` has how often this is right on programs that it was not tuned on.

use std::borrow::Cow;

use allotrope_profile::{BlockType, Frame, Profile, Site};

/// What a function says of the blocks that it allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role<'a> {
    /// It passes a request on.
    Passes,
    /// It is an operator of C++, with this name; whether it is the standard library's own, which
    /// passes a request on. A program's own may take a chunk for many blocks.
    Operator(&'static str, bool),
    /// It allocates for objects of this type only.
    Decides(Cow<'a, str>),
    /// It asks an operator of C++ for blocks that a constructor of this class initialises.
    Constructs(Cow<'a, str>, &'a BlockType),
    /// Anything else.
    Ends,
}

/// The source files of the operators of libstdc++ and libc++. Where they have no debug
/// information, no file is known.
const LIBRARY_FILES: [&str; 8] = [
    "new_op.cc",
    "new_opa.cc",
    "new_opant.cc",
    "new_opnt.cc",
    "new_opv.cc",
    "new_opvnt.cc",
    "new.cpp",
    "stdlib_new_delete.cpp",
];

/// Bytes of the length before an array whose objects have a destructor (Itanium C++ ABI, 2.7).
const ARRAY_LENGTH: u64 = 8;

/// The most frames that are looked at: a chain of functions that pass requests on is short.
const MAX_FRAMES: usize = 32;

/// The types of the blocks of a profile's sites.
#[derive(Debug, Clone)]
pub struct BlockTypes<'a> {
    /// By frame.
    roles: Vec<Role<'a>>,
}

impl<'a> BlockTypes<'a> {
    /// Looks at all frames of a profile.
    pub fn new(profile: &'a Profile) -> Self {
        Self {
            roles: profile.frames.iter().map(role).collect(),
        }
    }

    fn role(&self, frame: u32) -> &Role<'a> {
        self.roles.get(frame as usize).unwrap_or(&Role::Ends)
    }

    /// The type of the objects in the blocks of a site; `None` if it is unknown.
    pub fn of(&self, site: &Site) -> Option<&str> {
        for &frame in site.stack.iter().take(MAX_FRAMES) {
            match self.role(frame) {
                Role::Passes | Role::Operator(_, true) => {}
                Role::Decides(name) => return Some(name),
                Role::Constructs(name, of_type) => {
                    return has_size_of(site, of_type).then_some(name);
                }
                Role::Operator(_, false) | Role::Ends => return None,
            }
        }
        None
    }

    /// The C++ operator that asked for the blocks of a site, as it is written: `operator new`.
    /// `None` if the stack has none. An array's operator that jumps to the other one is not in
    /// the stack.
    pub fn operator(&self, site: &Site) -> Option<&'static str> {
        let mut operator = None;
        for &frame in site.stack.iter().take(MAX_FRAMES) {
            match self.role(frame) {
                // `operator new[]` calls `operator new`: the outer one was asked.
                Role::Operator(name, _) => operator = Some(*name),
                Role::Passes if operator.is_none() => {}
                _ => break,
            }
        }
        operator
    }
}

fn role(frame: &Frame) -> Role<'_> {
    let function = &*frame.function;
    if let Some(operator) = operator(function) {
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        let is_library = file.is_empty() || LIBRARY_FILES.contains(&file);
        return Role::Operator(operator, is_library);
    }
    if passes(function) {
        return Role::Passes;
    }
    let decided = cpp_allocator(function)
        .or_else(|| cpp_string(function))
        .or_else(|| cpp_make_unique(function, &frame.file))
        .or_else(|| rust_type(function))
        .or_else(|| rust_type_of_debug_information(frame));
    match (decided, &frame.allocates) {
        (Some(name), _) => Role::Decides(spelled(name)),
        (None, Some(of_type)) if of_type.object_bytes > 0 => {
            Role::Constructs(spelled(&of_type.name), of_type)
        }
        (None, _) => Role::Ends,
    }
}

/// Whether all blocks of a site can hold objects of a type and nothing else.
fn has_size_of(site: &Site, of_type: &BlockType) -> bool {
    let object = of_type.object_bytes;
    let sizes = match &site.details {
        Some(details) => [details.smallest_bytes, details.largest_bytes],
        // All that is known of the sizes is their sum.
        None if site.allocated_bytes == site.allocations.saturating_mul(object) => [object; 2],
        None => return false,
    };
    let holds = |size: u64| match of_type.is_array {
        true => {
            let objects = [Some(size), size.checked_sub(ARRAY_LENGTH)];
            let mut objects = objects.into_iter().flatten();
            objects.any(|bytes| bytes > 0 && bytes.is_multiple_of(object))
        }
        false => size == object,
    };
    sizes.into_iter().all(holds)
}

/// The operators that allocate, without their parameters.
fn operator(function: &str) -> Option<&'static str> {
    let name = function.split('(').next().unwrap_or_default().trim_end();
    ["operator new", "operator new[]"]
        .into_iter()
        .find(|operator| *operator == name)
}

/// Functions that pass every request on, whatever it is for.
fn passes(function: &str) -> bool {
    const NAMES: [&str; 10] = [
        "__rust_alloc",
        "__rust_alloc_zeroed",
        "__rust_realloc",
        "__rdl_alloc",
        "__rdl_alloc_zeroed",
        "__rdl_realloc",
        "alloc::alloc::exchange_malloc",
        "alloc::boxed::box_new_uninit",
        "alloc::raw_vec::finish_grow",
        "std::__1::__libcpp_allocate",
    ];
    const PREFIXES: [&str; 12] = [
        "alloc::alloc::alloc",
        "alloc::alloc::realloc",
        "alloc::alloc::Global::",
        "<alloc::alloc::Global>::",
        "<alloc::alloc::Global as core::alloc::Allocator>::",
        "<std::alloc::System as core::alloc::global::GlobalAlloc>::",
        "std::sys::alloc::unix::<impl core::alloc::global::GlobalAlloc for std::alloc::System>::",
        "__rustc::",
        "alloc::raw_vec::RawVecInner<A>::",
        "<alloc::raw_vec::RawVecInner>::",
        "<alloc::raw_vec::RawVecInner<",
        "std::__1::__libcpp_operator_new",
    ];
    NAMES.contains(&function) || PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

/// The type of a standard allocator whose member `allocate` this is.
fn cpp_allocator(function: &str) -> Option<&str> {
    const ALLOCATORS: [&str; 4] = [
        "std::__new_allocator<",
        "__gnu_cxx::new_allocator<",
        "std::allocator<",
        "std::__1::allocator<",
    ];
    let traits = ["std::allocator_traits<", "std::__1::allocator_traits<"];
    let of = |name: &'static str| function.strip_prefix(name);
    if let Some(rest) = ALLOCATORS.into_iter().find_map(of) {
        let (arguments, member) = arguments(rest)?;
        let [name] = arguments[..] else { return None };
        return (member == "::allocate").then_some(name);
    }
    let rest = traits.into_iter().find_map(of)?;
    let (allocator, member) = arguments(rest)?;
    let [allocator] = allocator[..] else {
        return None;
    };
    if !["::allocate", "::allocate[abi:v160006]"].contains(&member) {
        return None;
    }
    let inner = ALLOCATORS
        .into_iter()
        .find_map(|name| allocator.strip_prefix(name))?;
    let (inner, rest) = arguments(inner)?;
    let [name] = inner[..] else { return None };
    rest.is_empty().then_some(name)
}

/// The character of a string with the standard allocator. All of its members allocate arrays of
/// characters, and nothing else.
fn cpp_string(function: &str) -> Option<&str> {
    const STRINGS: [&str; 2] = ["std::__cxx11::basic_string<", "std::__1::basic_string<"];
    let rest = STRINGS
        .into_iter()
        .find_map(|name| function.strip_prefix(name))?;
    let (arguments, member) = arguments(rest)?;
    let [character, traits, allocator] = arguments[..] else {
        return None;
    };
    const CHARACTERS: [&str; 5] = ["char", "wchar_t", "char8_t", "char16_t", "char32_t"];
    let is_standard = CHARACTERS.contains(&character)
        && traits.starts_with("std::")
        && (allocator == format!("std::allocator<{character}>")
            || allocator == format!("std::__1::allocator<{character}>"));
    (is_standard && member.starts_with("::")).then_some(character)
}

/// The type of `std::make_unique<T, …>`, whose own line is that of its `new`: if a constructor
/// were inlined there without a trace, the line would be the constructor's.
fn cpp_make_unique<'a>(function: &'a str, file: &str) -> Option<&'a str> {
    if file.rsplit('/').next() != Some("unique_ptr.h") {
        return None;
    }
    const NAMES: [&str; 2] = ["std::make_unique<", "std::__1::make_unique<"];
    let rest = NAMES
        .into_iter()
        .find_map(|name| function.strip_prefix(name))?;
    let (arguments, rest) = arguments(rest)?;
    let name = arguments.first()?;
    // Demanglers leave a blank before the brackets of an array.
    let name = name.strip_suffix("[]").unwrap_or(name).trim_end();
    rest.is_empty().then_some(name)
}

/// The type of a `Box` or `RawVec` in a name with type arguments (mangling scheme v0).
fn rust_type(function: &str) -> Option<&str> {
    let rest = function.strip_prefix('<')?;
    if let Some(rest) = rest.strip_prefix("alloc::boxed::Box<") {
        let (arguments, member) = arguments(rest)?;
        let member = member.strip_prefix(">::")?;
        return arguments.first().copied().filter(|_| makes_box(member));
    }
    let rest = rest.strip_prefix("alloc::raw_vec::RawVec<")?;
    let (arguments, member) = arguments(rest)?;
    member
        .starts_with(">::")
        .then(|| arguments.first().copied())?
}

/// The type of a `Box` or `RawVec` whose name has a placeholder, `alloc::boxed::Box<T>::new`: with
/// the older mangling scheme, only the debug information has the type arguments.
fn rust_type_of_debug_information(frame: &Frame) -> Option<&str> {
    let of_type = frame.allocates.as_ref()?;
    let function = &*frame.function;
    let is_vector = function.starts_with("alloc::raw_vec::RawVec<");
    let is_box = || {
        let rest = function.strip_prefix("alloc::boxed::Box<")?;
        let member = arguments(rest)?.1.strip_prefix("::")?;
        Some(makes_box(member))
    };
    (is_vector || is_box() == Some(true)).then_some(&*of_type.name)
}

/// Whether a member of `Box` makes one.
fn makes_box(member: &str) -> bool {
    ["new", "try_new", "pin"]
        .iter()
        .any(|it| member.starts_with(it))
}

/// The template arguments at the start of a text that follows `<`, and what is behind their `>`.
/// `None` if the text has operators in which angle brackets are none.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    if text.contains("operator") || text.contains("->") || text.contains("<=") {
        return None;
    }
    let (mut depth, mut start) = (0_u32, 0);
    let mut all = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if depth == 0 => {
                all.push(text[start..at].trim());
                let is_named = all.iter().all(|it| !it.is_empty());
                return is_named.then(|| (all, &text[at + 1..]));
            }
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// The type as all demanglers spell it: older ones leave a blank between two `>`.
fn spelled(name: &str) -> Cow<'_, str> {
    match name.contains("> >") {
        true => Cow::Owned(name.replace("> >", ">>").replace("> >", ">>")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use allotrope_profile::SiteDetails;

    use super::*;

    fn of(stack: &[(&str, &str)]) -> (Option<String>, Option<&'static str>) {
        let frames = stack.iter().map(|&(function, file)| Frame {
            function: function.into(),
            file: file.into(),
            ..Frame::default()
        });
        let profile = Profile {
            frames: frames.collect(),
            ..Profile::default()
        };
        let numbers: Vec<u32> = (0..stack.len() as u32).collect();
        let site = Site {
            stack: numbers.into(),
            ..Site::default()
        };
        let types = BlockTypes::new(&profile);
        (types.of(&site).map(str::to_owned), types.operator(&site))
    }

    /// The type of blocks of these sizes, which a function asks for with this type.
    fn of_new(function: &str, of_type: (&str, u64, bool), sizes: [u64; 2]) -> Option<String> {
        let (name, object_bytes, is_array) = of_type;
        let functions = ["operator new", function].map(|function| Frame {
            function: function.into(),
            ..Frame::default()
        });
        let mut profile = Profile {
            frames: functions.to_vec(),
            ..Profile::default()
        };
        profile.frames[1].allocates = Some(std::sync::Arc::new(BlockType {
            name: name.into(),
            object_bytes,
            is_array,
        }));
        let site = Site {
            stack: vec![0, 1].into(),
            details: Some(Box::new(SiteDetails {
                smallest_bytes: sizes[0],
                largest_bytes: sizes[1],
                ..SiteDetails::default()
            })),
            ..Site::default()
        };
        let types = BlockTypes::new(&profile);
        types.of(&site).map(str::to_owned)
    }

    #[test]
    fn a_constructed_class_counts_if_the_blocks_have_its_size() {
        for (is_array, sizes, is_known) in [
            (false, [24, 24], true),
            (false, [24, 48], false),
            (false, [32, 32], false),
            (true, [24, 240], true),
            // With the array's length.
            (true, [32, 56], true),
            (true, [25, 48], false),
            (true, [0, 24], false),
            (true, [8, 8], false),
        ] {
            let found = of_new("main", ("Node", 24, is_array), sizes);
            assert_eq!(found.is_some(), is_known, "{is_array} {sizes:?}");
        }
        assert_eq!(of_new("main", ("Node", 0, false), [0, 0]), None);
        // The name of the function goes before.
        let by_name = of_new(
            "std::__new_allocator<Pod>::allocate",
            ("Node", 8, false),
            [8; 2],
        );
        assert_eq!(by_name.as_deref(), Some("Pod"));
        assert_eq!(
            of_new("main", ("Node<Pod<int> >", 8, false), [8; 2]).as_deref(),
            Some("Node<Pod<int>>")
        );
    }

    #[test]
    fn rusts_placeholders_have_the_type_of_the_debug_information() {
        for (function, is_known) in [
            ("alloc::boxed::Box<T>::new", true),
            ("alloc::boxed::Box<T,A>::new_uninit_in", true),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", true),
            ("alloc::boxed::Box<T>::leak", false),
            ("demo::make", false),
        ] {
            let found = of_new(function, ("demo::Node", 0, false), [16, 64]);
            assert_eq!(found.is_some(), is_known, "{function}");
        }
    }

    fn type_of(functions: &[&str]) -> Option<String> {
        let stack: Vec<(&str, &str)> = functions.iter().map(|&it| (it, "")).collect();
        of(&stack).0
    }

    #[test]
    fn allocators_of_the_standard_library_name_the_type() {
        for (function, name) in [
            ("std::__new_allocator<Pod>::allocate", "Pod"),
            ("std::__1::allocator<Pod>::allocate", "Pod"),
            (
                "__gnu_cxx::new_allocator<a::B<int, c> >::allocate",
                "a::B<int, c>",
            ),
            (
                "std::allocator_traits<std::allocator<std::_Rb_tree_node<std::pair<int const, Pod> > > >::allocate",
                "std::_Rb_tree_node<std::pair<int const, Pod>>",
            ),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create",
                "char",
            ),
        ] {
            let found = type_of(&["operator new", function, "main"]);
            assert_eq!(found.as_deref(), Some(name), "{function}");
        }
    }

    #[test]
    fn rusts_boxes_and_vectors_with_arguments_name_the_type() {
        let inner = ["alloc::alloc::alloc", "<alloc::alloc::Global>::alloc_impl"];
        for (outer, name) in [
            (
                &[
                    "alloc::boxed::box_new_uninit",
                    "<alloc::boxed::Box<r::Foo>>::new",
                ][..],
                "r::Foo",
            ),
            (
                &[
                    "<alloc::raw_vec::RawVecInner>::try_allocate_in",
                    "<alloc::raw_vec::RawVec<(u8, r::Foo)>>::with_capacity_in",
                ],
                "(u8, r::Foo)",
            ),
            (&["<alloc::boxed::Box<[u8; 3]>>::new_uninit"], "[u8; 3]"),
        ] {
            let stack = [&inner[..], outer, &["main"]].concat();
            assert_eq!(type_of(&stack).as_deref(), Some(name), "{outer:?}");
        }
    }

    #[test]
    fn what_is_not_proved_is_unknown() {
        for stack in [
            &["operator new", "main"][..],
            // The vector constructs its elements, which may allocate.
            &[
                "operator new",
                "std::vector<Pod, std::allocator<Pod> >::_M_realloc_insert<Pod>",
            ],
            &["alloc::boxed::Box<T>::new", "main"],
            &["make_block", "std::__new_allocator<Pod>::allocate"],
            // An allocator of the program's own.
            &["operator new", "pool::allocator<Pod>::allocate"],
            &["operator new", "std::__new_allocator<Pod>::construct<Pod>"],
            &[
                "operator new",
                "std::__new_allocator<decltype(a->b)>::allocate",
            ],
            &["operator new", "std::__new_allocator<>::allocate"],
            &["operator new", "std::make_unique<Pod>"],
            &[],
        ] {
            assert_eq!(type_of(stack), None, "{stack:?}");
        }
    }

    #[test]
    fn make_unique_counts_only_at_its_own_line() {
        let own = of(&[
            ("operator new", ""),
            (
                "std::make_unique<Derived, int&>",
                "/usr/include/c++/12/bits/unique_ptr.h",
            ),
        ]);
        assert_eq!(own.0.as_deref(), Some("Derived"));
        let array = of(&[
            ("operator new", ""),
            (
                "std::make_unique<Pod []>",
                "/usr/include/c++/12/bits/unique_ptr.h",
            ),
        ]);
        assert_eq!(array.0.as_deref(), Some("Pod"));
        let inlined = of(&[
            ("operator new", ""),
            ("std::make_unique<Derived, int&>", "derived.h"),
        ]);
        assert_eq!(inlined.0, None);
    }

    #[test]
    fn an_operator_of_the_program_may_take_a_chunk() {
        let of_file = |file| {
            of(&[
                ("operator new", file),
                ("std::__new_allocator<Pod>::allocate", "new_allocator.h"),
            ])
        };
        let name = Some("operator new");
        assert_eq!(
            of_file("/build/libstdc++-v3/libsupc++/new_op.cc"),
            (Some("Pod".to_owned()), name)
        );
        assert_eq!(of_file("/home/me/pool.cc"), (None, name));
    }

    #[test]
    fn the_operator_is_the_one_that_was_asked() {
        let of = |functions: &[&str]| {
            let stack: Vec<(&str, &str)> = functions.iter().map(|&it| (it, "")).collect();
            of(&stack).1
        };
        assert_eq!(of(&["operator new", "main"]), Some("operator new"));
        assert_eq!(
            of(&["operator new", "operator new[]", "main"]),
            Some("operator new[]")
        );
        assert_eq!(
            of(&["operator new[](unsigned long)"]),
            Some("operator new[]")
        );
        assert_eq!(of(&["main", "operator new"]), None);
        assert_eq!(of(&["operator newer"]), None);
    }
}
