//! Each stack compared with libunwind's, allocation by allocation: the short form of
//! `scripts/verify-stacks`.

use std::path::Path;
use std::process::Command;

use crate::support::{record, skip};

/// The script's exit status if libunwind is missing (automake's for a skipped
/// test).
const SKIPPED: i32 = 77;

#[test]
fn every_stack_equals_libunwinds() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/verify-stacks");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify-stacks");
    let mut command = Command::new(script);
    command
        .args(["--short", "--allotrope", env!("CARGO_BIN_EXE_allotrope")])
        .arg("--build")
        .arg(build);
    let output = record::run(&mut command, b"");
    let (stdout, stderr) = (output.text(), output.errors());
    if output.status.code() == Some(SKIPPED) {
        return skip(stderr.trim());
    }
    assert!(output.status.success(), "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap_or_default();
    assert!(last.ends_with(" stacks compared, 0 different"), "{stdout}");
}
