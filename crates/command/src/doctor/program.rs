//! Checks a program before it is recorded: whether it can be recorded, which
//! allocator it uses, how much its stacks will show.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use allotrope_preflight::allocator::{Allocator, OF_PRIVATE, OF_REPLACING, OF_STRIPPED};
use allotrope_preflight::executable::{Executable, Kind, Program};
use allotrope_preflight::linked_allocator::{self, LinkedAllocator};
use allotrope_symbols::{Locator, ModuleSymbols, Ran};
use allotrope_text::Shown;

use super::finding::{Finding, Level};
use crate::record;

/// Checks the program of this name.
pub fn check(name: &OsStr) -> Vec<Finding> {
    let path = match record::search(name) {
        Ok(path) => path,
        Err(failure) => {
            // The error already contains what to do.
            let text = failure.error.to_string();
            let found = Finding::ok("program", text);
            return vec![Finding {
                level: Level::Problem,
                ..found
            }];
        }
    };
    let executable = match Executable::inspect(&path) {
        Ok(executable) => executable,
        Err(error) => {
            let text = format!("{}: {error}", path.shown());
            let remedy = "name a program that this machine can execute";
            return vec![Finding::problem("program", text, remedy)];
        }
    };
    let mut findings = vec![recordability(&executable)];
    if let Kind::Program(program) = &executable.image().kind
        && executable.refusal().is_none()
    {
        findings.push(allocator(executable.image(), program));
        findings.push(symbols(program));
        findings.extend(optimisation(&executable.image().path));
    }
    findings
}

fn recordability(executable: &Executable) -> Finding {
    let path = executable.path.shown();
    if let Some(refusal) = executable.refusal() {
        let text = format!("{path}: {}", refusal.why);
        return Finding::problem("program", text, refusal.remedy);
    }
    match &executable.kind {
        Kind::Script(_) => {
            let image = executable.image().path.shown();
            Finding::ok(
                "program",
                format!("{path} is a script; {image} runs it and is recorded"),
            )
        }
        Kind::ShellText => Finding::ok(
            "program",
            format!(
                "{path} is a text without an interpreter line; /bin/sh runs it and is recorded"
            ),
        ),
        Kind::Program(program) if program.has_unknown_loader() => Finding::note(
            "program",
            format!(
                "{path} is loaded by {}",
                program.loader.as_deref().unwrap_or(Path::new("")).shown()
            ),
            "a recording needs glibc's loader, and this one is unknown",
        ),
        _ => Finding::ok("program", format!("{path} can be recorded")),
    }
}

fn allocator(executable: &Executable, program: &Program) -> Finding {
    let topic = "allocator";
    let (symbols, linked) = LinkedAllocator::with_facts(executable).unwrap_or_default();
    if !symbols.reported
        && let Some(linked) = linked
        && linked.detoured > 0
    {
        let stripped = linked_allocator::without_symbols(&executable.path);
        let stripped = stripped.ok().flatten();
        return detoured(&linked, stripped.filter(|_| linked.only_standard));
    }
    if let Ok(Some(name)) = linked_allocator::without_symbols(&executable.path) {
        let text = format!(
            "{name} is linked into the program, and its blocks cannot be seen: the symbols of \
             its entry points are stripped"
        );
        return match symbols.exports_malloc {
            true => Finding::problem(topic, text, OF_STRIPPED),
            false => Finding::note(topic, text, OF_STRIPPED),
        };
    }
    match Allocator::of(program, &symbols) {
        None => Finding::ok(topic, "the C library's, or one that is loaded later"),
        Some(Allocator::Library { name, file }) => Finding::ok(topic, format!("{name} ({file})")),
        Some(Allocator::Replacing(_) | Allocator::Private(_)) if symbols.reported => Finding::ok(
            topic,
            "linked into the program, which reports its blocks (allotrope-client's Recorded)",
        ),
        // Few such allocators forward calls to the next one, where they are recorded.
        Some(Allocator::Replacing(name)) => Finding::problem(
            topic,
            format!(
                "{} is linked into the program, whose calls to it bypass the recorder",
                name.unwrap_or("an allocator of its own")
            ),
            OF_REPLACING,
        ),
        Some(Allocator::Private(name)) => Finding::note(
            topic,
            format!("{name} is linked into the program, and its blocks cannot be seen"),
            OF_PRIVATE,
        ),
    }
}

/// An allocator whose entry points the recorder patches; `stripped`: one whose symbols the program
/// lacks.
fn detoured(linked: &LinkedAllocator, stripped: Option<&str>) -> Finding {
    let topic = "allocator";
    let (name, count) = (stripped.unwrap_or(&linked.name), linked.detoured);
    let points = if count == 1 { "point" } else { "points" };
    let text = format!(
        "{name} is linked into the program; its calls are recorded by patching \
         {count} entry {points} when the program starts"
    );
    if linked.refused.is_empty() {
        if !linked.only_standard {
            return Finding::ok(topic, text);
        }
        let names = "malloc, free and the other functions that every allocator has";
        let text = format!("{text}: {names}");
        return match stripped {
            Some(_) => {
                let text = format!("{text}; the symbols of its other functions are stripped");
                Finding::note(topic, text, OF_STRIPPED)
            }
            None => Finding::ok(topic, text),
        };
    }
    let names = linked.refused.join(", ");
    let text = format!("{text}, but not those of {names}, which cannot be patched");
    Finding::note(topic, text, OF_PRIVATE)
}

fn symbols(program: &Program) -> Finding {
    let topic = "names";
    let separate = program.build_id.as_deref().and_then(debug_file);
    if program.debug_information {
        return Finding::ok(topic, "it contains debug information");
    }
    if let Some(path) = separate {
        return Finding::ok(
            topic,
            format!("its debug information is in {}", path.shown()),
        );
    }
    let remedy = "build it with -g, or install its debug symbols";
    if program.symbol_table {
        let text = "it has function names, but no debug information: no lines, no inlined frames";
        return Finding::note(topic, text, remedy);
    }
    let text = "it is stripped: only functions that it exports have names";
    Finding::note(topic, text, remedy)
}

/// The separate debug file with this build id, if it is where distributions install it.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"));
    path.exists().then_some(path)
}

fn optimisation(path: &Path) -> Option<Finding> {
    let symbols = ModuleSymbols::load(&Locator::new(), path, &Ran::unverified(), None).ok()?;
    let topic = "optimisation";
    Some(if symbols.unoptimised()? {
        Finding::note(
            topic,
            "it was built without optimisation",
            "its counts say little about the optimised program; build it with -O2 -g",
        )
    } else {
        Finding::ok(topic, "it was built with optimisation")
    })
}
