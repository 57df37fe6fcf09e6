//! Functions with `#[allotrope::test]` are ordinary tests: this file, run without the
//! recorder, is the test. The names and numbers of their windows are tested where they
//! are recorded.

extern crate allotrope_client as allotrope;

use std::sync::atomic::{AtomicUsize, Ordering};

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[allotrope::test]
fn a_test_runs_once_without_the_recorder() {
    assert_eq!(RUNS.fetch_add(1, Ordering::Relaxed), 0);
}

#[allotrope::test(iterations = 10 * 100)]
#[should_panic(expected = "this is expected")]
fn a_panic_is_passed_on() {
    panic!("this is expected");
}

mod inner {
    #[allotrope::test(iterations = 3, crate = allotrope_client)]
    pub(crate) fn a_test_may_return_a_result() -> Result<(), std::num::ParseIntError> {
        let number: u32 = "3".parse()?;
        assert_eq!(number, 3);
        Ok(())
    }
}

/// It must not run.
#[allotrope::test]
#[ignore = "to show that the attribute is kept"]
fn an_ignored_test() {
    panic!("it was run");
}
