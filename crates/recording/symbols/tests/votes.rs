//! Compares functions, inlined chains, files and lines with addr2line(1),
//! llvm-symbolizer and gdb, for every instruction.
//!
//! The three tools do not agree with each other at every address. So each part of our
//! answer must be the same as that of at least two of them. Known reasons for which one
//! tool differs from the other two:
//!
//! - gdb gives the line where the statement begins (`is_stmt`), not that of the
//!   instruction, and nothing if there is no debug information;
//! - addr2line 2.40 loses the names of functions inlined in several pieces, and
//!   sometimes gives a destructor the file of its caller;
//! - llvm-symbolizer 14 names the outermost function by the symbol before the address,
//!   even if that is only a label within the function; leaves some symbols mangled; and
//!   names the stubs of the procedure linkage table, which have no symbol, after the
//!   function before them.

mod fixture;

use fixture::peer::{self, Peer, Shown};
use fixture::{C_SOURCE, CPP_SOURCE, compile, instructions};

const PEERS: [Peer; 3] = [Peer::Addr2line, Peer::LlvmSymbolizer, Peer::Gdb];

/// A part of an answer, compared separately.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Functions,
    /// File of the innermost frame.
    File,
    /// Line of the innermost frame.
    Line,
    /// Files and lines of the inlined calls.
    Calls,
}

fn part_of(part: Part, frames: &[Shown]) -> Vec<(&str, &str, u32)> {
    let frames = frames.iter();
    match part {
        Part::Functions => frames.map(|it| (&it.0[..], "", 0)).collect(),
        Part::File => frames.take(1).map(|it| ("", &it.1[..], 0)).collect(),
        Part::Line => frames.take(1).map(|it| ("", "", it.2)).collect(),
        Part::Calls => frames.skip(1).map(|it| ("", &it.1[..], it.2)).collect(),
    }
}

/// Brings another tool's answer into our form. An unknown function is no frame. If our
/// answer has no files, neither has it: those are from the symbol table, which we do not
/// report.
fn normalised(peer: Peer, ours: &[Shown], mut frames: Vec<Shown>) -> Vec<Shown> {
    frames.retain(|frame| frame.0 != "??");
    if ours.iter().all(|frame| frame.1.is_empty()) {
        for frame in &mut frames {
            frame.1.clear();
        }
    }
    if let (Peer::LlvmSymbolizer, Some(theirs), Some(ours)) = (peer, frames.last_mut(), ours.last())
        && (theirs.0.starts_with("mark_") || theirs.0.starts_with("_Z"))
    {
        theirs.0.clone_from(&ours.0);
    }
    frames
}

#[test]
fn each_answer_is_that_of_at_least_two_other_tools() {
    for (compiler, options) in [
        ("g++", &["-O2", "-g"][..]),
        ("g++", &["-O2", "-gdwarf-4"]),
        ("g++", &["-O0", "-g"]),
        ("clang++", &["-O2", "-gdwarf-5"]),
        ("clang++", &["-O2", "-gdwarf-4"]),
    ] {
        for (name, source) in [("truth.cpp", CPP_SOURCE), ("truth.c", C_SOURCE)] {
            let compiler = match (compiler, name) {
                ("g++", "truth.c") => "gcc",
                ("clang++", "truth.c") => "clang",
                _ => compiler,
            };
            let Some(program) = compile(compiler, options, name, source) else {
                continue;
            };
            let Some(addresses) = instructions(&program.path, 1) else {
                return;
            };
            let ours = peer::ours(&program.path, &addresses);
            let mut theirs = Vec::new();
            for peer in PEERS {
                let Some(answers) = peer::theirs(peer, &program.path, &addresses) else {
                    return;
                };
                assert_eq!(answers.len(), addresses.len(), "{peer:?}");
                let answers = answers.into_iter().zip(&ours);
                let answers = answers.map(|(frames, ours)| normalised(peer, ours, frames));
                theirs.push(answers.collect::<Vec<_>>());
            }
            let differing = vote(&addresses, &ours, &theirs);
            println!(
                "{compiler} {options:?} {name}: {} addresses; differing answers: {differing:?}",
                addresses.len()
            );
        }
    }
}

/// Asserts that at least two tools agree with each part of our answers. Returns for each
/// tool the number of parts in which it differs from ours.
fn vote(addresses: &[u64], ours: &[Vec<Shown>], theirs: &[Vec<Vec<Shown>>]) -> [(Peer, usize); 3] {
    let mut differing = PEERS.map(|peer| (peer, 0));
    for (at, (address, ours)) in addresses.iter().zip(ours).enumerate() {
        for part in [Part::Functions, Part::File, Part::Line, Part::Calls] {
            let expected = part_of(part, ours);
            let mut votes = 0;
            for (answers, differing) in theirs.iter().zip(&mut differing) {
                let agrees = part_of(part, &answers[at]) == expected;
                votes += usize::from(agrees);
                differing.1 += usize::from(!agrees);
            }
            let answers: Vec<_> = theirs.iter().map(|answers| &answers[at]).collect();
            assert!(
                votes >= 2,
                "{address:#x} {part:?}: {ours:?}, but {PEERS:?} give {answers:#?}"
            );
        }
    }
    differing
}
