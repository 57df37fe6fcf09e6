//! The same answers as addr2line(1), llvm-symbolizer and gdb: functions,
//! inlined chains, files and lines.
//!
//! The three do not agree among themselves at every address. What is asserted
//! is that each part of an answer is also what at least two of them say, for
//! every instruction. Known of the one that is left alone:
//!
//! - gdb tells the line where the statement began (`is_stmt`), not that of the
//!   instruction, and nothing where there is no debug information;
//! - addr2line 2.40 loses the names of functions inlined in several pieces, and
//!   sometimes gives a destructor the file of its caller;
//! - llvm-symbolizer 14 names the outermost function by the symbol before the
//!   address, be it only a mark within the function, and leaves some symbols
//!   mangled; it takes the stubs of the procedure linkage table, which have no
//!   symbol, for the function before them.

mod fixture;

use fixture::peer::{self, Peer, Shown};
use fixture::{C_SOURCE, CPP_SOURCE, compile, instructions};

const PEERS: [Peer; 3] = [Peer::Addr2line, Peer::LlvmSymbolizer, Peer::Gdb];

/// What an answer is compared by.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Functions,
    /// File of the innermost frame.
    File,
    /// Line of the innermost frame.
    Line,
    /// Files and lines of the calls that were inlined.
    Calls,
}

fn said(part: Part, frames: &[Shown]) -> Vec<(&str, &str, u32)> {
    let frames = frames.iter();
    match part {
        Part::Functions => frames.map(|it| (&it.0[..], "", 0)).collect(),
        Part::File => frames.take(1).map(|it| ("", &it.1[..], 0)).collect(),
        Part::Line => frames.take(1).map(|it| ("", "", it.2)).collect(),
        Part::Calls => frames.skip(1).map(|it| ("", &it.1[..], it.2)).collect(),
    }
}

/// That nothing is known is said as no frame; without a line, a file is that of the
/// symbol table, which we do not show.
fn in_one_form(peer: Peer, ours: &[Shown], mut frames: Vec<Shown>) -> Vec<Shown> {
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
fn each_answer_is_that_of_two_of_three_others() {
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
                let answers = answers.map(|(frames, ours)| in_one_form(peer, ours, frames));
                theirs.push(answers.collect::<Vec<_>>());
            }
            let alone = vote(&addresses, &ours, &theirs);
            println!(
                "{compiler} {options:?} {name}: {} addresses; alone are {alone:?}",
                addresses.len()
            );
        }
    }
}

/// How many parts of answers each of the three has to itself.
fn vote(addresses: &[u64], ours: &[Vec<Shown>], theirs: &[Vec<Vec<Shown>>]) -> [(Peer, usize); 3] {
    let mut alone = PEERS.map(|peer| (peer, 0));
    for (at, (address, ours)) in addresses.iter().zip(ours).enumerate() {
        for part in [Part::Functions, Part::File, Part::Line, Part::Calls] {
            let expected = said(part, ours);
            let mut votes = 0;
            for (answers, alone) in theirs.iter().zip(&mut alone) {
                let agrees = said(part, &answers[at]) == expected;
                votes += usize::from(agrees);
                alone.1 += usize::from(!agrees);
            }
            let answers: Vec<_> = theirs.iter().map(|answers| &answers[at]).collect();
            assert!(
                votes >= 2,
                "{address:#x} {part:?}: {ours:?}, but {PEERS:?} say {answers:#?}"
            );
        }
    }
    alone
}
