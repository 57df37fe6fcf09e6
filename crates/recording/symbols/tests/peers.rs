//! Compares our frames with those of other readers of the same debug information: the
//! `addr2line` crate (positions), and GNU addr2line (names).

mod fixture;

use std::path::Path;

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use allotrope_symbols::{Locator, ModuleSymbols, Ran, Resolved};
use fixture::{C_SOURCE, CPP_SOURCE, RUST_SOURCE, compile, instructions, run};
use object::{Object, ObjectSection};

/// (file, line, column) of every frame, innermost first.
type Positions = Vec<(String, u32, u32)>;

fn ours(path: &Path, addresses: &[u64]) -> Vec<Resolved> {
    let symbols = ModuleSymbols::load(&Locator::new(), path, &Ran::unverified(), None).unwrap();
    let addresses: Vec<_> = addresses.iter().map(|address| (*address, true)).collect();
    symbols.resolve(&addresses)
}

fn positions(resolved: &Resolved) -> Positions {
    let frames = resolved.frames.iter();
    let frames = frames.map(|frame| (frame.file.to_string(), frame.line, frame.column));
    frames.collect()
}

/// The frames that the `addr2line` crate finds.
fn theirs(path: &Path, addresses: &[u64]) -> Vec<Positions> {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let load = |id: gimli::SectionId| -> Result<Vec<u8>, gimli::Error> {
        let section = object.section_by_name(id.name());
        let data = section.map(|section| section.uncompressed_data().unwrap().into_owned());
        Ok(data.unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(load).unwrap();
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let context = addr2line::Context::from_dwarf(dwarf).unwrap();
    let at = |address: &u64| {
        let mut frames = context.find_frames(*address).skip_all_loads().unwrap();
        let mut positions = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            let location = frame.location;
            positions.push((
                location
                    .as_ref()
                    .and_then(|l| l.file)
                    .unwrap_or("")
                    .to_owned(),
                location.as_ref().and_then(|l| l.line).unwrap_or(0),
                location.as_ref().and_then(|l| l.column).unwrap_or(0),
            ));
        }
        positions
    };
    addresses.iter().map(at).collect()
}

#[test]
fn every_address_has_the_frames_that_addr2line_finds() {
    for (compiler, options, name, source) in [
        ("gcc", &["-O2", "-g"][..], "truth.c", C_SOURCE),
        ("g++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE),
        ("g++", &["-O3", "-g", "-flto"], "truth.cpp", CPP_SOURCE),
        ("g++", &["-O0", "-g", "-gdwarf-4"], "truth.cpp", CPP_SOURCE),
        (
            "g++",
            &["-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"],
            "truth.cpp",
            CPP_SOURCE,
        ),
        ("clang++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE),
        (
            "clang++",
            &["-O2", "-gline-tables-only"],
            "truth.cpp",
            CPP_SOURCE,
        ),
        ("rustc", &["-g", "-Copt-level=3"], "truth.rs", RUST_SOURCE),
    ] {
        let Some(program) = compile(compiler, options, name, source) else {
            continue;
        };
        let Some(addresses) = instructions(&program.path, 1) else {
            return;
        };
        let found = ours(&program.path, &addresses);
        let expected = theirs(&program.path, &addresses);
        let mut described = 0;
        for ((address, found), expected) in addresses.iter().zip(&found).zip(expected) {
            // The crate does not read symbol tables.
            if !expected.is_empty() {
                described += 1;
                assert_eq!(
                    positions(found),
                    expected,
                    "{compiler} {options:?} {address:#x}: {found:?}"
                );
            }
        }
        assert!(
            described > 3,
            "{compiler} {options:?} has no debug information"
        );
    }
}

#[test]
fn functions_have_the_names_that_gnu_addr2line_gives() {
    let Some(program) = compile("g++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE) else {
        return;
    };
    let Some(addresses) = instructions(&program.path, 2) else {
        return;
    };
    let texts: Vec<String> = addresses
        .iter()
        .map(|address| format!("{address:#x}"))
        .collect();
    let mut arguments = vec!["-a", "-i", "-f", "-C", "-e", program.path.to_str().unwrap()];
    arguments.extend(texts.iter().map(String::as_str));
    let Some(output) = run("addr2line", &arguments) else {
        return;
    };
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in output.lines() {
        match (line.starts_with("0x"), groups.last_mut()) {
            (false, Some(group)) => group.push(line),
            _ => groups.push(Vec::new()),
        }
    }
    let (mut same, mut all) = (0, 0);
    for (found, group) in ours(&program.path, &addresses).iter().zip(groups) {
        let names: Vec<&str> = group.into_iter().step_by(2).collect();
        if found.frames.len() != names.len() {
            continue;
        }
        // The two put different spaces into template arguments.
        let without_spaces = |text: &str| text.replace(' ', "");
        for (frame, name) in found.frames.iter().zip(names) {
            all += 1;
            same += usize::from(without_spaces(name).contains(&without_spaces(&frame.function)));
        }
    }
    // The rest are abbreviations, which the two spell differently (std::istream).
    assert!(all > 200 && same * 100 >= all * 98, "{same} of {all}");
}

#[test]
fn functions_of_the_standard_library_have_names() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return;
    }
    let listing = run(
        "nm",
        &["-D", "--defined-only", "-C", path.to_str().unwrap()],
    )
    .unwrap();
    let push_back = listing.lines().find(|line| {
        line.contains(" W std::__cxx11::basic_string<char") && line.contains("::push_back(char)")
    });
    let address = push_back.unwrap().split(' ').next().unwrap();
    let address = u64::from_str_radix(address, 16).unwrap();
    let frames = &ours(path, &[address])[0].frames;
    assert!(
        frames.last().unwrap().function.ends_with("::push_back"),
        "{frames:?}"
    );
}
