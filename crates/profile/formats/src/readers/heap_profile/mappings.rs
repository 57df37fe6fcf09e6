//! The address space of the program, in the form of `/proc/PID/maps` (proc(5)), by which
//! addresses become `module+0x…`.

use std::collections::HashMap;

use allotrope_profile::StackFrame;
use rustc_hash::FxHashMap;

use crate::budget::Budget;
use crate::error::Problem;
use crate::function_names::file_name;

/// Approximate bytes of a map entry.
const ENTRY: usize = 32;

/// The mapped files.
#[derive(Default)]
pub(super) struct Mappings {
    /// Sorted by start once all lines have been read.
    mappings: Vec<Mapping>,
    /// The paths of files, and their indexes.
    files: Vec<Box<str>>,
    indexes: HashMap<Box<str>, u32>,
}

#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    end: u64,
    /// The address at which the file's first byte is, or would be.
    base: u64,
    file: u32,
}

impl Mappings {
    /// Adds a line such as `55ef80f59000-55ef80f5a000 r-xp 00001000 00:00 1002 /srv/app`;
    /// ignores other lines and mappings without a file.
    pub fn line(&mut self, line: &str, budget: &Budget) -> Result<(), Problem> {
        let Some((start, end, offset, path)) = parse(line) else {
            return Ok(());
        };
        let file = match self.indexes.get(path) {
            Some(file) => *file,
            None => {
                budget.take(2 * path.len() + 2 * ENTRY)?;
                let file = u32::try_from(self.files.len()).map_err(|_| Problem::TooMuch {
                    what: "mapped files",
                    limit: u64::from(u32::MAX),
                })?;
                self.files.push(path.into());
                self.indexes.insert(path.into(), file);
                file
            }
        };
        budget.take(size_of::<Mapping>())?;
        self.mappings.push(Mapping {
            start,
            end,
            base: start.wrapping_sub(offset),
            file,
        });
        Ok(())
    }

    /// Must be called after the last line. The segments of a file may be further apart in
    /// memory than in the file: all count from the file's first mapping, as symbol tables
    /// do.
    pub fn sort(&mut self) {
        self.mappings.sort_by_key(|mapping| mapping.start);
        let mut bases: FxHashMap<u32, u64> = FxHashMap::default();
        for mapping in &mut self.mappings {
            if mapping.base == mapping.start {
                bases.insert(mapping.file, mapping.start);
            } else if let Some(base) = bases.get(&mapping.file) {
                mapping.base = *base;
            }
        }
    }

    /// The frame of an address.
    pub fn frame(&self, address: u64) -> StackFrame {
        let after = self
            .mappings
            .partition_point(|mapping| mapping.start <= address);
        let mapping = after.checked_sub(1).map(|at| self.mappings[at]);
        match mapping.filter(|mapping| address < mapping.end) {
            Some(mapping) => {
                let module = file_name(&self.files[mapping.file as usize]);
                let offset = address.wrapping_sub(mapping.base);
                StackFrame {
                    function: format!("{module}+{offset:#x}").into(),
                    module: module.into(),
                    ..StackFrame::default()
                }
            }
            None => StackFrame {
                function: format!("{address:#x}").into(),
                ..StackFrame::default()
            },
        }
    }
}

/// Start, end, offset in the file, path.
fn parse(line: &str) -> Option<(u64, u64, u64, &str)> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut rest = line;
    let mut word = || {
        let trimmed = rest.trim_start();
        let (word, after) = trimmed.split_once([' ', '\t'])?;
        rest = after;
        Some(word)
    };
    let (start, end) = word()?.split_once('-')?;
    let _permissions = word()?;
    let offset = word()?;
    let (_device, _inode) = (word()?, word()?);
    let path = rest.trim();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    (!path.is_empty()).then_some((hex(start)?, hex(end)?, hex(offset)?, path))
}
