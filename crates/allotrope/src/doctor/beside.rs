//! How a recording goes together with the other tools that people look into
//! programs with, if they are installed here. What is said was tried; what
//! valgrind does is in its manual, "Using Valgrind's malloc replacement".

use super::finding::Finding;
use crate::record::program;

/// A line for each tool that is installed.
pub fn check() -> Vec<Finding> {
    let is_there = |name: &str| program::search(name.as_ref()).is_ok();
    let mut findings = Vec::new();
    if is_there("gdb") {
        findings.push(Finding::ok(
            "gdb",
            "attaches to recorded programs (gdb -p PID), and can be recorded with what it runs",
        ));
    }
    if is_there("valgrind") {
        findings.push(Finding::note(
            "valgrind",
            "memcheck, DHAT, massif, helgrind and DRD put their own malloc before the recorder's",
            "record without them; callgrind and cachegrind leave malloc alone",
        ));
    }
    if is_there("strace") {
        findings.push(Finding::ok(
            "strace",
            "traces recorded programs (strace -p PID), and can be recorded with what it runs",
        ));
    }
    findings
}
