//! What the samples of a process lack because of its allocators.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use allotrope_allocators::replay::allocators::known_name;
use allotrope_preflight::NotRecordable;
use allotrope_shm::samples::reader;
use allotrope_text::{Shown, shown};

/// Sentences about allocators of a process whose blocks are not sampled.
pub fn unsampled(process: u32, of: &reader::Process) -> Vec<String> {
    let path = format!("/proc/{process}/maps");
    match fs::read(path) {
        Ok(maps) => sentences(process, of, &Mappings::of(&String::from_utf8_lossy(&maps))),
        // Another user's, or it has ended.
        Err(_) => Vec::new(),
    }
}

fn sentences(process: u32, of: &reader::Process, mappings: &Mappings) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(file) = mappings.at(of.other_malloc) {
        let reason = NotRecordable::OwnMalloc.sentence(&file.shown());
        sentences.push(format!("process {process}: {reason}"));
    }
    let Some(next) = mappings.at(of.next_malloc) else {
        return sentences;
    };
    let others = mappings.files();
    for other in others.filter(|it| known_name(it).is_some() && *it != next) {
        sentences.push(format!(
            "process {process} has loaded {} besides {}, from which its malloc takes blocks: what it takes from {} by other ways is not sampled",
            shown(&name(other)),
            shown(&name(next)),
            shown(&name(other)),
        ));
    }
    sentences
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The files that a process has mapped (`proc_pid_maps(5)`), by the end of the mapping.
struct Mappings(BTreeMap<u64, (u64, PathBuf)>);

impl Mappings {
    fn of(maps: &str) -> Self {
        let mapping = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            let path = &rest[rest.find('/')?..];
            Some((number(end)?, (number(start)?, PathBuf::from(path))))
        };
        Self(maps.lines().filter_map(mapping).collect())
    }

    /// The file whose mapping has this address.
    fn at(&self, address: u64) -> Option<&Path> {
        let (_, (start, path)) = self.0.range(address.checked_add(1)?..).next()?;
        (*start <= address).then_some(path)
    }

    /// Each file once.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let files: std::collections::BTreeSet<&Path> =
            self.0.values().map(|(_, path)| &**path).collect();
        files.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-2000 r-xp 00000000 00:1a 11 /usr/bin/server
2000-3000 rw-p 00000000 00:00 0 [heap]
5000-6000 r--p 00000000 00:1a 12 /lib/libc.so.6
6000-7000 r-xp 00001000 00:1a 12 /lib/libc.so.6
a000-b000 r-xp 00000000 00:1a 14 /lib/libmimalloc.so.2
nonsense
";

    fn of(other_malloc: u64, next_malloc: u64) -> Vec<String> {
        let process = reader::Process {
            id: 7,
            began: 0,
            began_real: 0,
            exit_status: None,
            executable: Vec::new(),
            command: Vec::new(),
            other_malloc,
            next_malloc,
            recorder: reader::RecorderMemory::default(),
        };
        sentences(7, &process, &Mappings::of(MAPS))
    }

    #[test]
    fn an_allocator_besides_the_sampled_one_is_named() {
        assert_eq!(of(0, 0xa010), [""; 0]);
        let besides = of(0, 0x6010);
        assert_eq!(besides.len(), 1);
        assert!(
            besides[0].contains("libmimalloc.so.2 besides libc.so.6"),
            "{besides:?}"
        );
        let own = of(0x1010, 0xa010);
        assert!(own[0].contains("/usr/bin/server"), "{own:?}");
        // Not known, or in no file.
        for unknown in [0, 0x2010, 0x4000, u64::MAX] {
            assert_eq!(of(unknown, unknown), [""; 0]);
        }
    }
}
