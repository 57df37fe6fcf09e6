//! Runs the README's example for Python unchanged.

mod toolchain;

use std::process::Command;

use toolchain::{Program, run, stub};

/// The README's code block as a program, with a function `parse` that it measures.
fn example() -> Program {
    let readme = include_str!("../README.md");
    let (_, block) = readme
        .split_once("```python\n")
        .expect("the README has a Python block");
    let (block, _) = block.split_once("```").expect("the block ends");
    let text = format!("#!/usr/bin/env python3\ndef parse():\n    print('parsed')\n\n{block}");
    toolchain::script("example.py", &text)
}

#[test]
fn the_example_opens_its_window_if_there_is_a_recorder() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        return println!("skipped: install Debian's python3");
    }
    let program = example();
    let alone = run(&program, None);
    assert_eq!((alone.text.as_str(), alone.log.as_str()), ("parsed\n", ""));
    let seen = run(&program, Some(stub()));
    assert_eq!(seen.text, "parsed\n");
    assert_eq!(seen.log, "open parse 1000 0\nclose 1 0\n");
}
