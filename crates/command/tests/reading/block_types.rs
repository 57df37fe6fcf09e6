//! Types of blocks: `programs/types/*tuned.*` and `*held.*`, whose comments have the type of each
//! case's blocks. No type may be wrong; how many are known depends on the compiler.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Text, allotrope, compiled_with, record, skip, source_path};

/// The types that the blocks of each case may have, as the source says.
fn truth(source: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(source_path(source)).expect("the source");
    let mut cases = BTreeMap::new();
    let mut types = None;
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("// type: ") {
            types = Some(found.to_owned());
        } else if let Some(at) = line.find("case_")
            && let Some(types) = types.take_if(|_| line.contains("()"))
        {
            let name = line[at..].split('(').next().unwrap_or_default();
            cases.insert(name.to_owned(), types);
        }
    }
    assert!(cases.len() > 15, "{source}: {cases:?}");
    cases
}

/// Whether a type with this size is among those of a case.
fn is_right(types: &str, name: &str, size: u64) -> bool {
    let spelled = |text: &str| text.replace(" *", "*");
    types.split('|').any(|one| {
        let (one, of_size) = match one.split_once('@') {
            Some((one, of_size)) => (one, of_size.parse().ok()),
            None => (one, None),
        };
        let is_type = match one.strip_prefix('^') {
            Some(start) => name.starts_with(start),
            None => spelled(name) == spelled(one),
        };
        is_type && of_size.is_none_or(|of_size: u64| of_size == size)
    })
}

/// How many sites of the cases have their right type, and how many none.
fn judged(source: &str, flags: &[&str]) -> (u64, u64) {
    judged_program(source, compiled_with(source, flags), flags)
}

fn judged_program(source: &str, program: PathBuf, flags: &[&str]) -> (u64, u64) {
    let truth = truth(source);
    let report = record(program).run().ok().report();
    let json = &report.json;
    let function = |frame: &Value| {
        let frame = &json["frames"][frame.as_u64().unwrap_or(0) as usize];
        frame["function"].as_str().unwrap_or_default().to_owned()
    };
    let (mut right, mut unknown) = (0, 0);
    let processes = json["processes"].as_array().expect("a list");
    for site in processes
        .iter()
        .flat_map(|it| it["sites"].as_array().expect("a list"))
    {
        let stack = site["stack"].as_array().expect("a list");
        let cases = stack.iter().map(function);
        let mut cases = cases.filter(|it| !it.contains("closure"));
        let case = cases.find_map(|name| {
            let name = name.rsplit("::").next().unwrap_or(&name).to_owned();
            truth.get(name.split('(').next()?)
        });
        let Some(types) = case else { continue };
        let size = site["smallest_bytes"].as_u64().unwrap_or(0);
        match site["type"].as_str() {
            Some(name) => {
                assert!(
                    is_right(types, name, size),
                    "{source} {flags:?}: {name}, not {types}"
                );
                right += 1;
            }
            None => unknown += 1,
        }
    }
    (right, unknown)
}

#[test]
fn no_type_of_the_cpp_cases_is_wrong_and_most_are_known_with_debug_information() {
    for source in ["types/tuned.cc", "types/held.cc"] {
        for level in ["-O0", "-O2"] {
            let (right, unknown) = judged(source, &["-std=c++17", level]);
            // malloc and types without a constructor are unknown by design.
            assert!(
                right > unknown,
                "{source} {level}: {right}, {unknown} unknown"
            );
            judged(source, &["-std=c++17", level, "-g0"]);
        }
    }
}

#[test]
fn no_type_of_new_is_wrong_and_most_are_known_from_the_constructors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (compiler, level) in [
        ("g++", "-O0"),
        ("g++", "-O1"),
        ("g++", "-O2"),
        ("clang++", "-O0"),
        ("clang++", "-O1"),
        ("clang++", "-O2"),
    ] {
        for source in ["types/new_tuned.cc", "types/new_held.cc"] {
            let program = folder.path().join("cases");
            let flags = ["-std=c++17", "-g", level];
            let mut command = Command::new(compiler);
            command.args(flags).arg("-o").arg(&program);
            match command.arg(source_path(source)).output() {
                Ok(output) => assert!(output.status.success(), "{output:?}"),
                Err(error) => {
                    skip(&format!("{compiler}: {error}"));
                    continue;
                }
            }
            let (right, unknown) = judged_program(source, program, &[compiler, level]);
            assert!(
                right > 2 * unknown,
                "{source} {compiler} {level}: {right}, {unknown} unknown"
            );
        }
    }
}

#[test]
fn no_type_of_the_rust_cases_is_wrong_and_most_are_known_with_names_that_have_them() {
    for source in ["types/tuned.rs", "types/held.rs"] {
        for level in ["-Copt-level=0", "-Copt-level=3"] {
            let v0 = [level, "-Csymbol-mangling-version=v0"];
            let (right, unknown) = judged(source, &v0);
            assert!(
                right > unknown,
                "{source} {level}: {right}, {unknown} unknown"
            );
            // The scheme that the compiler chooses by itself, whose names lack the types.
            let (right, unknown) = judged(source, &[level]);
            assert!(
                right > unknown,
                "{source} {level}: {right}, {unknown} unknown"
            );
        }
    }
}

#[test]
fn types_and_operators_are_in_every_output() {
    let recording = record(compiled_with("types/tuned.cc", &["-std=c++17"]))
        .run()
        .ok();
    let trace = recording.trace.to_str().expect("UTF-8");
    let by_type = allotrope([
        "report", trace, "--by", "type", "--metric", "bytes", "--top", "50",
    ])
    .ok()
    .text();
    by_type
        .has("Allocated bytes, by type of blocks")
        .has("[unknown]")
        .has("char");
    let by_entry = allotrope(["report", trace, "--by", "entry"]).ok().text();
    by_entry.has("operator new").has("malloc");
    let report = recording.report();
    let json = &report.json;
    let sites = json["processes"][0]["sites"].as_array().expect("a list");
    let of_strings: Vec<&Value> = sites.iter().filter(|it| it["type"] == "char").collect();
    assert!(!of_strings.is_empty());
    let site = of_strings[0];
    assert_eq!(site["operator"], "operator new", "{site}");
    let number = format!("site:{}", site["number"]);
    allotrope(["show", trace, &number])
        .ok()
        .text()
        .has("types")
        .has("char");
    let number = site["number"].to_string();
    let full = allotrope(["report", trace, "--site", &number]).ok().text();
    full.has("operator new (malloc)").has("char");
}
