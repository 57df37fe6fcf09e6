//! Windows and pools through the Rust client crate. The recorded program is this
//! test program itself.

use std::alloc::Layout;
use std::hint::black_box;
use std::sync::Barrier;

use crate::support::record;
use crate::support::windows::{counted, windows};
use allotrope_client::{Protocol, Window, measure, measure_with, opt_out, pool};

fn boxes(count: u64) -> u64 {
    for number in 0..count {
        black_box(Box::new(number));
    }
    count
}

/// The program that the test below records. By itself it checks that the client
/// calls every closure.
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
    arena();
    let window = Window::open("out", 0);
    boxes(2);
    assert_eq!(opt_out(|| boxes(7)), 7);
    boxes(3);
    drop(window);
}

/// An arena of one block hands out three, resizes one, fails to resize another.
fn arena() {
    let _window = Window::open("arena", 1);
    let memory = black_box(Box::new([0_u64; 8]));
    let at = |index: usize| std::ptr::from_ref(&memory[index]);
    for index in 0..3 {
        pool::allocated(at(index), Layout::new::<u64>());
    }
    let moved = pool::reallocate(at(2), 16, || at(4).cast_mut());
    assert_eq!(moved.cast_const(), at(4));
    assert!(pool::reallocate(at(1), 1 << 40, std::ptr::null_mut).is_null());
    for index in [0, 1, 4] {
        pool::deallocating(at(index));
    }
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

mod measured {
    #[allotrope::test(iterations = 7)]
    fn a_test() {
        super::boxes(7);
    }
}

#[test]
fn a_test_with_the_attribute_is_a_window_with_its_path() {
    let program = std::env::current_exe().expect("it runs");
    let recording = record(program)
        .args(["--exact", "client_rust::measured::a_test"])
        .env("ALLOTROPE_RUNS", "2")
        .run()
        .ok();
    let window = counted("client_rust::measured::a_test", 7, 7);
    assert_eq!(windows(&recording), [window.clone(), window]);
}

#[test]
fn each_window_has_the_allocations_of_its_calls() {
    let program = std::env::current_exe().expect("it runs");
    let recording = record(program)
        .args(["--exact", "client_rust::the_program"])
        .run();
    let expected = [
        counted("one", 10, 10),
        counted("runs", 5, 5),
        counted("runs", 5, 5),
        counted("both", 1, 103),
        counted("mine", 2, 3),
        // The arena's memory, three blocks, and one that replaced another.
        counted("arena", 1, 5),
        counted("out", 0, 5),
    ];
    let recording = recording.ok();
    assert_eq!(windows(&recording), expected);
    let report = recording.report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0);
    // Every reported block was freed.
    assert_eq!(process.under("client_rust::arena").leaked, 0);
}
