//! Warnings about an allocator that is linked into a program: one sentence with
//! the remedy.

use crate::support::{allotrope, compiled_with, record};

const MALLOC: &str = "-Dallocate=malloc";
/// An allocator whose functions the recorder does not patch.
const PRIVATE: &str = "-Dallocate=sn_malloc";

#[test]
fn record_names_the_remedy_for_a_private_allocator() {
    let recording = record(compiled_with("private_allocator.c", &[PRIVATE])).run();
    let recording = recording.ok();
    let warning = recording.stderr.lines().next().unwrap_or_default();
    assert!(warning.starts_with("allotrope: warning: "), "{warning}");
    assert!(
        warning.ends_with(
            "has snmalloc linked into it, whose blocks cannot be seen; \
             in Rust, wrap it in allotrope-client's Recorded; \
             in C and C++, report its blocks with allotrope.h"
        ),
        "{warning}"
    );
}

#[test]
fn record_names_the_remedy_for_a_program_with_its_own_malloc() {
    // -fno-builtin and the like are in the usual flags.
    let recording = record(compiled_with("private_allocator.c", &[MALLOC])).run();
    let recording = recording.ok();
    let warning = recording.stderr.lines().next().unwrap_or_default();
    assert!(
        warning.ends_with(
            "has an allocator of its own linked into it, whose blocks cannot be seen; \
             link it as a shared library or leave it out of the recorded build; \
             in Rust, wrap it in allotrope-client's Recorded"
        ),
        "{warning}"
    );
}

#[test]
fn doctor_names_the_same_remedies() {
    for (flags, what) in [
        (
            &[PRIVATE][..],
            "in C and C++, report its blocks with allotrope.h",
        ),
        (&[MALLOC][..], "link it as a shared library"),
    ] {
        let program = compiled_with("private_allocator.c", flags);
        allotrope(["doctor".as_ref(), program.as_os_str()]).has(what);
    }
}
