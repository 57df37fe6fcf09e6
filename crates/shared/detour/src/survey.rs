//! The entry points of the allocators that are linked into one program, and the functions of a file that
//! the user named.

use crate::allocators::{Allocator, may_be_sanitizers, sanitizer_of_function};
use crate::elf::{Bytes, Elf, Symbol, Table};
use crate::functions::{self, Known};
use crate::named::{self, MAX_FUNCTIONS};

/// Largest number of entry points of a program: more than there are names.
pub const MAX: usize = 256;

/// A function to detour.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Name and meaning of the function.
    pub known: Known,
    /// Address of the function in the file.
    pub address: u64,
    /// Bytes of its code; 0 if the file does not say so.
    pub size: u64,
    /// The address is that of a function that chooses the real one.
    pub is_resolver: bool,
}

/// All of them, each address once.
#[derive(Debug)]
pub struct Survey {
    found: [Option<Found>; MAX],
    count: usize,
    /// Whether each of [`Allocator::ALL`] is there.
    allocators: [bool; 3],
    /// See [`Survey::is_of_its_own`].
    is_of_its_own: bool,
}

/// Whether a sanitizer's run-time library is linked into a program.
fn has_sanitizer<B: Bytes + ?Sized>(elf: &Elf<'_, B>) -> bool {
    [Table::Exported, Table::All].into_iter().any(|table| {
        let mut symbols = elf.functions_that(table, may_be_sanitizers);
        symbols.any(|symbol| sanitizer_of_function(symbol.name).is_some())
    })
}

/// Whether a program has a function with one of the names. Most have none; this needs
/// less memory than a [`Survey`].
pub fn has_candidates<B: Bytes + ?Sized>(elf: &Elf<'_, B>) -> bool {
    let tables = [Table::Exported, Table::All].into_iter();
    let mut symbols = tables.flat_map(|table| elf.functions(table));
    symbols.any(|symbol| functions::by_name(symbol.name).is_some())
}

impl Survey {
    /// Looks for them in the symbol tables of a program's file.
    pub fn of<B: Bytes + ?Sized>(elf: &Elf<'_, B>) -> Self {
        let mut survey = Self {
            found: [None; MAX],
            count: 0,
            allocators: [false; 3],
            is_of_its_own: false,
        };
        // Whether the names without a prefix are those of an allocator that is known.
        let mut is_malloc_known = false;
        // Whether the file exports `malloc` and `free`.
        let mut exports = [false; 2];
        for table in [Table::Exported, Table::All] {
            for symbol in elf.functions(table) {
                is_malloc_known |= Allocator::of_function(symbol.name).is_some();
                let Some(known) = functions::by_name(symbol.name) else {
                    continue;
                };
                // A function that is called `malloc` and is no other file's is perhaps
                // something else.
                if known.prefix.is_empty() && symbol.is_local {
                    continue;
                }
                if table == Table::Exported {
                    exports[0] |= symbol.name == b"malloc";
                    exports[1] |= symbol.name == b"free";
                }
                survey.add(Found {
                    known,
                    address: symbol.address,
                    size: symbol.size,
                    is_resolver: symbol.is_resolver,
                });
            }
        }
        survey.is_of_its_own = !is_malloc_known && exports == [true; 2] && !has_sanitizer(elf);
        if survey.is_of_its_own {
            survey.retain(|found| !found.known.prefix.is_empty() || found.known.is_standard());
        } else if !is_malloc_known {
            survey.retain(|found| !found.known.prefix.is_empty());
        }
        survey.name_allocators(elf);
        survey
    }

    /// The entry points.
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        self.found[..self.count].iter().flatten()
    }

    /// The allocators.
    pub fn allocators(&self) -> impl Iterator<Item = Allocator> {
        let all = Allocator::ALL.into_iter().zip(self.allocators);
        all.filter_map(|(allocator, is_there)| is_there.then_some(allocator))
    }

    /// Whether the program's `malloc` is that of another allocator than [`allocators`](Self::allocators)
    /// has. The program exports it, with `free`: so by the rules of the loader it is the allocator of the
    /// whole process, and its entry points are those of the C library's.
    pub fn is_of_its_own(&self) -> bool {
        self.is_of_its_own
    }

    fn add(&mut self, new: Found) {
        let known = self.found[..self.count].iter_mut().flatten();
        let mut aliases = known.filter(|found| found.address == new.address);
        if let Some(alias) = aliases.next() {
            if new.known.rank < alias.known.rank {
                *alias = new;
            }
        } else if let Some(place) = self.found.get_mut(self.count) {
            *place = Some(new);
            self.count += 1;
        }
    }

    fn retain(&mut self, keep: impl Fn(&Found) -> bool) {
        for place in &mut self.found[..self.count] {
            *place = place.filter(&keep);
        }
    }

    fn name_allocators<B: Bytes + ?Sized>(&mut self, elf: &Elf<'_, B>) {
        if self.found().next().is_none() {
            return;
        }
        for symbol in elf
            .functions(Table::All)
            .chain(elf.functions(Table::Exported))
        {
            let by_prefix = || functions::by_name(symbol.name)?.allocator;
            let allocator = Allocator::of_function(symbol.name).or_else(by_prefix);
            if let Some(allocator) = allocator {
                self.allocators[allocator as usize] = true;
            }
        }
    }
}

/// Passes the functions of a file that have the name of an item, with the number of the item; perhaps
/// several, for a `static` function may be in each of a program's parts, and perhaps one twice, under both
/// symbol tables.
pub fn find_named<'a, B: Bytes + ?Sized>(
    elf: &Elf<'a, B>,
    value: &[u8],
    mut visit: impl FnMut(usize, Symbol<'a>),
) {
    // The text is parsed once, not for each of a program's symbols.
    let mut names: [&[u8]; MAX_FUNCTIONS] = [&[]; MAX_FUNCTIONS];
    let mut count = 0;
    for (name, item) in names.iter_mut().zip(named::all(value)) {
        *name = item.name;
        count += 1;
    }
    let names = &names[..count];
    let may_be = |symbol: &[u8]| {
        let is_it = |name: &&[u8]| {
            let rest = symbol.strip_prefix(*name);
            rest.is_some_and(|rest| rest.first() == Some(&0))
        };
        names.iter().any(is_it)
    };
    for table in [Table::Exported, Table::All] {
        for symbol in elf.functions_that(table, may_be) {
            if let Some(number) = names.iter().position(|name| *name == symbol.name) {
                visit(number, symbol);
            }
        }
    }
}
