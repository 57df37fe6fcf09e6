//! `doctor`: whether this machine and a program can be recorded.

use std::process::Output;

use crate::support::{allotrope, compiled, compiled_with};

fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn this_machine() {
    let output = allotrope(["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(printed(&output).contains("glibc"), "{}", printed(&output));
}

#[test]
fn a_program_that_can_be_recorded() {
    let program = compiled("stream.c");
    let output = allotrope(["doctor".as_ref(), program.as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn a_static_program() {
    let program = compiled_with("stream.c", &["-static"]);
    let output = allotrope(["doctor".as_ref(), program.as_os_str()]);
    assert_ne!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(printed(&output).contains("static"), "{}", printed(&output));
}

#[test]
fn a_missing_program() {
    let output = allotrope(["doctor", "/no/such/program"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(
        printed(&output).contains("/no/such/program"),
        "{}",
        printed(&output)
    );
}
