//! The address spaces of the sampled processes: which module is mapped where, and the
//! frames of a sample.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::Unwinder;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use rustc_hash::FxHashMap;

use crate::cpu::module::{Bytes, Module};

/// Largest number of frames of a stack that are kept, the innermost ones: enough for an allocator's
/// and its caller's.
pub(crate) const FRAMES: usize = 48;
/// Largest number of mappings of code that are known of one process.
const MAPPINGS: usize = 1 << 14;

/// A code address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// The module's number; [`NO_MODULE`] if it is in none.
    pub(crate) module: u32,
    /// The address in the module's file, or in the process.
    pub(crate) address: u64,
    /// It is no return address.
    pub(crate) exact: bool,
}

/// No module's number.
pub(crate) const NO_MODULE: u32 = u32::MAX;

/// The modules of all processes.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Numbers of the modules, by path and inode.
    numbers: FxHashMap<(Vec<u8>, u64), u32>,
    pub(crate) all: Vec<Arc<Module>>,
}

impl Modules {
    fn number(&mut self, process: u32, path: &[u8], inode: u64) -> u32 {
        if let Some(number) = self.numbers.get(&(path.to_vec(), inode)) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(NO_MODULE);
        let file = file_of(process, path, inode).unwrap_or_default();
        self.all.push(Arc::new(Module::read(path, &file)));
        self.numbers.insert((path.to_vec(), inode), number);
        number
    }
}

/// The file that a process has mapped: below its own root folder, if that is another one.
fn file_of(process: u32, path: &[u8], inode: u64) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let relative = path.strip_prefix("/").ok()?;
    let root = Path::new("/proc").join(process.to_string()).join("root");
    let candidates = [path.to_owned(), root.join(relative)];
    let is_it = |it: &PathBuf| {
        it.metadata()
            .is_ok_and(|it| inode == 0 || it.ino() == inode)
    };
    candidates.into_iter().find(is_it)
}

struct Mapping {
    end: u64,
    bias: u64,
    module: u32,
}

/// The address space of a process.
#[derive(Default)]
pub(crate) struct Space {
    mappings: BTreeMap<u64, Mapping>,
    unwinder: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
}

/// How often the mappings are looked for at threads that may end meanwhile.
const MAPS_ATTEMPTS: usize = 100;

/// The mappings of a process, as `/proc` lists them. A main thread that has ended has none;
/// the other threads do, until they end.
fn maps(process: u32) -> Vec<u8> {
    let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    if !maps.is_empty() {
        return maps;
    }
    for _ in 0..MAPS_ATTEMPTS {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else {
            break;
        };
        let maps = tasks.flatten();
        let mut maps = maps.filter_map(|it| std::fs::read(it.path().join("maps")).ok());
        if let Some(maps) = maps.find(|it| !it.is_empty()) {
            return maps;
        }
    }
    Vec::new()
}

impl Space {
    /// The address space of a running process.
    pub(crate) fn of_process(process: u32, modules: &mut Modules) -> Self {
        let mut space = Self::default();
        let maps = maps(process);
        for line in maps.split(|byte| *byte == b'\n') {
            if let Some((start, end, offset, inode, path)) = parse_line(line) {
                space.map(process, start, end - start, offset, path, inode, modules);
            }
        }
        space
    }

    /// A copy: that of a forked child.
    pub(crate) fn copy(&self, modules: &Modules) -> Self {
        let mut space = Self::default();
        for (start, mapping) in &self.mappings {
            space.add(*start, mapping.end, mapping.bias, mapping.module, modules);
        }
        space
    }

    /// The process has mapped code.
    #[expect(clippy::too_many_arguments)] // the fields of a mapping
    pub(crate) fn map(
        &mut self,
        process: u32,
        start: u64,
        length: u64,
        offset: u64,
        path: &[u8],
        inode: u64,
        modules: &mut Modules,
    ) {
        let Some(end) = start.checked_add(length) else {
            return;
        };
        self.unmap(start, end);
        if !path.starts_with(b"/") || self.mappings.len() >= MAPPINGS {
            return;
        }
        let module = modules.number(process, path, inode);
        let Some(file) = modules.all.get(module as usize) else {
            return;
        };
        let bias = file.bias(start, offset);
        self.add(start, end, bias, module, modules);
    }

    fn add(&mut self, start: u64, end: u64, bias: u64, module: u32, modules: &Modules) {
        let file = &modules.all[module as usize];
        let name = format!("{module}");
        let sections = file.sections();
        self.unwinder
            .add_module(framehop::Module::new(name, start..end, bias, sections));
        let mapping = Mapping { end, bias, module };
        self.mappings.insert(start, mapping);
    }

    fn unmap(&mut self, start: u64, end: u64) {
        let before = self.mappings.range(..end);
        let covered = before.filter(|(_, mapping)| mapping.end > start);
        let covered: Vec<u64> = covered.map(|(start, _)| *start).collect();
        for start in covered {
            self.mappings.remove(&start);
            self.unwinder.remove_module(start);
        }
    }

    fn frame(&self, address: u64, exact: bool) -> Frame {
        let below = self.mappings.range(..=address).next_back();
        match below.filter(|(_, mapping)| address < mapping.end) {
            Some((_, mapping)) => Frame {
                module: mapping.module,
                address: address.wrapping_sub(mapping.bias),
                exact,
            },
            None => Frame {
                module: NO_MODULE,
                address,
                exact,
            },
        }
    }

    /// The frames of a sample, innermost first.
    pub(crate) fn frames(&mut self, [bp, sp, ip]: [u64; 3], stack: &[u8]) -> Vec<Frame> {
        let mut word = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(drop)?;
            let bytes = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(drop)?))
        };
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut addresses = Vec::new();
        let mut walk = self
            .unwinder
            .iter_frames(ip, registers, &mut self.cache, &mut word);
        while addresses.len() < FRAMES
            && let Ok(Some(frame)) = walk.next()
        {
            addresses.push((frame.address(), !frame.is_return_address()));
        }
        let addresses = addresses.into_iter();
        addresses.map(|(at, exact)| self.frame(at, exact)).collect()
    }
}

/// A line of `/proc/PID/maps` that maps code of a file: start, end, offset, inode, path.
fn parse_line(line: &[u8]) -> Option<(u64, u64, u64, u64, &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let is_code = field()?.contains('x');
    let offset = hexadecimal(field()?)?;
    let _device = field()?;
    let inode = field()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    (is_code && start < end && path.starts_with(b"/")).then_some((start, end, offset, inode, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"55d0a000-55d0b000 r-xp 00002000 fd:01 77                         /usr/bin/a b";
        let expected = (0x55d0a000, 0x55d0b000, 0x2000, 77, &b"/usr/bin/a b"[..]);
        assert_eq!(parse_line(line), Some(expected));
        for other in [
            &b"55d0a000-55d0b000 r--p 00002000 fd:01 77   /usr/bin/a"[..],
            b"7ffc-7ffd r-xp 00000000 00:00 0     [vdso]",
            b"9-8 r-xp 0 0 1 /x",
            b"-",
            b"",
        ] {
            assert_eq!(parse_line(other), None);
        }
    }

    #[test]
    fn a_mapping_replaces_what_it_covers() {
        let mut modules = Modules::default();
        let mut space = Space::default();
        space.map(1, 0x1000, 0x3000, 0, b"/nowhere/a", 0, &mut modules);
        space.map(1, 0x2000, 0x1000, 0, b"/nowhere/b", 0, &mut modules);
        assert_eq!(space.frame(0x1800, true).module, NO_MODULE);
        let frame = space.frame(0x2800, true);
        assert_eq!((frame.module, frame.address), (1, 0x800));
        let copy = space.copy(&modules);
        assert_eq!(copy.frame(0x2800, true), frame);
    }

    #[test]
    fn a_stack_of_random_words_ends() {
        let mut modules = Modules::default();
        let mut space = Space::of_process(std::process::id(), &mut modules);
        assert!(!modules.all.is_empty());
        let ip = *space.mappings.first_key_value().unwrap().0 + 100;
        let mut state = 7_u64;
        for _ in 0..200 {
            let mut stack = Vec::new();
            for _ in 0..64 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                stack.extend((ip + state % 100_000).to_le_bytes());
            }
            let frames = space.frames([state, 0x7000, ip], &stack);
            assert!((1..=FRAMES).contains(&frames.len()));
        }
    }
}
