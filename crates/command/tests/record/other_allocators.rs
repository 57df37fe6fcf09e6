//! Allocators that the user preloads, recorded exactly, their C++ operators
//! included: `programs/allocator_operators.cc`.

use std::path::Path;

use crate::support::{compiled, compiled_with, record};

/// Where Debian puts the allocators, with the packages that bring them.
/// mimalloc is not among them: Debian's ends this program, recorded or not.
const ALLOCATORS: [(&str, &str); 2] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
];

fn expect_truth(preload: Option<&Path>) {
    let mut recording = record(compiled("allocator_operators.cc"));
    if let Some(library) = preload {
        recording = recording.env("LD_PRELOAD", library);
    }
    let report = recording.run().ok().report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    for (function, allocations, size) in [
        ("new_int", 100, 4),
        ("new_aligned", 50, 64),
        ("new_array", 20, 30),
        ("plain", 10, 7),
    ] {
        let found = process.under(function);
        let seen = (
            found.allocations,
            found.bytes,
            found.temporary,
            found.leaked,
        );
        let expected = (allocations, allocations * size, allocations, 0);
        assert_eq!(seen, expected, "{function}: {}", report.summary());
    }
}

#[test]
fn the_c_library() {
    expect_truth(None);
}

#[test]
fn preloaded_allocators() {
    for (file, package) in ALLOCATORS {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(file);
        if library.exists() {
            expect_truth(Some(&library));
        } else {
            println!("skipped {file}: install Debian's {package}");
        }
    }
}

/// A C program with mimalloc: `programs/showing.c` makes one block of 11 bytes.
#[test]
fn mimalloc() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2");
    if !library.exists() {
        return println!("skipped: install Debian's libmimalloc2.0");
    }
    let report = record(compiled("showing.c"))
        .env("LD_PRELOAD", library)
        .run()
        .code(5)
        .report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    let found = process.where_stack(|stack| stack[0]["function"] == "main");
    let seen = (found.allocations, found.bytes, found.temporary);
    assert_eq!(seen, (1, 11, 1), "{}", report.summary());
}

/// jemalloc's `mallocx` and its relatives: `programs/mallocx.c`.
#[test]
fn functions_that_only_jemalloc_has() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !library.exists() {
        return println!("skipped: install Debian's libjemalloc2");
    }
    let report = record(compiled("mallocx.c"))
        .env("LD_PRELOAD", library)
        .run()
        .ok()
        .report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    for (function, allocations, bytes, leaked) in [
        ("sized", 30, 30 * 24, 0),
        ("grown", 2, 100 + 5000, 0),
        ("aligned", 5, 5 * 48, 5),
    ] {
        let found = process.under(function);
        let seen = (found.allocations, found.bytes, found.leaked);
        assert_eq!(seen, (allocations, bytes, leaked), "{function}");
    }
    assert_eq!(process.total("reallocations"), 1);
}

/// An allocator that implements a function by another one, as glibc 2.43 does with
/// those of C23: `programs/sized.c`.
fn expect_sized_truth(form: &str, option: &str) {
    let library = compiled_with("sized_library.c", &["-shared", "-fPIC", form]);
    let program = compiled_with("sized.c", &["-fno-builtin", "-ldl"]);
    let report = record(program)
        .env("LD_PRELOAD", library)
        .option(option)
        .run()
        .ok()
        .report();
    let process = report.only();
    let printed = format!("{form} {option}: {}", report.summary());
    assert_eq!(process.number("lost_events"), 0, "{printed}");
    let found = ["allocations", "deallocations", "allocated_bytes"].map(|it| process.total(it));
    let bytes = 500_500 + 64_000 + 1600 + 12_800 + 300;
    assert_eq!(found, [1802, 1802, bytes], "{printed}");
}

#[test]
fn sized_deallocations_that_jump_to_free() {
    expect_sized_truth("-DJUMPING", "-q");
    expect_sized_truth("-DJUMPING", "--counts-only");
}

#[test]
fn sized_deallocations_that_call_free() {
    expect_sized_truth("-DCALLING", "-q");
    expect_sized_truth("-DCALLING", "--counts-only");
}

#[test]
fn sized_deallocations_of_their_own() {
    expect_sized_truth("-DSEPARATE", "-q");
    expect_sized_truth("-DSEPARATE", "--counts-only");
}

/// The recorder looks operators up at their first call. An error that the program has
/// not yet fetched with dlerror must survive this.
#[test]
fn an_error_of_dlsym_stays_the_programs_own() {
    for (library, package) in ALLOCATORS {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
        if !library.exists() {
            crate::support::skip(&format!("{package} is not installed"));
            continue;
        }
        let run = record(compiled("pending_error.cc")).env("LD_PRELOAD", &library);
        let plain = run.plain().ok();
        let recorded = run.run().ok();
        assert_eq!(recorded.text(), plain.text());
    }
}
