//! Debug information in all the locations and encodings that compilers and linkers
//! use: compressed, behind a debug link, in `.dwo` and `.dwp` files, in a
//! supplementary file of dwz. A program must resolve to the same frames as with all
//! its debug information in one file. addr2line(1), llvm-symbolizer and gdb must agree,
//! if they are installed and support the location.

mod fixture;

use std::path::{Path, PathBuf};

use allotrope_symbols::{Locator, ModuleSymbols, Ran};
use fixture::{
    C_SOURCE, CPP_SOURCE, Program, RUST_SOURCE, compile, compile_in_parts, instructions, run,
};

/// One way to build a program and to store its debug information.
struct Variant {
    name: &'static str,
    compiler: &'static str,
    options: &'static [&'static str],
    /// Commands that are run after linking, in the program's folder.
    after: &'static [&'static [&'static str]],
    /// Other tools that support this location.
    peers: &'static [Peer],
}

use fixture::peer;
use fixture::peer::Peer::{self, Addr2line, Gdb, LlvmSymbolizer};

const SPLIT_OFF: &[&[&str]] = &[
    &["objcopy", "--only-keep-debug", "program", "program.debug"],
    &[
        "objcopy",
        "--strip-all",
        "--add-gnu-debuglink",
        "program.debug",
        "program",
    ],
];

#[rustfmt::skip]
const VARIANTS: &[Variant] = &[
    Variant { name: "plain", compiler: "g++", options: &["-O2", "-g"], after: &[],
        peers: &[Addr2line, LlvmSymbolizer, Gdb] },
    Variant { name: "zlib", compiler: "g++", options: &["-O2", "-g", "-gz=zlib"], after: &[],
        peers: &[Addr2line, LlvmSymbolizer, Gdb] },
    Variant { name: "zlib-gnu", compiler: "g++", options: &["-O2", "-g"],
        after: &[&["objcopy", "--compress-debug-sections=zlib-gnu", "program"]],
        peers: &[Gdb] },
    // objcopy supports zstd only if it was built with it.
    Variant { name: "zstd", compiler: "g++", options: &["-O2", "-g"],
        after: &[&["objcopy", "--compress-debug-sections=zstd", "program"]],
        peers: &[Addr2line] },
    Variant { name: "debug link", compiler: "g++", options: &["-O2", "-g"], after: SPLIT_OFF,
        peers: &[Addr2line, Gdb] },
    Variant { name: "gcc, .dwo, DWARF 5", compiler: "g++", options: &["-O2", "-g", "-gsplit-dwarf"],
        after: &[], peers: &[Gdb] },
    Variant { name: "gcc, .dwo, DWARF 4", compiler: "g++", options: &["-O2", "-gdwarf-4", "-gsplit-dwarf"],
        after: &[], peers: &[Gdb] },
    Variant { name: "clang, .dwo, DWARF 5", compiler: "clang++",
        options: &["-O2", "-gdwarf-5", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[], peers: &[LlvmSymbolizer] },
    Variant { name: "clang, .dwo, DWARF 4", compiler: "clang++",
        options: &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[], peers: &[LlvmSymbolizer] },
    Variant { name: "gcc, .dwp, DWARF 4", compiler: "g++", options: &["-O2", "-gdwarf-4", "-gsplit-dwarf"],
        after: &[&["dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[Gdb] },
    // No .dwp of gcc 12 with DWARF 5: binutils' dwp 2.40 crashes on it, and
    // llvm-dwp 14, 19 and 22 do not end within two minutes.
    Variant { name: "clang, .dwp, DWARF 5", compiler: "clang++",
        options: &["-O2", "-gdwarf-5", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[&["llvm-dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[LlvmSymbolizer] },
    Variant { name: "clang, .dwp, DWARF 4", compiler: "clang++",
        options: &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[&["llvm-dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[LlvmSymbolizer] },
    Variant { name: "dwz", compiler: "g++", options: &["-O2", "-gdwarf-4"],
        after: &[&["dwz", "program"]],
        peers: &[Addr2line, Gdb] },
];

fn build(variant: &Variant, source_name: &str, source: &'static str) -> Option<Program> {
    let compiler = match (variant.compiler, source_name.ends_with(".c")) {
        ("g++", true) => "gcc",
        ("clang++", true) => "clang",
        (compiler, _) => compiler,
    };
    let options = [variant.options, &["-Wl,--build-id=sha1"]].concat();
    let program = compile_in_parts(compiler, &options, source_name, source)?;
    for command in variant.after {
        let folder = program.path.parent()?;
        let output = std::process::Command::new(command[0])
            .args(&command[1..])
            .current_dir(folder)
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: {}: {command:?}: {errors}", variant.name);
                return None;
            }
            Err(error) => {
                println!(
                    "skipped: {}: cannot run {}: {error}",
                    variant.name, command[0]
                );
                return None;
            }
        }
    }
    Some(program)
}

/// The variant without the options that determine where debug information is stored.
fn in_one_file(variant: &Variant) -> Variant {
    let options = variant.options.iter().copied();
    let kept =
        options.filter(|option| !option.contains("split-dwarf") && !option.starts_with("-gz"));
    Variant {
        name: variant.name,
        compiler: variant.compiler,
        options: kept.collect::<Vec<_>>().leak(),
        after: &[],
        peers: &[],
    }
}

/// `votes.rs` compares the results for the plain program with three tools.
#[test]
fn every_location_gives_the_frames_of_the_plain_program() {
    let mut differing = Vec::new();
    for variant in VARIANTS {
        for (name, source) in [("truth.cpp", CPP_SOURCE), ("truth.c", C_SOURCE)] {
            let whole = build(&in_one_file(variant), name, source);
            let (Some(program), Some(whole)) = (build(variant, name, source), whole) else {
                continue;
            };
            let Some(addresses) = instructions(&whole.path, 1) else {
                return;
            };
            let expected = peer::ours(&whole.path, &addresses);
            let found = peer::ours(&program.path, &addresses);
            for ((address, found), expected) in addresses.iter().zip(&found).zip(&expected) {
                assert_eq!(found, expected, "{} {name} {address:#x}", variant.name);
            }
            let mut compared = Vec::new();
            // The tools are slow, so only a part of the addresses is compared.
            let addresses: Vec<u64> = addresses.into_iter().step_by(5).collect();
            let found = peer::ours(&program.path, &addresses);
            for tool in variant.peers {
                let at = |program: &Program| peer::theirs(*tool, &program.path, &addresses);
                let (Some(theirs), Some(of_whole)) = (at(&program), at(&whole)) else {
                    continue;
                };
                assert_eq!(theirs.len(), addresses.len(), "{} {tool:?}", variant.name);
                // If a tool supports the location, it gives the same answer as ours,
                // or the same as it gives for the plain program.
                let rows = theirs.iter().zip(&of_whole).zip(&found);
                let read = rows.filter(|((theirs, whole), ours)| theirs == whole || theirs == ours);
                let others = addresses.len() - read.count();
                if others > 0 {
                    differing.push((variant.name, name, *tool, others));
                    continue;
                }
                compared.push(*tool);
            }
            println!(
                "{} {name}: {} addresses, as {compared:?}",
                variant.name,
                addresses.len()
            );
        }
    }
    assert!(differing.is_empty(), "{differing:?}");
}

#[test]
fn split_debug_information_gives_the_same_frames_as_one_file() {
    for (compiler, version) in [
        ("g++", "-gdwarf-5"),
        ("g++", "-gdwarf-4"),
        ("clang++", "-gdwarf-5"),
        ("clang++", "-gdwarf-4"),
    ] {
        let whole = ["-O2", version];
        let split = ["-O2", version, "-gsplit-dwarf"];
        let whole = compile_in_parts(compiler, &whole, "truth.cpp", CPP_SOURCE);
        let split = compile_in_parts(compiler, &split, "truth.cpp", CPP_SOURCE);
        let (Some(whole), Some(split)) = (whole, split) else {
            continue;
        };
        let Some(addresses) = instructions(&whole.path, 2) else {
            return;
        };
        assert_eq!(Some(&addresses), instructions(&split.path, 2).as_ref());
        let expected = peer::ours(&whole.path, &addresses);
        let found = peer::ours(&split.path, &addresses);
        for ((address, found), expected) in addresses.iter().zip(found).zip(expected) {
            assert_eq!(found, expected, "{compiler} {version} {address:#x}");
        }
    }
}

#[test]
fn split_debug_information_of_rust_is_found() {
    let functions = |kind: &str| {
        let options = ["-g", "-Copt-level=3", kind];
        let program = compile("rustc", &options, "truth.rs", RUST_SOURCE)?;
        let marks = ["mark_inner", "mark_count", "mark_closure"];
        let at = |mark: &&str| {
            let frames = program.at(mark).into_iter();
            frames
                .map(|frame| (frame.function, frame.line))
                .collect::<Vec<_>>()
        };
        Some(marks.iter().map(at).collect::<Vec<_>>())
    };
    let Some(whole) = functions("-Csplit-debuginfo=off") else {
        return;
    };
    assert!(whole[0].len() > 1, "{whole:?}");
    assert_eq!(functions("-Csplit-debuginfo=packed"), Some(whole.clone()));
    assert_eq!(functions("-Csplit-debuginfo=unpacked"), Some(whole));
}

#[test]
fn without_its_split_file_a_unit_still_has_lines_and_symbols() {
    let options = ["-O2", "-g", "-gsplit-dwarf"];
    let Some(program) = compile_in_parts("gcc", &options, "truth.c", C_SOURCE) else {
        return;
    };
    let folder = program.path.parent().unwrap();
    let remove = |name: &str| {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with(name) {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    let before = program.functions("mark_inner");
    assert_eq!(before, ["inner", "middle", "outer"]);
    remove(".dwo");
    let frames = program.at("mark_inner");
    assert_eq!(frames.len(), 1);
    assert_eq!(&*frames[0].function, "outer");
    assert_eq!(frames[0].line, program.position("MARK(mark_inner)").0);
}

#[test]
fn a_split_file_of_another_build_is_ignored() {
    let options = ["-O2", "-g", "-gsplit-dwarf"];
    let other = ["-O2", "-g", "-gsplit-dwarf", "-DMARK2"];
    let program = compile_in_parts("gcc", &options, "truth.c", C_SOURCE);
    let other = compile_in_parts("gcc", &other, "truth.c", OTHER_SOURCE);
    let (Some(program), Some(other)) = (program, other) else {
        return;
    };
    let dwo = |program: &Program| -> PathBuf {
        let entries = std::fs::read_dir(program.path.parent().unwrap()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths
            .find(|path| path.extension().is_some_and(|it| it == "dwo"))
            .unwrap()
    };
    std::fs::copy(dwo(&other), dwo(&program)).unwrap();
    assert_eq!(program.functions("mark_inner"), ["outer"]);
}

const OTHER_SOURCE: &str = "int other(int x) { return x; } int main(void) { return other(1); }";

#[test]
fn stripped_symbols_are_found_in_gnu_debugdata() {
    let options = ["-O2", "-Wl,--build-id=sha1"];
    let Some(program) = compile_in_parts("gcc", &options, "truth.c", C_SOURCE) else {
        return;
    };
    let mark = program.address("mark_hidden");
    let folder = program.path.parent().unwrap();
    // The steps of Fedora's find-debuginfo.
    let steps: [&[&str]; 5] = [
        &["objcopy", "--only-keep-debug", "program", "mini"],
        &[
            "objcopy",
            "-S",
            "--remove-section",
            ".comment",
            "mini",
            "mini",
        ],
        &["objcopy", "--only-keep-debug", "program", "mini"],
        &["xz", "mini"],
        &["strip", "--strip-all", "program"],
    ];
    for step in steps {
        let done = std::process::Command::new(step[0])
            .args(&step[1..])
            .current_dir(folder)
            .status();
        if !done.is_ok_and(|status| status.success()) {
            println!("skipped: cannot run {step:?}");
            return;
        }
    }
    let functions = |path: &Path| -> Vec<String> {
        let symbols = ModuleSymbols::load(&Locator::new(), path, &Ran::unverified(), None).unwrap();
        let resolved = symbols.resolve(&[(mark, true)]);
        let frames = resolved[0].frames.iter();
        frames.map(|frame| frame.function.to_string()).collect()
    };
    assert!(functions(&program.path).is_empty(), "it was stripped");
    let add = |content: &Path| {
        let add = format!(".gnu_debugdata={}", content.display());
        let path = program.path.to_str().unwrap();
        let with = program.path.with_extension("with");
        run(
            "objcopy",
            &["--add-section", &add, path, with.to_str().unwrap()],
        )
        .unwrap();
        with
    };
    let mini = folder.join("mini.xz");
    assert_eq!(functions(&add(&mini)), ["hidden"]);
    // A damaged section only loses names.
    let whole = std::fs::read(&mini).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&mini, &damaged).unwrap();
        let _ = functions(&add(&mini));
        std::fs::write(&mini, &whole[..at]).unwrap();
        assert!(functions(&add(&mini)).is_empty(), "cut at {at}");
    }
}
