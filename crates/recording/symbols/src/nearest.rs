//! What is known of code without a name, as in a stripped library: the function that contains
//! it starts so many bytes after an exported one, or it lies in a section of stubs.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use allotrope_demangle::demangle;
use allotrope_files::open_regular;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::locator::Locator;

/// Largest file that is read.
const MAX: u64 = 1 << 30;
/// Largest number of functions of unwind information that are kept, 16 bytes each.
const MAX_FUNCTIONS: usize = 1 << 22;

/// Where code without a name is, in one file.
#[derive(Debug, Default)]
pub struct Nearest {
    /// Exported functions by address, each once.
    exports: Vec<(u64, String)>,
    /// The extents of all functions, as the unwind information (`.eh_frame`) has them. It
    /// survives `strip`.
    functions: Vec<Range<u64>>,
    /// Sections of code.
    sections: Vec<(Range<u64>, String)>,
}

/// What is known of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearby {
    /// `malloc+0x340 (no symbol)`: the start of the function, as far as known, from the nearest
    /// exported function before it. `.text+0x40 (no symbol)` without one; `[.plt]` for stubs.
    pub name: String,
    /// It is in a section of stubs, by which a module calls functions of others.
    pub is_stub: bool,
}

impl Nearest {
    /// Reads the file of a module, whose path is the loader's; of one that cannot be read,
    /// nothing is known.
    pub fn read(locator: &Locator, path: &Path) -> Self {
        Self::of_file(&locator.module_path(path)).unwrap_or_default()
    }

    fn of_file(path: &Path) -> Option<Self> {
        let file = open_regular(path).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX).read_to_end(&mut bytes).ok()?;
        Self::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let symbols = file.dynamic_symbols();
        let exported = symbols.filter(|it| it.is_definition() && it.kind() == SymbolKind::Text);
        let mut exports: Vec<(u64, &str)> = exported
            .filter_map(|it| Some((it.address(), it.name().ok()?)))
            .filter(|(_, name)| !name.is_empty())
            .collect();
        // Of several names, people know the one without underscores.
        exports.sort_unstable_by_key(|(address, name)| (*address, name.starts_with('_'), *name));
        exports.dedup_by_key(|(address, _)| *address);
        let exports = exports.into_iter().map(|(address, name)| {
            let name = demangle(name).function;
            (address, name)
        });
        let sections = file.sections().filter(|it| it.kind() == SectionKind::Text);
        let sections = sections.filter_map(|it| {
            let end = it.address().checked_add(it.size())?;
            Some((it.address()..end, it.name().ok()?.to_owned()))
        });
        Some(Self {
            exports: exports.collect(),
            functions: functions(&file),
            sections: sections.collect(),
        })
    }

    /// What is known of an address of the file; `None`: nothing.
    pub fn describe(&self, address: u64) -> Option<Nearby> {
        let mut sections = self.sections.iter();
        let section = sections.find(|(range, _)| range.contains(&address));
        if let Some((_, name)) = section.filter(|(_, name)| name.starts_with(".plt")) {
            return Some(Nearby {
                name: format!("[{name}]"),
                is_stub: true,
            });
        }
        let start = self.start(address);
        let after = self.exports.partition_point(|(export, _)| *export <= start);
        // An export of another section is not near.
        let from = section.map_or(0, |(range, _)| range.start);
        let export = after.checked_sub(1).map(|at| &self.exports[at]);
        let (base, name) = match export.filter(|(export, _)| *export >= from) {
            Some((base, name)) => (*base, name),
            None => {
                let (range, name) = section?;
                (range.start, name)
            }
        };
        Some(Nearby {
            name: format!("{name}+{:#x} (no symbol)", start - base),
            is_stub: false,
        })
    }

    /// Where the function that contains an address starts; the address itself if that is not
    /// known.
    fn start(&self, address: u64) -> u64 {
        self.function(address).map_or(address, |it| it.start)
    }

    /// The extent of the function that contains an address, as the unwind information has it.
    pub fn function(&self, address: u64) -> Option<Range<u64>> {
        let after = self.functions.partition_point(|it| it.start <= address);
        let function = after.checked_sub(1).map(|at| &self.functions[at]);
        function.filter(|it| it.contains(&address)).cloned()
    }
}

/// The extents of all functions, by address.
fn functions(file: &object::File<'_>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Some(section) = file.section_by_name(".eh_frame") else {
        return found;
    };
    let Ok(data) = section.uncompressed_data() else {
        return found;
    };
    let eh_frame = EhFrame::new(&data, LittleEndian);
    let address = |name| file.section_by_name(name).map_or(0, |it| it.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address(".text"))
        .set_got(address(".got"));
    let mut entries = eh_frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if found.len() >= MAX_FUNCTIONS {
            break;
        }
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let start = fde.initial_address();
        if let Some(end) = start.checked_add(fde.len()) {
            found.push(start..end);
        }
    }
    found.sort_unstable_by_key(|it| (it.start, it.end));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest() -> Nearest {
        Nearest {
            exports: vec![(0x1000, "free".to_owned()), (0x1100, "malloc".to_owned())],
            functions: vec![0x1000..0x1040, 0x1040..0x1080, 0x1100..0x1180],
            sections: vec![
                (0x800..0x900, ".plt.got".to_owned()),
                (0xf00..0x2000, ".text".to_owned()),
                (0x2000..0x2010, ".fini".to_owned()),
            ],
        }
    }

    #[test]
    fn the_start_of_the_function_counts_from_the_export_before_it() {
        let name = |address| nearest().describe(address).unwrap().name;
        assert_eq!(name(0x1044), "free+0x40 (no symbol)");
        assert_eq!(name(0x107f), "free+0x40 (no symbol)");
        // Without unwind information, each address is by itself.
        assert_eq!(name(0x1090), "free+0x90 (no symbol)");
        assert_eq!(name(0xf20), ".text+0x20 (no symbol)");
        assert_eq!(name(0x2008), ".fini+0x8 (no symbol)");
        assert_eq!(
            nearest().describe(0x9000).unwrap().name,
            "malloc+0x7f00 (no symbol)"
        );
        assert_eq!(Nearest::default().describe(1), None);
    }

    #[test]
    fn stubs_are_said_to_be_such() {
        let stub = nearest().describe(0x850).unwrap();
        assert_eq!((&*stub.name, stub.is_stub), ("[.plt.got]", true));
        assert!(!nearest().describe(0x1044).unwrap().is_stub);
    }

    #[test]
    fn damaged_files_are_read_without_a_panic() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let whole = Nearest::from_bytes(&bytes).unwrap();
        assert!(!whole.functions.is_empty() && !whole.sections.is_empty());
        for length in (0..4096).step_by(97).chain([bytes.len() / 2]) {
            let _ = Nearest::from_bytes(&bytes[..length]);
        }
        for at in (0..1024).step_by(31) {
            let mut broken = bytes[..65536.min(bytes.len())].to_vec();
            broken[at] ^= 0xff;
            if let Some(nearest) = Nearest::from_bytes(&broken) {
                let _ = nearest.describe(at as u64);
            }
        }
    }
}
