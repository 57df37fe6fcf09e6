//! `doctor`: whether this machine and a program can be recorded.

use crate::support::{Ended, Text, allotrope, compiled, compiled_with};

fn printed(output: &Ended) -> String {
    format!("{}{}", output.text(), output.errors())
}

#[test]
fn this_machine() {
    let output = allotrope(["doctor"]).ok();
    printed(&output).has("glibc");
}

#[test]
fn a_program_that_can_be_recorded() {
    let program = compiled("stream.c");
    allotrope(["doctor".as_ref(), program.as_os_str()]).ok();
}

#[test]
fn a_static_program() {
    let program = compiled_with("stream.c", &["-static"]);
    let output = allotrope(["doctor".as_ref(), program.as_os_str()]);
    assert_ne!(output.status.code(), Some(0), "{}", printed(&output));
    printed(&output).has("static");
}

#[test]
fn a_missing_program() {
    let output = allotrope(["doctor", "/no/such/program"]);
    assert_ne!(output.status.code(), Some(0));
    printed(&output).has("/no/such/program");
}
