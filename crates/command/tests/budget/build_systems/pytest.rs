//! `integrations/pytest` with `examples/pytest`, on the system's Python.

use std::process::Command;

use crate::build_systems::example::Example;
use crate::build_systems::files::repository;
use crate::support::{Text, run, skip};

/// The system's Python, which is no script that starts another one.
const PYTHON: &str = "/usr/bin/python3";

fn has_pytest() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import pytest"]).output();
    found.is_ok_and(|output| output.status.success())
}

/// The example, whose command starts the system's Python.
fn example() -> Example {
    let example = Example::new("pytest");
    example.replace("allotrope.toml", "\"python3\"", &format!("{PYTHON:?}"));
    let plugin = repository()
        .join("integrations/pytest")
        .display()
        .to_string();
    example.replace("allotrope.toml", "../../integrations/pytest", &plugin);
    example
}

#[test]
fn marked_tests_are_measured() {
    if !has_pytest() {
        return skip("install Debian's python3-pytest");
    }
    let example = example();
    // 50 objects of 100,000 bytes; 2 × 50 of 100,000 and of 1,000. Each has a header with
    // its type, count, length and hash (4 × 8 bytes) and a zero at its end.
    let budget = example.budget("blocks");
    for (case, allocations, bytes) in [
        ("test_bytes", 50, 50 * 100_033),
        ("test_two_objects[100000]", 100, 100 * 100_033),
        ("test_two_objects[1000]", 100, 100 * 1_033),
    ] {
        let section = format!(
            "[shared.cases.\"blocks/test_blocks.py::{case}\"]\niterations = 50\n\
             allocations = {allocations}\nbytes = {bytes}\nremaining = 0\n"
        );
        budget.has(&section);
    }
    example
        .run(true, &["allotrope", "test"])
        .ok()
        .has("1 test with 3 cases: 3 passed");
    example.replace(
        "test_blocks.py",
        "len(bytes(100_000)) ==",
        "len(bytes(bytearray(100_000))) ==",
    );
    example.run(true, &["allotrope", "test"]).code(3).has("+50");
}

#[test]
fn without_the_recorder_they_are_plain_tests() {
    if !has_pytest() {
        return skip("install Debian's python3-pytest");
    }
    let example = example();
    let plugin = repository().join("integrations/pytest");
    let pytest = |arguments: &[&str]| {
        let mut command = Command::new(PYTHON);
        command
            .args([
                "-m",
                "pytest",
                "-q",
                "-p",
                "pytest_allotrope",
                "--strict-markers",
            ])
            .args(arguments)
            .env("PYTHONPATH", &plugin)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(example.folder());
        run(&mut command, b"")
    };
    pytest(&[]).ok().has("4 passed");
    example.replace("test_blocks.py", "(iterations=ITERATIONS)", "(times=3)");
    pytest(&[]).code(4).says("write @pytest.mark.allotrope or");
    example.replace("test_blocks.py", "(times=3)", "");
    example.replace("test_blocks.py", "def test_bytes", "async def test_bytes");
    pytest(&[])
        .code(4)
        .says("test_blocks.py::test_bytes cannot be measured");
}
