//! The functions by which programs use the C library's allocator or one in its place, jemalloc,
//! tcmalloc and mimalloc: their names, and what their arguments mean. Sources: jemalloc(3),
//! `tcmalloc.h` of gperftools, and `mimalloc.h`; names of operators are mangled as in the Itanium C++ ABI, §5.1.

use allotrope_shm::numbers::EntryPoint::{self, *};

use crate::allocators::Allocator;
use crate::named::Named;

/// How many bytes a call requests. Arguments are counted from the first one that
/// [`Function`] describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// An argument.
    Argument(u8),
    /// The product of an argument and the next one.
    Product(u8),
    /// The length of the string that it returns, and its zero byte.
    Text,
}

/// The alignment that a call requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// The alignment of `malloc`.
    Usual,
    /// A page.
    Page,
    /// An argument.
    Argument(u8),
    /// The low six bits of an argument are its base-2 logarithm; 0 for none
    /// (`MALLOCX_LG_ALIGN`).
    Flags(u8),
}

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Returns a new block or null.
    Allocate(Size, Alignment),
    /// `posix_memalign`: stores a new block where the first argument points, aligned to
    /// the second, of as many bytes as the third; returns 0 if it succeeds.
    AllocateInto,
    /// `realpath`: returns a new string unless the second argument is one.
    AllocatePath,
    /// Frees the block that is the first argument.
    Free,
    /// Replaces the block that is the first argument; returns the new one or null.
    Reallocate(Size),
    /// Same as [`Reallocate`](Self::Reallocate), but frees the old block also if there is no new
    /// one.
    ReallocateOrFree(Size),
    /// `xallocx`: resizes the block that is the first argument to at least as many bytes
    /// as the second, and at most as many more as the third; returns its size.
    Resize,
    /// Whatever the user says.
    Named(Named),
}

/// A function of an allocator, without the prefix of its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Name of the function.
    pub name: &'static str,
    /// The entry point under which its calls are recorded.
    pub entry: EntryPoint,
    /// What it does.
    pub operation: Operation,
}

/// A function with the prefix of its name.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The prefix.
    pub prefix: &'static str,
    /// The function.
    pub function: &'static Function,
    /// How many arguments precede those that the function describes: 1 for a heap.
    pub skipped: u8,
    /// The allocator that names its functions so; `None`: several do.
    pub allocator: Option<Allocator>,
    /// Rank of the name: of several names of one function, that with the lowest rank counts.
    pub rank: u16,
}

impl Known {
    /// Whether the name is one of C, POSIX or C++, by which every allocator that replaces the C
    /// library's is called.
    pub fn is_standard(&self) -> bool {
        let is_in = |table: &[Function]| table.contains(self.function);
        self.prefix.is_empty() && (is_in(STANDARD) || is_in(OPERATORS))
    }

    /// The two parts of its name for people: that of an operator is not mangled.
    pub fn shown(&self) -> [&'static str; 2] {
        if self.function.name.starts_with("_Z") {
            return ["", self.function.entry.name()];
        }
        [self.prefix, self.function.name]
    }
}

/// A prefix, how many arguments precede the usual ones, whose prefix it is, and the
/// tables of functions with it.
struct Family {
    prefix: &'static str,
    skipped: u8,
    allocator: Option<Allocator>,
    tables: &'static [&'static [Function]],
}

const fn family(
    prefix: &'static str,
    skipped: u8,
    allocator: Option<Allocator>,
    tables: &'static [&'static [Function]],
) -> Family {
    Family {
        prefix,
        skipped,
        allocator,
        tables,
    }
}

/// A longer prefix stands before one that it begins with.
const FAMILIES: [Family; 6] = [
    family(
        "_rjem_",
        0,
        Some(Allocator::Jemalloc),
        &[STANDARD, JEMALLOC],
    ),
    family("je_", 0, Some(Allocator::Jemalloc), &[STANDARD, JEMALLOC]),
    family("tc_", 0, Some(Allocator::Tcmalloc), &[STANDARD, TCMALLOC]),
    family("mi_heap_", 1, Some(Allocator::Mimalloc), &[HEAP, MIMALLOC]),
    family(
        "mi_",
        0,
        Some(Allocator::Mimalloc),
        &[STANDARD, MIMALLOC, MIMALLOC_ONLY],
    ),
    family("", 0, None, &[STANDARD, OPERATORS, JEMALLOC]),
];

/// Whether [`by_name`] or [`Allocator::of_function`] can know a name that begins so. A program may have
/// hundreds of thousands of symbols, and this excludes nearly all of them by their first two
/// bytes.
#[inline(always)]
pub fn may_be_known(name: &[u8]) -> bool {
    let Some(first) = name.first_chunk::<2>() else {
        return false;
    };
    let prefixes = matches!(first, b"_r" | b"je" | b"tc" | b"mi" | b"TC");
    let standard = matches!(
        first,
        b"ma" | b"fr" | b"ca" | b"re" | b"po" | b"al" | b"me" | b"va" | b"pv" | b"cf"
    );
    let jemalloc = matches!(first, b"ra" | b"xa" | b"da" | b"sd");
    let operators = first == b"_Z" && matches!(name.get(2), Some(b'n' | b'd'));
    prefixes || standard || jemalloc || operators
}

/// No name of a function is longer.
const MAX_NAME: usize = 40;

/// The function with this name.
pub fn by_name(name: &[u8]) -> Option<Known> {
    // Most names of a program with many are longer.
    if name.len() > MAX_NAME {
        return None;
    }
    FAMILIES.iter().enumerate().find_map(|(at, family)| {
        let rest = name.strip_prefix(family.prefix.as_bytes())?;
        let functions = family.tables.iter().flat_map(|table| table.iter());
        let (number, function) = functions
            .enumerate()
            .find(|(_, function)| function.name.as_bytes() == rest)?;
        // Names without a prefix rank first.
        let families = FAMILIES.len() - 1 - at;
        Some(Known {
            prefix: family.prefix,
            function,
            skipped: family.skipped,
            allocator: family.allocator,
            rank: (families << 8 | number) as u16,
        })
    })
}

const fn is(name: &'static str, entry: EntryPoint, operation: Operation) -> Function {
    Function {
        name,
        entry,
        operation,
    }
}

const fn new(name: &'static str, entry: EntryPoint, size: Size) -> Function {
    is(name, entry, Operation::Allocate(size, Alignment::Usual))
}

const fn aligned(name: &'static str, entry: EntryPoint, size: Size, argument: u8) -> Function {
    let alignment = Alignment::Argument(argument);
    is(name, entry, Operation::Allocate(size, alignment))
}

const fn free(name: &'static str, entry: EntryPoint) -> Function {
    is(name, entry, Operation::Free)
}

const fn renew(name: &'static str, entry: EntryPoint, size: Size) -> Function {
    is(name, entry, Operation::Reallocate(size))
}

const FIRST: Size = Size::Argument(0);
const SECOND: Size = Size::Argument(1);
const FIRST_TWO: Size = Size::Product(0);
const NEXT_TWO: Size = Size::Product(1);
const PAGES: Operation = Operation::Allocate(FIRST, Alignment::Page);

/// Functions of C, POSIX and old systems.
const STANDARD: &[Function] = &[
    new("malloc", Malloc, FIRST),
    free("free", Free),
    new("calloc", Calloc, FIRST_TWO),
    renew("realloc", Realloc, SECOND),
    renew("reallocarray", Reallocarray, NEXT_TWO),
    is("posix_memalign", PosixMemalign, Operation::AllocateInto),
    aligned("aligned_alloc", AlignedAlloc, SECOND, 0),
    aligned("memalign", Memalign, SECOND, 0),
    is("valloc", Valloc, PAGES),
    is("pvalloc", Pvalloc, PAGES),
    free("cfree", Cfree),
    free("free_sized", FreeSized),
    free("free_aligned_sized", FreeAlignedSized),
];

const JEMALLOC: &[Function] = &[
    is(
        "mallocx",
        Mallocx,
        Operation::Allocate(FIRST, Alignment::Flags(1)),
    ),
    renew("rallocx", Rallocx, SECOND),
    is("xallocx", Rallocx, Operation::Resize),
    free("dallocx", Dallocx),
    free("sdallocx", Sdallocx),
];

const OPERATORS: &[Function] = &[
    new("_Znwm", OperatorNew, FIRST),
    new("_Znam", OperatorNewArray, FIRST),
    new("_ZnwmRKSt9nothrow_t", OperatorNew, FIRST),
    new("_ZnamRKSt9nothrow_t", OperatorNewArray, FIRST),
    aligned("_ZnwmSt11align_val_t", OperatorNew, FIRST, 1),
    aligned("_ZnamSt11align_val_t", OperatorNewArray, FIRST, 1),
    aligned("_ZnwmSt11align_val_tRKSt9nothrow_t", OperatorNew, FIRST, 1),
    aligned(
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        OperatorNewArray,
        FIRST,
        1,
    ),
    free("_ZdlPv", OperatorDelete),
    free("_ZdlPvRKSt9nothrow_t", OperatorDelete),
    free("_ZdlPvm", OperatorDelete),
    free("_ZdlPvSt11align_val_t", OperatorDelete),
    free("_ZdlPvSt11align_val_tRKSt9nothrow_t", OperatorDelete),
    free("_ZdlPvmSt11align_val_t", OperatorDelete),
    free("_ZdaPv", OperatorDeleteArray),
    free("_ZdaPvRKSt9nothrow_t", OperatorDeleteArray),
    free("_ZdaPvm", OperatorDeleteArray),
    free("_ZdaPvSt11align_val_t", OperatorDeleteArray),
    free("_ZdaPvSt11align_val_tRKSt9nothrow_t", OperatorDeleteArray),
    free("_ZdaPvmSt11align_val_t", OperatorDeleteArray),
];

const TCMALLOC: &[Function] = &[
    new("new", OperatorNew, FIRST),
    new("newarray", OperatorNewArray, FIRST),
    new("new_nothrow", OperatorNew, FIRST),
    new("newarray_nothrow", OperatorNewArray, FIRST),
    aligned("new_aligned", OperatorNew, FIRST, 1),
    aligned("newarray_aligned", OperatorNewArray, FIRST, 1),
    aligned("new_aligned_nothrow", OperatorNew, FIRST, 1),
    aligned("newarray_aligned_nothrow", OperatorNewArray, FIRST, 1),
    free("delete", OperatorDelete),
    free("delete_nothrow", OperatorDelete),
    free("delete_sized", OperatorDelete),
    free("delete_aligned", OperatorDelete),
    free("delete_aligned_nothrow", OperatorDelete),
    free("delete_sized_aligned", OperatorDelete),
    free("deletearray", OperatorDeleteArray),
    free("deletearray_nothrow", OperatorDeleteArray),
    free("deletearray_sized", OperatorDeleteArray),
    free("deletearray_aligned", OperatorDeleteArray),
    free("deletearray_aligned_nothrow", OperatorDeleteArray),
    free("deletearray_sized_aligned", OperatorDeleteArray),
];

/// The standard ones of which mimalloc has a form that takes a heap.
const HEAP: &[Function] = &[
    new("malloc", Malloc, FIRST),
    new("calloc", Calloc, FIRST_TWO),
    renew("realloc", Realloc, SECOND),
    new("alloc_new", OperatorNew, FIRST),
    new("alloc_new_n", OperatorNew, FIRST_TWO),
];

/// Functions of mimalloc with a heap as first argument and without one.
const MIMALLOC: &[Function] = &[
    new("zalloc", Calloc, FIRST),
    new("malloc_small", Malloc, FIRST),
    new("zalloc_small", Calloc, FIRST),
    new("mallocn", Malloc, FIRST_TWO),
    renew("reallocn", Reallocarray, NEXT_TWO),
    is("reallocf", Realloc, Operation::ReallocateOrFree(SECOND)),
    renew("rezalloc", Realloc, SECOND),
    renew("recalloc", Reallocarray, NEXT_TWO),
    aligned("malloc_aligned", AlignedAlloc, FIRST, 1),
    aligned("malloc_aligned_at", AlignedAlloc, FIRST, 1),
    aligned("zalloc_aligned", Calloc, FIRST, 1),
    aligned("zalloc_aligned_at", Calloc, FIRST, 1),
    aligned("calloc_aligned", Calloc, FIRST_TWO, 2),
    aligned("calloc_aligned_at", Calloc, FIRST_TWO, 2),
    renew("realloc_aligned", Realloc, SECOND),
    renew("realloc_aligned_at", Realloc, SECOND),
    renew("rezalloc_aligned", Realloc, SECOND),
    renew("rezalloc_aligned_at", Realloc, SECOND),
    renew("recalloc_aligned", Reallocarray, NEXT_TWO),
    renew("recalloc_aligned_at", Reallocarray, NEXT_TWO),
    new("strdup", Malloc, Size::Text),
    new("strndup", Malloc, Size::Text),
    is("realpath", Malloc, Operation::AllocatePath),
];

/// Functions of mimalloc that exist only without a heap as first argument.
const MIMALLOC_ONLY: &[Function] = &[
    free("free_size", FreeSized),
    free("free_size_aligned", FreeAlignedSized),
    free("free_aligned", Free),
    new("new", OperatorNew, FIRST),
    new("new_nothrow", OperatorNew, FIRST),
    aligned("new_aligned", OperatorNew, FIRST, 1),
    aligned("new_aligned_nothrow", OperatorNew, FIRST, 1),
    new("new_n", OperatorNew, FIRST_TWO),
    renew("new_realloc", Realloc, SECOND),
    renew("new_reallocn", Reallocarray, NEXT_TWO),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_their_prefix() {
        for (name, entry, skipped) in [
            ("malloc", Malloc, 0),
            ("_rjem_sdallocx", Sdallocx, 0),
            ("je_rallocx", Rallocx, 0),
            ("mi_heap_zalloc_aligned", Calloc, 1),
            ("mi_zalloc_aligned", Calloc, 0),
            ("mi_free", Free, 0),
            ("tc_deletearray_sized", OperatorDeleteArray, 0),
            ("_ZdlPvmSt11align_val_t", OperatorDelete, 0),
        ] {
            let known = by_name(name.as_bytes()).expect(name);
            assert_eq!((known.function.entry, known.skipped), (entry, skipped));
            assert_eq!(format!("{}{}", known.prefix, known.function.name), name);
        }
        for name in [
            "",
            "mi_",
            "mi_heap_free",
            "_rjem_",
            "main",
            "_ZN3foo6mallocEv",
        ] {
            assert!(by_name(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn every_name_is_found() {
        for family in &FAMILIES {
            for function in family.tables.iter().flat_map(|table| table.iter()) {
                let name = format!("{}{}", family.prefix, function.name);
                assert!(by_name(name.as_bytes()).is_some(), "{name}");
                assert!(may_be_known(name.as_bytes()), "{name}");
            }
        }
        for name in [
            "",
            "m",
            "_",
            "_ZN3foo6mallocEv",
            "_RNvC3foo3bar",
            "base_GHC",
        ] {
            assert!(!may_be_known(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn standard_names_are_those_that_every_allocator_has() {
        for (name, is_standard) in [
            ("malloc", true),
            ("pvalloc", true),
            ("_ZdlPvm", true),
            ("xallocx", false),
            ("mi_malloc", false),
        ] {
            let known = by_name(name.as_bytes()).expect(name);
            assert_eq!(known.is_standard(), is_standard, "{name}");
        }
    }

    #[test]
    fn the_standard_name_of_a_function_ranks_first() {
        let rank = |name: &[u8]| by_name(name).expect("known").rank;
        assert!(rank(b"free") < rank(b"_ZdlPv"));
        assert!(rank(b"_ZdlPv") < rank(b"tc_delete"));
        assert!(rank(b"malloc") < rank(b"mi_malloc"));
        assert!(rank(b"mi_malloc") < rank(b"mi_heap_malloc"));
    }
}
