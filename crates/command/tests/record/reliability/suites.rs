//! Test suites of other programs have the same outcome as without a recording: the
//! short form of `scripts/suites`.

use std::path::Path;
use std::process::Command;

use super::matrix::{Outcome, case};
use crate::support::run;

const GROUP: &str = "Test suites";
/// The script's exit status if nothing could be run (automake's for a skipped
/// test).
const SKIPPED: i32 = 77;

#[test]
fn python() {
    let expected = "every test has the same outcome with and without recording; nothing is lost";
    let name = "CPython's tests of json, ctypes and a part of threading";
    case(GROUP, name, expected, || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suites");
        let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suites");
        let mut command = Command::new(script);
        command
            .args(["--short", "--allotrope", env!("CARGO_BIN_EXE_allotrope")])
            .arg("--work")
            .arg(work)
            .arg("python");
        let output = run(&mut command, b"");
        let printed = output.text();
        if output.status.code() == Some(SKIPPED) {
            let reason = printed.lines().find(|line| line.starts_with("skipped"));
            return Outcome::Skipped(reason.unwrap_or("nothing to run").to_owned());
        }
        assert!(output.status.success(), "{printed}{}", output.errors());
        // `python: NAME  TESTS  DIFFERENT  PROCESSES  LOST  SECONDS s`
        let numbers = printed.lines().filter(|line| line.starts_with("python: "));
        let sum = |from_the_end: usize| -> u64 {
            let column = |line: &str| {
                let mut words = line.split_whitespace().rev();
                words
                    .nth(from_the_end)
                    .and_then(|word| word.parse::<u64>().ok())
            };
            numbers.clone().filter_map(column).sum()
        };
        let (tests, processes) = (sum(5), sum(3));
        assert!(tests > 100 && processes > 10, "{printed}");
        Outcome::Seen(format!(
            "{tests} tests, all equal; {processes} processes, lost 0"
        ))
    });
}
