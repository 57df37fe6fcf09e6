//! Where debug information may be beside the plain debug file: the same
//! program, its debug information put into each of these places, must read
//! alike, and as addr2line(1), llvm-symbolizer and gdb read it where they are
//! installed and know the place.

mod fixture;

use std::path::{Path, PathBuf};

use allotrope_symbols::{Locator, ModuleSymbols, Resolved};
use fixture::{
    C_SOURCE, CPP_SOURCE, Program, RUST_SOURCE, compile, compile_in_parts, instructions, run,
};

/// One way to build a program and to put its debug information somewhere.
struct Place {
    name: &'static str,
    compiler: &'static str,
    options: &'static [&'static str],
    /// Done to the linked program, in its folder.
    after: &'static [&'static [&'static str]],
    /// Which of the other tools know this place.
    peers: &'static [Peer],
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Peer {
    Addr2line,
    LlvmSymbolizer,
    Gdb,
}

use Peer::{Addr2line, Gdb, LlvmSymbolizer};

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
const PLACES: &[Place] = &[
    Place { name: "plain", compiler: "g++", options: &["-O2", "-g"], after: &[],
        peers: &[Addr2line, LlvmSymbolizer, Gdb] },
    Place { name: "zlib", compiler: "g++", options: &["-O2", "-g", "-gz=zlib"], after: &[],
        peers: &[Addr2line, LlvmSymbolizer, Gdb] },
    Place { name: "zlib-gnu", compiler: "g++", options: &["-O2", "-g"],
        after: &[&["objcopy", "--compress-debug-sections=zlib-gnu", "program"]],
        peers: &[Addr2line, Gdb] },
    // objcopy writes zstd only where it was built with it.
    Place { name: "zstd", compiler: "g++", options: &["-O2", "-g"],
        after: &[&["objcopy", "--compress-debug-sections=zstd", "program"]],
        peers: &[Addr2line] },
    Place { name: "debug link", compiler: "g++", options: &["-O2", "-g"], after: SPLIT_OFF,
        peers: &[Addr2line, Gdb] },
    Place { name: "gcc, .dwo, DWARF 5", compiler: "g++", options: &["-O2", "-g", "-gsplit-dwarf"],
        after: &[], peers: &[Gdb] },
    Place { name: "gcc, .dwo, DWARF 4", compiler: "g++", options: &["-O2", "-gdwarf-4", "-gsplit-dwarf"],
        after: &[], peers: &[Gdb] },
    Place { name: "clang, .dwo, DWARF 5", compiler: "clang++",
        options: &["-O2", "-gdwarf-5", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[], peers: &[LlvmSymbolizer] },
    Place { name: "clang, .dwo, DWARF 4", compiler: "clang++",
        options: &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[], peers: &[LlvmSymbolizer] },
    Place { name: "gcc, .dwp, DWARF 4", compiler: "g++", options: &["-O2", "-gdwarf-4", "-gsplit-dwarf"],
        after: &[&["dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[Gdb] },
    // No .dwp of gcc with DWARF 5: binutils' dwp 2.40 crashes on it, and
    // llvm-dwp 14 never ends.
    Place { name: "clang, .dwp, DWARF 5", compiler: "clang++",
        options: &["-O2", "-gdwarf-5", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[&["llvm-dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[LlvmSymbolizer] },
    Place { name: "clang, .dwp, DWARF 4", compiler: "clang++",
        options: &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-fno-split-dwarf-inlining"],
        after: &[&["llvm-dwp", "-e", "program", "-o", "program.dwp"], &["find", ".", "-name", "*.dwo", "-delete"]],
        peers: &[LlvmSymbolizer] },
    Place { name: "dwz", compiler: "g++", options: &["-O2", "-gdwarf-4"],
        after: &[&["dwz", "program"]],
        peers: &[Addr2line, Gdb] },
];

/// A frame as every tool tells it: function, base name of the file, line.
type Shown = (String, String, u32);

fn shown(resolved: &Resolved) -> Vec<Shown> {
    let frames = resolved.frames.iter();
    frames
        .map(|frame| {
            let file = Path::new(&*frame.file).file_name();
            let file = file.map_or(String::new(), |name| name.to_string_lossy().into_owned());
            (plain(&frame.signature), file, frame.line)
        })
        .collect()
}

/// What of a name all tools agree on: the last part of the path before the
/// parameters and template arguments. The rest is compared in `peers.rs`.
fn plain(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "anonymous");
    let name = name
        .replace("operator<", "operator-less")
        .replace("operator()", "operator-call");
    let mut depth = 0usize;
    let mut short = String::new();
    for letter in name.chars() {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    // binutils shows the symbol of a part that was split off as it is.
    let short = short.split(".cold").next().unwrap_or_default();
    let short = short.trim_end_matches(" const").trim();
    let last = short.rsplit("::").next().unwrap_or(short);
    last.rsplit(' ').next().unwrap_or(last).to_owned()
}

fn build(place: &Place, source_name: &str, source: &'static str) -> Option<Program> {
    let compiler = match (place.compiler, source_name.ends_with(".c")) {
        ("g++", true) => "gcc",
        ("clang++", true) => "clang",
        (compiler, _) => compiler,
    };
    let options = [place.options, &["-Wl,--build-id=sha1"]].concat();
    let program = compile_in_parts(compiler, &options, source_name, source)?;
    for command in place.after {
        let folder = program.path.parent()?;
        let output = std::process::Command::new(command[0])
            .args(&command[1..])
            .current_dir(folder)
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: {}: {command:?}: {said}", place.name);
                return None;
            }
            Err(error) => {
                println!(
                    "skipped: {}: cannot run {}: {error}",
                    place.name, command[0]
                );
                return None;
            }
        }
    }
    Some(program)
}

fn ours(program: &Path, addresses: &[u64]) -> Vec<Vec<Shown>> {
    let symbols = ModuleSymbols::load(&Locator::new(), program, &[], None).unwrap();
    let addresses: Vec<_> = addresses.iter().map(|address| (*address, true)).collect();
    symbols.resolve(&addresses).iter().map(shown).collect()
}

fn peer(peer: Peer, program: &Path, addresses: &[u64]) -> Option<Vec<Vec<Shown>>> {
    match peer {
        Addr2line => addr2line(program, addresses),
        LlvmSymbolizer => llvm_symbolizer(program, addresses),
        Gdb => gdb(program, addresses),
    }
}

fn position(text: &str) -> (String, u32) {
    let text = text.split(" (").next().unwrap_or(text);
    let mut parts = text.split(':');
    let file = Path::new(parts.next().unwrap_or_default()).file_name();
    let file = file.map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let line = parts.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let file = if file == "??" { String::new() } else { file };
    (file, line)
}

fn addr2line(program: &Path, addresses: &[u64]) -> Option<Vec<Vec<Shown>>> {
    let addresses: Vec<String> = addresses.iter().map(|it| format!("{it:#x}")).collect();
    let mut arguments = vec!["-a", "-i", "-f", "-C", "-e", program.to_str()?];
    arguments.extend(addresses.iter().map(String::as_str));
    let output = run("addr2line", &arguments)?;
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in output.lines() {
        match (line.starts_with("0x"), groups.last_mut()) {
            (false, Some(group)) => group.push(line),
            _ => groups.push(Vec::new()),
        }
    }
    let pair = |pair: &[&str]| {
        let (file, line) = position(pair[1]);
        (plain(pair[0]), file, line)
    };
    let groups = groups.iter();
    Some(
        groups
            .map(|group| group.chunks_exact(2).map(pair).collect())
            .collect(),
    )
}

fn llvm_symbolizer(program: &Path, addresses: &[u64]) -> Option<Vec<Vec<Shown>>> {
    let addresses: Vec<String> = addresses.iter().map(|it| format!("{it:#x}")).collect();
    let object = format!("--obj={}", program.to_str()?);
    let mut arguments = vec![&object[..], "--inlines", "--demangle"];
    arguments.extend(addresses.iter().map(String::as_str));
    let output = run("llvm-symbolizer", &arguments)?;
    let groups = output.trim_end().split("\n\n");
    let group = |group: &str| {
        let lines: Vec<&str> = group.lines().collect();
        let pair = |pair: &[&str]| {
            let (file, line) = position(pair[1]);
            (plain(pair[0]), file, line)
        };
        lines.chunks_exact(2).map(pair).collect()
    };
    Some(groups.map(group).collect())
}

/// gdb tells the functions; its lines are those where a statement begins
/// (`is_stmt`), not those of each instruction.
fn gdb(program: &Path, addresses: &[u64]) -> Option<Vec<Vec<Shown>>> {
    let commands = program.with_extension("gdb.py");
    let addresses: Vec<String> = addresses.iter().map(u64::to_string).collect();
    let script = format!(
        "import gdb
for address in [{}]:
    block = gdb.block_for_pc(address)
    chain = []
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            chain.append(block.function.name)
        block = block.superblock
    print('answer ' + '\t'.join(chain))
",
        addresses.join(", ")
    );
    std::fs::write(&commands, script).unwrap();
    let (script, program) = (commands.to_str()?, program.to_str()?);
    let output = run("gdb", &["-nx", "-batch", "-x", script, program])?;
    let chain = |names: &str| {
        let names = names.split('\t').filter(|name| !name.is_empty());
        names.map(|name| (plain(name), String::new(), 0)).collect()
    };
    let answers = output
        .lines()
        .filter_map(|line| line.strip_prefix("answer "));
    Some(answers.map(chain).collect())
}

fn agrees(peer: Peer, ours: &[Shown], theirs: &[Shown]) -> bool {
    match peer {
        Gdb => {
            let names = |frames: &[Shown]| -> Vec<String> {
                frames.iter().map(|frame| frame.0.clone()).collect()
            };
            theirs.is_empty() || names(ours) == names(theirs)
        }
        _ => {
            // Where they know nothing but the symbol, so may we.
            let unknown = theirs.iter().all(|frame| frame.2 == 0);
            let close = |ours: &Shown, theirs: &Shown| {
                let file = theirs.1.is_empty() || ours.1 == theirs.1;
                // llvm-symbolizer takes a mark for a function and does not
                // know some conversions.
                let name = theirs.0.starts_with("mark_") || theirs.0.starts_with("_Z");
                file && (theirs.2 == 0 || ours.2 == theirs.2) && (name || ours.0 == theirs.0)
            };
            unknown
                || (ours.len() == theirs.len()
                    && ours
                        .iter()
                        .zip(theirs)
                        .all(|(ours, theirs)| close(ours, theirs)))
        }
    }
}

#[test]
fn every_place_reads_alike_and_as_others_read_it() {
    for place in PLACES {
        for (name, source) in [("truth.cpp", CPP_SOURCE), ("truth.c", C_SOURCE)] {
            let Some(program) = build(place, name, source) else {
                continue;
            };
            let step = if name.ends_with(".c") { 1 } else { 3 };
            let Some(addresses) = instructions(&program.path, step) else {
                return;
            };
            let found = ours(&program.path, &addresses);
            // The rest is start code of the C library, without lines.
            let has_line = |frames: &&Vec<Shown>| frames.iter().any(|it| it.2 > 0);
            let described = found.iter().filter(has_line).count();
            let least = if name.ends_with(".c") {
                3
            } else {
                addresses.len() / 2
            };
            assert!(described >= least, "{} {name}: {described}", place.name);
            let inlined = found.iter().filter(|frames| frames.len() > 1).count();
            assert!(inlined > 0, "{} {name}: nothing inlined", place.name);
            let mut compared = Vec::new();
            for tool in place.peers {
                let Some(theirs) = peer(*tool, &program.path, &addresses) else {
                    continue;
                };
                assert_eq!(theirs.len(), addresses.len(), "{} {tool:?}", place.name);
                let rows = addresses.iter().zip(&found).zip(&theirs);
                let differing: Vec<_> = rows
                    .filter(|((_, ours), theirs)| !agrees(*tool, ours, theirs))
                    .collect();
                // Tools differ among themselves where rows of the line table
                // share an address, and in names of lambdas and conversions.
                assert!(
                    differing.len() * 100 <= addresses.len() * 3,
                    "{} {name} {tool:?}: {} of {} differ, such as {:x?}",
                    place.name,
                    differing.len(),
                    addresses.len(),
                    &differing[..differing.len().min(4)]
                );
                compared.push(*tool);
            }
            println!(
                "{} {name}: {} addresses, as {compared:?}",
                place.name,
                addresses.len()
            );
        }
    }
}

/// What is split off must read as if it was not.
#[test]
fn split_debug_information_reads_as_the_same_in_one_file() {
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
        let expected = ours(&whole.path, &addresses);
        let found = ours(&split.path, &addresses);
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
fn a_split_file_of_another_build_is_not_taken() {
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
    // As Fedora's find-debuginfo does it.
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
        let symbols = ModuleSymbols::load(&Locator::new(), path, &[], None).unwrap();
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
    // Damaged, it costs the names it has.
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
