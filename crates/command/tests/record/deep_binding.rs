//! Libraries opened with `RTLD_DEEPBIND` are recorded like all others, and their symbols
//! are bound to the same functions as without a recording: `programs/deep_binding.c`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Process, Text, allotrope, compiled, compiled_with, record, skip};

fn library() -> PathBuf {
    compiled_with("deep_library.c", &["-shared", "-fPIC", "-fno-builtin"])
}

fn program() -> PathBuf {
    // -rdynamic exports its function `choice`.
    compiled_with("deep_binding.c", &["-rdynamic", "-fno-builtin", "-ldl"])
}

fn expect_truth(process: &Process<'_>, printed: &str) {
    assert_eq!(process.number("lost_events"), 0, "{printed}");
    for (function, allocations, size) in [
        ("constructed", 2, 10),
        ("library_makes", 600, 20),
        ("program_makes", 600, 30),
        ("library_clears", 600, 80),
        ("program_grows", 600, 50),
        ("library_grows", 600, 60),
        ("library_aligns", 600, 70),
    ] {
        let found = process.under(function);
        let seen = (found.allocations, found.bytes, found.leaked);
        assert_eq!(
            seen,
            (allocations, allocations * size, 0),
            "{function}: {printed}"
        );
    }
    // Only blocks that the loader keeps are left, and every deallocation has an
    // allocation.
    let [made, given, left] =
        ["allocations", "deallocations", "leaked_allocations"].map(|it| process.total(it));
    assert_eq!(made, given + left, "{printed}");
}

#[test]
fn blocks_that_cross_over() {
    for bound in ["lazy", "now"] {
        let report = record(program())
            .arg(bound)
            .arg(library())
            .run()
            .ok()
            .report();
        expect_truth(&report.only(), &format!("{bound}: {}", report.summary()));
    }
}

#[test]
fn they_are_counted_without_stacks() {
    let totals = |option: &str| {
        let report = record(program())
            .option(option)
            .arg("lazy")
            .arg(library())
            .run()
            .ok()
            .report();
        let process = report.only();
        ["allocations", "allocated_bytes", "deallocations"].map(|it| process.total(it))
    };
    assert_eq!(totals("-q"), totals("--counts-only"));
}

/// With another allocator preloaded, the library still calls that of the C library, as
/// without a recording. The report says that those blocks are not recorded.
#[test]
fn beside_another_allocator() {
    let jemalloc = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !jemalloc.exists() {
        return skip("install Debian's libjemalloc2");
    }
    let recording = record(compiled("deep_alone.c"))
        .arg(library())
        .env("LD_PRELOAD", jemalloc)
        .run()
        .ok();
    let report = recording.report();
    let process = report.only();
    assert_eq!(process.under("library_makes").allocations, 0);
    assert_eq!(process.under("program_makes").allocations, 300);
    let text = allotrope([
        "report".as_ref(),
        "--lists".as_ref(),
        recording.trace.as_os_str(),
    ])
    .text();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.has("libraries that it opened with RTLD_DEEPBIND");
}

/// PHP opens its extensions with RTLD_DEEPBIND. This one frees blocks that PHP made.
#[test]
fn an_extension_of_php() {
    const CODE: &str =
        r#"for ($i = 0; $i < 500; $i++) FFI::new("char[100]", true, true); exit(7);"#;
    let php = Command::new("php")
        .args(["-n", "-r", "echo PHP_EXTENSION_DIR;"])
        .output();
    let folder = match php {
        Ok(output) if output.status.success() => {
            PathBuf::from(String::from_utf8(output.stdout).expect("a path"))
        }
        _ => return skip("php is not here (Debian package php-cli)"),
    };
    if !folder.join("ffi.so").exists() {
        return skip("php has no extension ffi here");
    }
    let report = record("php")
        .args(["-n", "-d", "extension=ffi.so", "-d", "ffi.enable=1"])
        .args(["-r", CODE])
        .run()
        .code(7)
        .report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    let [made, given, left] =
        ["allocations", "deallocations", "leaked_allocations"].map(|it| process.total(it));
    assert_eq!(made, given + left, "{}", report.summary());
    assert!(made > 500, "{}", report.summary());
}
