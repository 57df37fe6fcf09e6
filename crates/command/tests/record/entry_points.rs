//! Every function that allocates or frees, counted to the last event. The programs
//! themselves check that the functions behave as without a recording.
//!
//! `programs/entry_points.c` and `programs/operators.cc` state the expected counts.

use crate::support::{compile, record, truth};

macro_rules! cases {
    ($source:literal: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                truth::check($source, stringify!($case));
            }
        )*

        #[test]
        fn every_case_is_tested() {
            let text = compile::source_text($source);
            let tested = [$(stringify!($case)),*];
            for line in text.lines() {
                let Some((case, _)) = line
                    .split_once("truth ")
                    .and_then(|(_, rest)| rest.split_once(':'))
                else {
                    continue;
                };
                assert!(case == "nothing" || tested.contains(&case), "{case}");
            }
        }
    };
}

mod c {
    use super::*;

    cases!("entry_points.c":
        malloc malloc_fails calloc realloc_grow realloc_shrink realloc_same realloc_null
        realloc_zero realloc_fails realloc_fails_then_grows reallocarray posix_memalign
        aligned_alloc memalign valloc pvalloc free_null cfree strdup many_sizes large);

    /// A C program that uses no stdio allocates nothing by itself. So the counts above
    /// are totals, not differences.
    #[test]
    fn a_program_without_allocations_has_none() {
        let recording = record(compile::compiled("entry_points.c"))
            .arg("nothing")
            .run()
            .ok();
        let report = recording.report();
        let process = report.only();
        assert_eq!(process.total("allocations"), 0, "{}", report.summary());
        assert_eq!(process.total("deallocations"), 0, "{}", report.summary());
    }
}

mod cxx {
    use super::*;

    cases!("operators.cc":
        scalar array many_objects nothrow aligned aligned_array aligned_nothrow direct_sized
        direct_aligned delete_null constructor_throws containers);

    /// A failed `operator new` allocates only the exception, which is small.
    #[test]
    fn failures_are_not_counted() {
        let recording = record(compile::compiled("operators.cc"))
            .arg("failures")
            .run()
            .ok();
        let report = recording.report();
        let found = report.only().under("case_failures");
        assert!(found.bytes < 100_000, "{found:?}");
        assert_eq!(found.leaked, 0, "{found:?}");
    }
}

/// Programs ask whether a function exists (to detect jemalloc, for example). The
/// answer must be the same with the recorder in the process.
#[test]
fn the_recorder_does_not_change_which_functions_exist() {
    let run = record(compile::compiled("available.c"));
    let plain = run.plain();
    let recorded = run.run().ok();
    assert_eq!(recorded.text(), plain.text());
}
