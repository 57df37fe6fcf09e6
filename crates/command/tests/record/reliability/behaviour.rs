//! What a program can observe is the same with and without a recording:
//! `programs/behaviour.c` prints it, and the outputs are equal to the byte.

use std::process::Command;

use super::matrix::{Outcome, case};
use super::targets::{expect_complete, target};
use crate::support::{Ended, record, run};

const GROUP: &str = "Behaviour";

/// Runs the case plain and recorded, both in one folder. With `-q`, `record` prints
/// nothing, so both streams are the program's own.
fn both(argument: &str) -> (Ended, Ended) {
    let program = target("behaviour.c");
    // `Command` sorts an environment in which a variable is set: here both.
    let described = record(&program)
        .option("-q")
        .arg(argument)
        .env("BEHAVIOUR", "same");
    let plain = run(
        Command::new(&program)
            .arg(argument)
            .env("BEHAVIOUR", "same")
            .current_dir(described.folder()),
        b"",
    );
    let recorded = run(&mut described.command(), b"");
    let recording = described.recorded(recorded.clone());
    expect_complete(&recording.report());
    (plain, recorded)
}

fn unchanged(name: &str, argument: &str) {
    case(
        GROUP,
        name,
        "the same output and status, byte by byte",
        || {
            let (plain, recorded) = both(argument);
            assert_eq!(plain.status.code(), Some(7), "the case itself works");
            assert_eq!(recorded.status, plain.status);
            for (recorded, plain) in [
                (&recorded.stdout, &plain.stdout),
                (&recorded.stderr, &plain.stderr),
            ] {
                assert_eq!(
                    String::from_utf8_lossy(recorded),
                    String::from_utf8_lossy(plain)
                );
            }
            let bytes = plain.stdout.len() + plain.stderr.len();
            Outcome::Seen(format!("{bytes} bytes, equal"))
        },
    );
}

#[test]
fn errno() {
    unchanged("errno after each call", "errno");
}

#[test]
fn signals() {
    unchanged("signal mask, dispositions, alternate stack", "signals");
}

#[test]
fn descriptors() {
    unchanged("descriptors 0 to 99, the next free one", "descriptors");
}

#[test]
fn environment() {
    unchanged(
        "the environment without the recorder's variables",
        "environment",
    );
}

#[test]
fn folder() {
    unchanged("the working directory", "folder");
}

#[test]
fn executable() {
    unchanged("/proc/self/exe and the program's name", "executable");
}

#[test]
fn blocks() {
    unchanged("alignment and usable size of every kind of block", "blocks");
}

#[test]
fn failures() {
    unchanged("failing and empty allocations", "failures");
}

#[test]
fn address_space() {
    unchanged("failing allocations within ulimit -v", "address_space");
}

#[test]
fn allocator() {
    unchanged("mallopt, mallinfo2 and malloc_trim", "allocator");
}

#[test]
fn statuses() {
    unchanged("children's statuses", "statuses");
}

#[test]
fn parent_of_a_daemon() {
    unchanged("getppid of a daemon", "parent");
}

#[test]
fn threads() {
    unchanged("the process's threads, name, tracer", "threads");
}
