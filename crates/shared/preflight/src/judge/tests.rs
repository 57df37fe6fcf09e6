//! Each kind of program file and its result, including all cases in which the command,
//! the recorder and the collector once differed.

use super::*;
use crate::privileges::{self, Credentials};

const GLIBC: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
const MUSL: &[u8] = b"/lib/ld-musl-x86_64.so.1\0";

/// A program file in memory.
struct Memory {
    bytes: Vec<u8>,
    mode: u32,
    owner: u32,
    capabilities: Vec<u8>,
    is_nosuid: bool,
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            mode: 0o755,
            owner: 0,
            capabilities: Vec::new(),
            is_nosuid: false,
        }
    }
}

impl ProgramFile for Memory {
    fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    /// Executed by user 1000.
    fn privileges(&self) -> Option<NotRecordable> {
        let status = b"Uid:\t1000 1000\nGid:\t0 0\nCapInh:\t0\nCapPrm:\t0\nCapBnd:\tffff\n";
        let file = privileges::File {
            mode: self.mode,
            user: self.owner,
            group: 0,
            capabilities: &self.capabilities,
            is_nosuid: self.is_nosuid,
        };
        privileges::judge(&Credentials::parse(status).unwrap(), &file)
    }
}

/// An ELF file with the loader, the dynamic strings and the sections given.
#[derive(Clone, Copy)]
struct TestElf<'a> {
    class: u8,
    kind: u16,
    machine: u16,
    loader: Option<&'a [u8]>,
    /// Tags and strings of the dynamic section.
    dynamic: &'a [(u64, &'a str)],
    /// The name of the only section beside that of the names.
    section: &'a str,
}

const PIE: TestElf<'_> = TestElf {
    class: 2,
    kind: 3,
    machine: 62,
    loader: Some(GLIBC),
    dynamic: &[],
    section: ".text",
};

impl TestElf<'_> {
    fn bytes(&self) -> Vec<u8> {
        const AT: usize = 0x1000;
        let mut bytes = vec![0; AT];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF");
        put(4, &[self.class]);
        put(16, &self.kind.to_le_bytes());
        put(18, &self.machine.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(40, &512u64.to_le_bytes());
        for (at, value) in [(54, 56u16), (56, 3), (58, 64), (60, 2), (62, 1)] {
            put(at, &value.to_le_bytes());
        }
        // The strings of both tables, then the loader, then the dynamic section.
        let mut strings = format!("\0{}\0", self.section).into_bytes();
        let mut entries = vec![5, 0x40_0000 + AT as u64];
        for (tag, text) in self.dynamic {
            entries.extend([*tag, strings.len() as u64]);
            strings.extend(text.bytes().chain([0]));
        }
        let entries: Vec<u8> = entries.iter().flat_map(|it| it.to_le_bytes()).collect();
        let loader = self.loader.unwrap_or_default();
        let end = AT + strings.len();
        let segments = [
            (1u32, 0, end),
            (if self.loader.is_some() { 3 } else { 0 }, end, loader.len()),
            (2, end + loader.len(), entries.len()),
        ];
        for (index, (kind, offset, size)) in segments.into_iter().enumerate() {
            let at = 64 + 56 * index;
            put(at, &kind.to_le_bytes());
            put(at + 8, &offset.to_le_bytes());
            put(at + 16, &(0x40_0000 + offset).to_le_bytes());
            put(at + 32, &size.to_le_bytes());
        }
        for (index, name) in [1u32, 0].into_iter().enumerate() {
            put(512 + 64 * index, &name.to_le_bytes());
            put(512 + 64 * index + 24, &AT.to_le_bytes());
        }
        bytes.extend(strings);
        bytes.extend(loader);
        bytes.extend(entries);
        bytes
    }

    fn judge(&self) -> Option<NotRecordable> {
        judged(&self.bytes().into())
    }
}

fn judged(file: &Memory) -> Option<NotRecordable> {
    match judge(file, &Start::default()) {
        Content::Program(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_for_glibc_are_recordable_at_any_address() {
    assert_eq!(PIE.judge(), None);
    assert_eq!(TestElf { kind: 2, ..PIE }.judge(), None);
    let loader = Some(&b"/nix/store/x/ld-linux-x86-64.so.2\0"[..]);
    assert_eq!(TestElf { loader, ..PIE }.judge(), None);
    // An unknown loader may be glibc's under another name.
    let loader = Some(&b"/opt/loader\0"[..]);
    assert_eq!(TestElf { loader, ..PIE }.judge(), None);
}

#[test]
fn each_kind_of_file_has_its_reason() {
    let of = |made: TestElf<'_>| made.judge();
    assert_eq!(
        of(TestElf {
            class: 1,
            machine: 3,
            ..PIE
        }),
        Some(NotRecordable::ThirtyTwoBit)
    );
    // x32
    assert_eq!(
        of(TestElf { class: 1, ..PIE }),
        Some(NotRecordable::ThirtyTwoBit)
    );
    assert_eq!(
        of(TestElf {
            machine: 183,
            ..PIE
        }),
        Some(NotRecordable::OtherMachine)
    );
    assert_eq!(
        of(TestElf {
            loader: Some(MUSL),
            ..PIE
        }),
        Some(NotRecordable::OtherLibc)
    );
    assert_eq!(
        of(TestElf {
            loader: None,
            ..PIE
        }),
        Some(NotRecordable::Static)
    );
    let go = TestElf {
        loader: None,
        section: ".go.buildinfo",
        ..PIE
    };
    assert_eq!(of(go), Some(NotRecordable::StaticGo));
    // With cgo a Go program is dynamically linked.
    assert_eq!(
        of(TestElf {
            loader: Some(GLIBC),
            ..go
        }),
        None
    );
}

/// A loader that is run as a program loads the recorder as usual.
#[test]
fn a_loader_is_no_static_program() {
    let named = |name| {
        let dynamic = [(DT_SONAME, name)];
        TestElf {
            loader: None,
            dynamic: &dynamic,
            ..PIE
        }
        .judge()
    };
    assert_eq!(named("ld-linux-x86-64.so.2"), None);
    assert_eq!(named("ld-musl-x86_64.so.1"), Some(NotRecordable::OtherLibc));
    assert_eq!(named("libx.so"), Some(NotRecordable::Static));
}

#[test]
fn set_id_bits_and_capabilities_count_if_the_program_gains_rights() {
    let program = || Memory::from(PIE.bytes());
    let privileged = Some(NotRecordable::Privileged);
    assert_eq!(
        judged(&Memory {
            mode: 0o4755,
            ..program()
        }),
        privileged
    );
    let own = Memory {
        mode: 0o4755,
        owner: 1000,
        ..program()
    };
    assert_eq!(judged(&own), None);
    let nosuid = Memory {
        mode: 0o4755,
        is_nosuid: true,
        ..program()
    };
    assert_eq!(judged(&nosuid), None);
    let words = [2 << 24 | 1, 1 << 13, 0, 0, 0];
    let capabilities: Vec<u8> = words.iter().flat_map(|it: &u32| it.to_le_bytes()).collect();
    let capable = || Memory {
        capabilities: capabilities.clone(),
        ..program()
    };
    assert_eq!(judged(&capable()), Some(NotRecordable::Capabilities));
    assert_eq!(
        judged(&Memory {
            is_nosuid: true,
            ..capable()
        }),
        None
    );
    // The kind of file takes precedence: a copy without rights cannot be recorded either.
    let small = TestElf {
        loader: None,
        ..PIE
    }
    .bytes();
    let small = Memory {
        mode: 0o4755,
        ..small.into()
    };
    assert_eq!(judged(&small), Some(NotRecordable::Static));
    // Set-id bits do not count for a script.
    let script = Memory {
        mode: 0o4755,
        ..b"#!/bin/sh".to_vec().into()
    };
    assert!(matches!(
        judge(&script, &Start::default()),
        Content::Script(_)
    ));
}

#[test]
fn address_sanitizer_must_be_first_unless_an_option_allows_otherwise() {
    let dynamic = [(DT_NEEDED, "libm.so.6"), (DT_NEEDED, "libasan.so.8")];
    let built = Memory::from(
        TestElf {
            dynamic: &dynamic,
            ..PIE
        }
        .bytes(),
    );
    let plain = Memory::from(PIE.bytes());
    let of = |file, preload, options| {
        let start = Start {
            preload,
            asan_options: options,
        };
        judge(file, &start)
    };
    let late = Some(&b"verify_asan_link_order=0"[..]);
    let reason = |reason| Content::Program(Some(reason));
    assert_eq!(
        of(&built, b"", None),
        reason(NotRecordable::AddressSanitizer)
    );
    assert_eq!(of(&built, b"", late), Content::Program(None));
    let preload = b"/x/libasan.so.8";
    let preloaded = reason(NotRecordable::PreloadedAddressSanitizer);
    assert_eq!(of(&plain, preload, None), preloaded);
    assert_eq!(of(&plain, preload, late), Content::Program(None));
}

#[test]
fn interpreter_lines_are_parsed_as_the_kernel_does() {
    let path = |line: &[u8]| match judge(&Memory::from(line.to_vec()), &Start::default()) {
        Content::Script(interpreter) => interpreter.path().to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(path(b"#! /bin/sh -e\nx"), "/bin/sh");
    assert_eq!(path(b"#!/usr/bin/env python3"), "/usr/bin/env");
    assert_eq!(path(b"#!\n"), "");
    assert_eq!(path(b"#! \t"), "");
    // The kernel keeps the carriage return and does not find the interpreter.
    assert_eq!(path(b"#!/bin/sh\r\n"), "/bin/sh\r");
    assert_eq!(
        path(&[b"#!", &[b'a'; 300][..]].concat()).len(),
        FIRST_LINE - 2
    );
}

#[test]
fn other_files_are_texts_or_damaged() {
    let of = |bytes: Vec<u8>| judge(&Memory::from(bytes), &Start::default());
    assert_eq!(of(Vec::new()), Content::Text);
    assert_eq!(of(b"echo".to_vec()), Content::Text);
    assert_eq!(of(b"\x7fELF".to_vec()), Content::Damaged);
    let mut bytes = PIE.bytes();
    bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(of(bytes.clone()), Content::Damaged);
    bytes[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(of(bytes), Content::Damaged);
}

/// Judging any file terminates and does not panic.
#[test]
fn hostile_files_do_no_harm() {
    let dynamic = [(DT_SONAME, "libx.so"), (DT_NEEDED, "libasan.so.8")];
    let whole = TestElf {
        loader: None,
        dynamic: &dynamic,
        section: ".go.buildinfo",
        ..PIE
    }
    .bytes();
    for length in 0..whole.len() {
        let _ = judge(&Memory::from(whole[..length].to_vec()), &Start::default());
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let interesting = [0, 1, 0x7f, 0x80, 0xff];
    for _ in 0..50_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + below(8) {
            // In the headers, or in the tables after them.
            let at = match below(2) {
                0 => 4 + below(640),
                _ => 0x1000 + below(whole.len() - 0x1000),
            };
            bytes[at] = interesting[below(interesting.len())];
        }
        let _ = judge(&Memory::from(bytes), &Start::default());
    }
}
