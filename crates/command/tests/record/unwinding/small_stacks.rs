//! How much of the program's stack the recorder takes.

use std::process::Command;

use crate::support::{record, run};
use crate::unwinding::building::build;

/// Expects that with the recorder an alternate stack of exactly `sysconf(_SC_MINSIGSTKSZ)` is
/// enough for a handler that allocates, if without the recorder 64 bytes less (one step of the
/// kernel's alignment) are enough.
fn expect_no_need_for_more(thread: &str) {
    let program = build("cc", "smallest_stack.c").flags(["-Wl,-z,now"]).run();
    let number = |text: &[u8]| -> i64 {
        let text = String::from_utf8_lossy(text);
        text.trim().parse().expect("it prints a number")
    };
    let plain = run(Command::new(&program).arg(thread), b"");
    let plain = number(&plain.stdout);
    if plain > -64 {
        eprintln!("skipped: without the recorder, too, {plain} bytes more are needed here");
        return;
    }
    let recording = record(&program).arg(thread).run().ok();
    let recorded = number(&recording.stdout);
    assert!(
        recorded <= 0,
        "{recorded} bytes more are needed, without the recorder {plain}"
    );
}

#[test]
fn a_handler_on_the_smallest_stack() {
    expect_no_need_for_more("used");
}

#[test]
fn a_handler_on_the_smallest_stack_of_a_new_thread() {
    expect_no_need_for_more("new");
}
