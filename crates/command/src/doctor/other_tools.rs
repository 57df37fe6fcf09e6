//! Whether a program can be recorded while another debugging tool runs it or is
//! attached to it. Each statement was tried out; valgrind's behaviour is also in its
//! manual ("Using Valgrind's malloc replacement").

use super::finding::Finding;
use crate::record::program;

/// A finding for each of these tools that is installed.
pub fn check() -> Vec<Finding> {
    let is_there = |name: &str| program::search(name.as_ref()).is_ok();
    let mut findings = Vec::new();
    if is_there("gdb") {
        findings.push(Finding::ok(
            "gdb",
            "can attach to recorded programs (gdb -p PID), and can be recorded with the program that it runs",
        ));
    }
    if is_there("valgrind") {
        findings.push(Finding::note(
            "valgrind",
            "memcheck, DHAT, massif, helgrind and DRD replace malloc before the recorder does",
            "record without them; callgrind and cachegrind do not replace malloc",
        ));
    }
    if is_there("strace") {
        findings.push(Finding::ok(
            "strace",
            "can trace recorded programs (strace -p PID), and can be recorded with the program that it runs",
        ));
    }
    findings
}
