//! The code addresses that were executed: their instructions, and the modules that contain
//! them. Names are `names`'.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;

use crate::paths::instruction::{Instruction, MAX_LENGTH};

/// A mapping of a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) path: Vec<u8>,
}

/// The distinct addresses of a stepped process, numbered in the order of their first step.
#[derive(Debug)]
pub(crate) struct Code {
    process: u32,
    memory: File,
    numbers: FxHashMap<u64, u32>,
    pub(crate) addresses: Vec<u64>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) mappings: Vec<Mapping>,
    /// Address at which each file's address 0 is, by path.
    pub(crate) biases: FxHashMap<Vec<u8>, u64>,
}

impl Code {
    /// Returns the code of a process that this one traces.
    pub(crate) fn new(process: u32) -> std::io::Result<Self> {
        let mut code = Self {
            process,
            memory: File::open(format!("/proc/{process}/mem"))?,
            numbers: FxHashMap::default(),
            addresses: Vec::new(),
            instructions: Vec::new(),
            mappings: Vec::new(),
            biases: FxHashMap::default(),
        };
        code.read_mappings();
        Ok(code)
    }

    /// The number of an address.
    pub(crate) fn number(&mut self, address: u64) -> u32 {
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        let mut bytes = [0; MAX_LENGTH];
        // Less than the longest may be readable.
        let read = self.memory.read_at(&mut bytes, address).unwrap_or(0);
        let number = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        self.numbers.insert(address, number);
        self.addresses.push(address);
        self.instructions.push(Instruction::read(&bytes[..read]));
        if self.mapping(address).is_none() {
            // A library may have been loaded since.
            self.read_mappings();
        }
        number
    }

    pub(crate) fn instruction(&self, number: u32) -> Instruction {
        let found = self.instructions.get(number as usize);
        found.copied().unwrap_or_default()
    }

    pub(crate) fn mapping(&self, address: u64) -> Option<&Mapping> {
        let mappings = self.mappings.iter();
        mappings
            .clone()
            .find(|it| (it.start..it.end).contains(&address))
    }

    /// Reads which files are mapped where.
    fn read_mappings(&mut self) {
        let text = std::fs::read(format!("/proc/{}/maps", self.process)).unwrap_or_default();
        self.mappings.clear();
        self.biases.clear();
        for (mapping, is_code, offset) in text.split(|byte| *byte == b'\n').filter_map(parse) {
            // Linkers let the first segment of a library begin at address 0 and offset 0.
            if offset == 0 {
                let path = mapping.path.clone();
                self.biases.entry(path).or_insert(mapping.start);
            }
            if is_code {
                self.mappings.push(mapping);
            }
        }
    }

    /// A word of the process's memory.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

fn parse(line: &[u8]) -> Option<(Mapping, bool, u64)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let is_code = field()?.contains('x');
    let offset = hexadecimal(field()?)?;
    let path = fields.nth(2)?.trim_ascii_start();
    let mapping = Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        path: path.to_vec(),
    };
    path.starts_with(b"/").then_some((mapping, is_code, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = b"1000-3000 r-xp 00001000 fd:01 9     /usr/lib/a b.so";
        let mapping = Mapping {
            start: 0x1000,
            end: 0x3000,
            path: b"/usr/lib/a b.so".to_vec(),
        };
        assert_eq!(parse(line), Some((mapping, true, 0x1000)));
        let data = parse(b"1000-3000 rw-p 00001000 fd:01 9 /usr/lib/a");
        assert!(!data.unwrap().1);
        assert_eq!(parse(b"7000-8000 r-xp 00000000 00:00 0 [vdso]"), None);
        assert_eq!(parse(b""), None);
    }
}
