//! Round trips of budget files, and the size of their changes in a review.

use std::fs;

use super::*;
use crate::spread::Spread;
use crate::toolchain::Dependencies;
use allotrope_profile::Metric;
use allotrope_profile::{CountedStack, MetricSet, MetricValues, StackFrame, StackSet};

fn toolchain(compiler: &str) -> Toolchain {
    let lock = Dependencies {
        hash: "0123456789ab".into(),
        versions: [("serde".to_owned(), "1.0.0".to_owned())].into(),
    };
    Toolchain {
        platform: "x86_64-linux-gnu".into(),
        compilers: vec![compiler.into()],
        options: vec!["GNU C17 12.2.0 -g -O2".into()],
        optimised: Some(true),
        libraries: [("libc.so.6".to_owned(), "2.36".to_owned())].into(),
        dependencies: [("Cargo.lock".to_owned(), lock)].into(),
    }
}

fn budgets(scope: BudgetScope, allocations: i64, compiler: &str) -> Budgets {
    let budget = Budget {
        iterations: Some(1000),
        numbers: [
            (Metric::Allocations, Spread::exact(allocations).into()),
            (Metric::Net, Spread::exact(-2).into()),
        ]
        .into(),
    };
    Budgets {
        scope,
        toolchain: Some(toolchain(compiler)),
        cases: [("encode/\"odd\"\u{7f}\n".to_owned(), budget)].into(),
    }
}

fn frame(function: &str, file: &str, line: u32) -> StackFrame {
    StackFrame {
        function: function.into(),
        module: "bench".into(),
        file: file.into(),
        line,
        ..StackFrame::default()
    }
}

/// Stacks of one named function each, with these allocations.
fn set(stacks: &[(&str, u64)]) -> StackSet {
    let mut set = StackSet {
        frames: vec![frame("main", "src/main.c", 3)],
        known: MetricSet::OF_STACKS,
        ..StackSet::default()
    };
    for (index, (name, allocations)) in stacks.iter().enumerate() {
        set.frames.push(frame(name, "src/a b.c", 7));
        let mut figures = MetricValues::default();
        figures[Metric::Allocations as usize] = *allocations;
        set.stacks.push(CountedStack {
            frames: Box::new([index as u32 + 1, 0]),
            figures,
            maximum: None,
        });
    }
    set
}

/// The file with these stacks of the case `x`, at most `most` of them.
fn text_of(set: &StackSet, most: usize) -> String {
    let tree = profile(set, &Metric::OF_STACKS, most);
    profile::text(&[("x".to_owned(), tree)].into())
}

/// The stacks of the case `x` in the text of a file, aligned with those of now.
fn stacks_of(text: &str, now: &StackSet) -> StackSet {
    let cases = profile::parse(text, Path::new("x")).expect("just written");
    cases["x"].stacks(now)
}

/// Functions, outermost first, and allocations of each stack.
fn summary(set: &StackSet) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = set
        .stacks
        .iter()
        .map(|stack| {
            let frames = stack.frames.iter().rev();
            let names = frames.map(|f| &*set.frames[*f as usize].function);
            let allocations = stack.figures[Metric::Allocations as usize];
            (names.collect::<Vec<_>>().join(";"), allocations)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_platform_has_its_own_numbers_or_those_of_all() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    assert_eq!(folder.read("encode", "here").expect("no file"), None);
    let none = BTreeMap::new();
    let shared = budgets(BudgetScope::Shared, 5, "GCC 12");
    folder.write("encode", &shared, &none).expect("written");
    assert_eq!(
        folder.read("encode", "here").expect("a file"),
        Some(shared.clone())
    );
    let own = budgets(BudgetScope::Platform("here".into()), 6, "GCC 13");
    let changed = folder.write("encode", &own, &none).expect("written");
    assert_eq!(
        changed.len(),
        3,
        "numbers, stacks, a toolchain: {changed:?}"
    );
    assert_eq!(
        folder.read("encode", "here").expect("a file"),
        Some(own.clone())
    );
    assert_eq!(
        folder.read("encode", "there").expect("a file"),
        Some(shared)
    );
    // Writing the same budgets changes no file; unused toolchains are removed.
    assert!(
        folder
            .write("encode", &own, &none)
            .expect("written")
            .is_empty()
    );
    let newer = budgets(BudgetScope::Platform("here".into()), 6, "GCC 14");
    folder.write("encode", &newer, &none).expect("written");
    let text = made_with(&folder);
    assert!(text.contains("GCC 12") && text.contains("GCC 14") && !text.contains("GCC 13"));
}

/// The texts of all toolchains.
fn made_with(folder: &BudgetFolder) -> String {
    let files = fs::read_dir(folder.path().join("made-with")).expect("a folder");
    let texts = files.map(|file| {
        let path = file.expect("a file").path();
        fs::read_to_string(path).expect("a file")
    });
    texts.collect()
}

#[test]
fn toolchains_of_older_versions_are_read_and_moved() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    let none = BTreeMap::new();
    let shared = budgets(BudgetScope::Shared, 5, "GCC 12");
    folder.write("encode", &shared, &none).expect("written");
    // The older form is the same text in one file.
    let older = folder.path().join("made-with.toml");
    fs::write(&older, made_with(&folder)).expect("written");
    fs::remove_dir_all(folder.path().join("made-with")).expect("it is there");
    let read = folder.read("encode", "here").expect("a file");
    assert_eq!(read.as_ref(), Some(&shared));
    folder
        .write("decode", &budgets(BudgetScope::Shared, 5, "GCC 13"), &none)
        .expect("written");
    assert!(!older.exists());
    assert_eq!(folder.read("encode", "here").expect("a file"), Some(shared));
}

#[test]
fn each_number_is_on_a_line_of_its_own() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    let shared = budgets(BudgetScope::Shared, 5, "GCC 12");
    folder
        .write("encode", &shared, &BTreeMap::new())
        .expect("written");
    let text = fs::read_to_string(folder.path().join("encode.toml")).expect("a file");
    assert!(text.contains("\nallocations = 5\n"), "{text}");
    assert!(text.contains("\niterations = 1000\n"), "{text}");
}

#[test]
fn stacks_are_read_as_they_were_written() {
    let name = "operator()<int>(a, b) [clone .1]";
    let odd = set(&[(name, 3), ("case odd", 2), ("@7 odd", 1), ("# odd", 4)]);
    let text = text_of(&odd, 100);
    let read = stacks_of(&text, &odd);
    assert_eq!(summary(&read), summary(&odd));
    assert_eq!(&read.frames[0], &frame("main", "src/main.c", 3));
    // The lines are those of now.
    assert!(!text.contains(".c:"), "{text}");
    let elsewhere = StackSet::default();
    let read = stacks_of(&text, &elsewhere);
    assert_eq!(&read.frames[0], &frame("main", "src/main.c", 0));
    assert!(
        text.contains("\n case odd") || text.contains("\n \u{200b}case odd"),
        "{text}"
    );
}

#[test]
fn a_deep_stack_is_read_as_it_was_written() {
    let frames: Vec<StackFrame> = (0..300)
        .map(|n| frame(&format!("f{n}"), "f.c", n))
        .collect();
    let mut figures = MetricValues::default();
    figures[Metric::Bytes as usize] = 8;
    let deep = StackSet {
        stacks: vec![CountedStack {
            frames: (0..300).collect(),
            figures,
            maximum: None,
        }],
        frames,
        known: MetricSet::OF_STACKS,
        ..StackSet::default()
    };
    let read = stacks_of(&text_of(&deep, 100), &deep);
    assert_eq!(summary(&read), summary(&deep));
}

#[test]
fn stacks_beyond_the_limit_are_summed_up_on_both_sides() {
    let before = set(&[("a", 100), ("b", 50), ("c", 2), ("d", 1)]);
    let accepted = &stacks_of(&text_of(&before, 2), &before);
    let others = ("[other stacks]".to_owned(), 2 + 1);
    assert_eq!(
        summary(accepted),
        [
            others.clone(),
            ("main;a".into(), 100),
            ("main;b".into(), 50)
        ]
    );
    // A large new stack is listed separately.
    let now = set(&[("a", 100), ("b", 49), ("c", 2), ("d", 1), ("e", 60)]);
    let folded = fold_like(&now, accepted);
    assert_eq!(
        summary(&folded),
        [
            others,
            ("main;a".into(), 100),
            ("main;b".into(), 49),
            ("main;e".into(), 60)
        ]
    );
}

#[test]
fn small_stacks_of_the_same_functions_at_other_lines_are_folded_too() {
    // Four stacks with the same functions at different lines, two of which are
    // kept.
    let at_lines = |lines: [u32; 4]| {
        let mut all = set(&[("f", 9), ("f", 5), ("f", 3), ("f", 3)]);
        for (frame, line) in all.frames[1..].iter_mut().zip(lines) {
            frame.line = line;
        }
        all
    };
    let text = text_of(&at_lines([1, 2, 3, 4]), 2);
    let accepted = &stacks_of(&text, &at_lines([1, 2, 3, 4]));
    let folded = [
        ("[other stacks]".to_owned(), 3 + 3),
        ("main;f".into(), 5),
        ("main;f".into(), 9),
    ];
    assert_eq!(summary(accepted), folded);
    assert_eq!(
        summary(&fold_like(&at_lines([1, 2, 3, 4]), accepted)),
        folded
    );
    // All moved by a line; the largest ones are matched with those that were
    // kept.
    assert_eq!(
        summary(&fold_like(&at_lines([11, 12, 13, 14]), accepted)),
        folded
    );
}

#[test]
fn a_wrong_file_is_named_with_its_line() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    fs::create_dir(folder.path()).expect("a folder");
    let file = folder.path().join("encode.toml");
    let error = |text: &str| {
        fs::write(&file, text).expect("written");
        let error = folder.read("encode", "here").expect_err(text);
        error.to_string()
    };
    assert!(error("\nnonsense").contains("encode.toml:2: "));
    assert!(
        error("format = \"allotrope-budgets/9\"").contains(":1: the format is allotrope-budgets/9")
    );
    let odd = "format = \"allotrope-budgets/1\"\n[shared]\nmade-with = \"x\"\n[shared.cases.a]\nallocation = 1\n";
    assert!(error(odd).contains("encode.toml:5: \"allocation\" is no metric"));
    for (text, line) in [
        ("f\t", 1),
        ("case x\n  f", 2),
        ("case x\nf\t\t\tallocations", 2),
    ] {
        let error = profile::parse(text, Path::new("x.stacks")).expect_err(text);
        assert!(
            error.to_string().contains(&format!("x.stacks:{line}: ")),
            "{error}"
        );
    }
}

/// The text cut at every position, and with one character replaced.
fn damaged(text: &str) -> Vec<String> {
    let positions: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let mut all: Vec<String> = positions.iter().map(|&at| text[..at].to_owned()).collect();
    for (index, &at) in positions.iter().enumerate() {
        let after = positions.get(index + 1).copied().unwrap_or(text.len());
        for other in ["", "\0", "9", "@", "\t", "\"", "=", "\n", "é"] {
            all.push(format!("{}{other}{}", &text[..at], &text[after..]));
        }
    }
    all
}

#[test]
fn damaged_files_are_errors_or_other_numbers_and_no_panic() {
    let file = Path::new("x");
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    let own = budgets(BudgetScope::Platform("here".into()), 6, "GCC 13");
    let tree = profile(&set(&[("a", 3), ("b", 4)]), &Metric::OF_STACKS, 9);
    let stacks = [("x".to_owned(), tree)].into();
    folder.write("encode", &own, &stacks).expect("written");
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    for text in damaged(&text("encode.toml")) {
        let _ = file::Numbers::parse(&text, file);
    }
    for text in damaged(&text("encode.here.stacks")) {
        let _ = profile::parse(&text, file);
    }
    for text in damaged(&made_with(&folder)) {
        let _ = toolchains::Toolchains::parse(&text, file);
    }
    for text in damaged(crate::configuration::STARTING_FILE) {
        let _ = crate::Configuration::parse(&text, file);
    }
    for text in damaged("a test_x.total_allocations: 75001\nx.leaked_fds: -1\n") {
        let _ = crate::nio_log::NioLog::parse(&text, file);
    }
}

#[test]
fn a_hostile_file_cannot_demand_much_memory() {
    // 60,000 calls deep, and 2,000 stacks from there: 120 million frames.
    let mut text = "case x\n".to_owned();
    for depth in 0..60_000 {
        text.push_str(&format!("@{depth} f\n"));
    }
    for _ in 0..2_000 {
        text.push_str("@60000 f\t\t\tbytes=1\n");
    }
    let error = profile::parse(&text, Path::new("x.stacks")).expect_err("too many");
    assert!(error.to_string().contains("too many frames"), "{error}");
}

#[test]
fn budgets_of_removed_tests_are_found() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = BudgetFolder::beside(temporary.path());
    assert!(
        folder
            .orphaned_files(&["a".to_owned()].into())
            .expect("no folder")
            .is_empty()
    );
    for test in ["a", "gone"] {
        let own = budgets(BudgetScope::Platform("p.q".into()), 1, "GCC");
        folder.write(test, &own, &BTreeMap::new()).expect("written");
    }
    let others = folder
        .orphaned_files(&["a".to_owned()].into())
        .expect("a folder");
    let names: Vec<_> = others
        .iter()
        .map(|path| path.file_name().expect("files"))
        .collect();
    assert_eq!(names, ["gone.p.q.stacks", "gone.toml"]);
}
