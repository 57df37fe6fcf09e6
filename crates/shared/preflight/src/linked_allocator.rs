//! An allocator that is linked into a program: whether the recorder will detour its entry
//! points, judged as the recorder does (`allotrope-detour`); and whether there is one in a
//! program without symbols.

use std::fs::File;
use std::io;
use std::path::Path;

use allotrope_detour::elf::{Bytes, Elf, Table};
use allotrope_detour::plan::Plan;
use allotrope_detour::survey::Survey;
use memchr::memmem;
use object::{ReadCache, ReadRef};

use crate::executable::{Executable, Kind};
use crate::symbol_facts::{MAX_READ, SymbolFacts};

/// Texts in the allocators' code, of messages and settings.
const TEXTS: [(&[u8], &str); 3] = [
    (b"<jemalloc>: ", "jemalloc"),
    (b"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "tcmalloc"),
    (b"mimalloc: error: ", "mimalloc"),
];

/// Bytes that are searched for [`TEXTS`] at once, and the largest file that is searched.
const SEARCHED: u64 = 1 << 20;
const MAX_SEARCHED: u64 = 64 << 20;

/// The allocators that are linked into a program, whose entry points its symbols show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkedAllocator {
    /// Names of the allocators, as in a sentence.
    pub name: String,
    /// Functions that the recorder will detour.
    pub detoured: usize,
    /// Names of the functions that cannot be detoured.
    pub refused: Vec<String>,
    /// Only the names that every allocator has are known of it, not those of its own.
    pub only_standard: bool,
}

/// Name of an allocator of which nothing else is known.
const OF_ITS_OWN: &str = "an allocator of its own";

impl LinkedAllocator {
    /// Returns the allocators of the program at `path`; `None` if no symbol shows one.
    ///
    /// # Errors
    /// If there is no regular file at `path` that can be opened.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let file = allotrope_files::open_regular(path)?;
        Ok(Self::in_cache(&ReadCache::new(&file)))
    }

    /// These, and what all symbols of a program show. The symbol tables are read once, and
    /// not at all if the inspection of the program has found all that they show.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn with_facts(executable: &Executable) -> io::Result<(SymbolFacts, Option<Self>)> {
        if let Kind::Program(program) = &executable.kind
            && let Some(exported) = &program.exported
            && !program.symbol_table
            && !exported.names_entry_point
        {
            return Ok((exported.clone(), None));
        }
        let file = allotrope_files::open_regular(&executable.path)?;
        let cache = ReadCache::new(&file);
        Ok((SymbolFacts::in_cache(&cache), Self::in_cache(&cache)))
    }

    fn in_cache<'a>(cache: &'a ReadCache<&'a File>) -> Option<Self> {
        Elf::open(&Cached(cache)).and_then(|elf| Self::among(&elf))
    }

    fn among<B: Bytes>(elf: &Elf<'_, B>) -> Option<Self> {
        let survey = Survey::of(elf);
        let known = survey.allocators().map(|it| it.name());
        let own = survey.is_of_its_own().then_some(OF_ITS_OWN);
        let names: Vec<_> = known.chain(own).collect();
        let mut linked = Self {
            name: names.join(" and "),
            only_standard: survey.is_of_its_own(),
            ..Self::default()
        };
        for found in survey.found() {
            match Plan::new(elf, found) {
                Ok(_) => linked.detoured += 1,
                Err(_) => linked.refused.push(found.known.shown().concat()),
            }
        }
        // The forms of an operator have one name.
        linked.refused.sort();
        linked.refused.dedup();
        survey.found().next().map(|_| linked)
    }
}

/// The allocator whose texts are in a program without a symbol table; `None` if there is
/// none, or the program has symbols.
///
/// # Errors
/// As [`LinkedAllocator::of`].
pub fn without_symbols(path: &Path) -> io::Result<Option<&'static str>> {
    let file = allotrope_files::open_regular(path)?;
    let cache = ReadCache::new(&file);
    let bytes = Cached(&cache);
    let Some(elf) = Elf::open(&bytes) else {
        return Ok(None);
    };
    if elf.has(Table::All) {
        return Ok(None);
    }
    Ok(search(&file))
}

fn search(file: &File) -> Option<&'static str> {
    use std::os::unix::fs::FileExt;
    let longest = TEXTS.iter().map(|(text, _)| text.len()).max()?;
    let length = file.metadata().ok()?.len().min(MAX_SEARCHED);
    let mut bytes = vec![0; SEARCHED as usize + longest];
    let mut starts = (0..length).step_by(SEARCHED as usize);
    starts.find_map(|start| {
        let read = file.read_at(&mut bytes, start).ok()?;
        let found = |text: &[u8]| memmem::find(&bytes[..read], text).is_some();
        let (_, name) = TEXTS.iter().find(|(text, _)| found(text))?;
        Some(*name)
    })
}

/// A file of which only the parts that are needed are read.
pub(crate) struct Cached<'a>(pub(crate) &'a ReadCache<&'a File>);

impl Bytes for Cached<'_> {
    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let is_small = length <= MAX_READ;
        is_small.then(|| self.0.read_bytes_at(offset, length).ok())?
    }
}
