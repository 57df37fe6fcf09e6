//! Windows through the Rust crate. The program that is recorded is this one.

mod support;

use std::hint::black_box;
use std::sync::Barrier;

use allotrope_client::{Protocol, Window, measure, measure_with, opt_out};
use support::record;
use support::windows::{counted, windows};

fn boxes(count: u64) -> u64 {
    for number in 0..count {
        black_box(Box::new(number));
    }
    count
}

/// What the test below records; alone it shows that everything is called.
#[test]
fn the_program() {
    assert_eq!(measure("one", 10, || boxes(10)), 10);
    let mut calls = 0;
    let last = measure_with(Protocol::new("runs", 5).warm_up(1).runs(2), || {
        calls += 1;
        boxes(5) + calls
    });
    // The last of a call to warm up and two runs.
    assert_eq!(last, 5 + 3);
    threads();
    let window = Window::open("out", 0);
    boxes(2);
    assert_eq!(opt_out(|| boxes(7)), 7);
    boxes(3);
    drop(window);
}

/// Another thread allocates 100 blocks while this one has 3 in a window of its
/// own and in one of the process.
fn threads() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What a thread allocates when it starts comes before.
            barrier.wait();
            barrier.wait();
            boxes(100);
            barrier.wait();
        });
        barrier.wait();
        let both = Window::open("both", 1);
        let mine = Window::options("mine").iterations(2).this_thread().open();
        barrier.wait();
        boxes(3);
        barrier.wait();
        drop(mine);
        drop(both);
    });
}

#[test]
fn each_window_has_the_allocations_of_its_calls() {
    let program = std::env::current_exe().expect("it runs");
    let recording = record(program).args(["--exact", "the_program"]).run();
    let expected = [
        counted("one", 10, 10),
        counted("runs", 5, 5),
        counted("runs", 5, 5),
        counted("both", 1, 103),
        counted("mine", 2, 3),
        counted("out", 0, 5),
    ];
    assert_eq!(windows(&recording.expect_status(0)), expected);
}
