//! Tests the C and C++ header in programs linked in all usual ways. If a recorder (here
//! a stand-in, `programs/stub.c`) is in the process, the header must make the right calls
//! of it. Otherwise it must do nothing but call the measured function.

mod toolchain;

use toolchain::{Program, compile, run, stub, unavailable};

/// The log of the stand-in for `programs/calls.c`, in the order of the source.
const CALLS: &str = "\
open encode 1000 1
close 1 2
open trunc 0 4
close 2 0
opt_out 1
opt_out 0
allocation 0x1000 24 64
start 0x1000
end 77 0x2000 48
deallocation 0x2000
open measured 7 2
close 3 0
open measured 7 2
close 4 0
open measured 7 2
close 5 0
open unit 1 0
close 6 0
quiet 20 100
";
/// The output without a recorder: two warm-up calls and three runs.
const OUTPUT_ALONE: &str = "recording 0, quiet 1, called 5 times\n";
/// The output with the stand-in, which only counts and never finds the process quiet.
const OUTPUT_RECORDED: &str = "recording 2, quiet 0, called 5 times\n";

const C: [&str; 2] = ["calls.c", "unit.c"];
const WARNINGS: [&str; 6] = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Werror",
];

#[track_caller]
fn check_without_and_with_recorder(program: &Program) {
    assert_eq!(run(program, None).text, OUTPUT_ALONE, "{program:?}");
    let seen = run(program, Some(stub()));
    assert_eq!(seen.text, OUTPUT_RECORDED, "{program:?}");
    assert_eq!(seen.log, CALLS, "{program:?}");
}

/// Programs into which a recorder can be preloaded.
#[test]
fn dynamic_programs() {
    for compiler in ["gcc", "clang"] {
        for form in [
            &["-fPIE", "-pie"][..],
            &["-fno-pie", "-no-pie"],
            &["-fPIE", "-pie", "-fuse-ld=lld"],
            &["-fno-pie", "-no-pie", "-fuse-ld=lld"],
            &["-fno-plt", "-Wl,-z,now"],
            &["-fPIE", "-pie", "-fvisibility=hidden", "-Wl,--gc-sections"],
        ] {
            for level in ["-O0", "-O2"] {
                let flags = [&WARNINGS[..], form, &[level]].concat();
                match unavailable(compiler, &flags) {
                    Some(reason) => println!("skipped {compiler} {form:?}: {reason}"),
                    None => check_without_and_with_recorder(&compile(compiler, &C, &flags)),
                }
            }
        }
    }
    let flags = ["-O2", "-flto"];
    check_without_and_with_recorder(&compile("gcc", &C, &flags));
}

/// Programs into which nothing can be preloaded. They must link without `-ldl` and find
/// no recorder.
#[test]
fn static_programs() {
    for compiler in ["gcc", "clang"] {
        for form in [
            &["-static"][..],
            &["-static-pie"],
            &["-static", "-fno-pie"],
            &["-static", "-fuse-ld=lld"],
            &["-static-pie", "-fPIE", "-fuse-ld=lld"],
        ] {
            let flags = [&WARNINGS[..], form, &["-O1"]].concat();
            if let Some(reason) = unavailable(compiler, &flags) {
                println!("skipped {compiler} {form:?}: {reason}");
                continue;
            }
            let program = compile(compiler, &C, &flags);
            for preload in [None, Some(stub())] {
                let seen = run(&program, preload);
                assert_eq!(seen.text, OUTPUT_ALONE, "{program:?}");
                assert_eq!(seen.log, "", "{program:?}");
            }
        }
    }
}

#[test]
fn musl_programs() {
    for flags in [&["-O1"][..], &["-O1", "-static"]] {
        match unavailable("musl-gcc", flags) {
            Some(reason) => println!("skipped musl-gcc: {reason}"),
            None => assert_eq!(
                run(&compile("musl-gcc", &C, flags), None).text,
                OUTPUT_ALONE
            ),
        }
    }
}

#[test]
fn every_standard_of_c_without_a_warning() {
    for compiler in ["gcc", "clang"] {
        for standard in ["c99", "gnu99", "c11", "c17", "c2x"] {
            let standard = format!("-std={standard}");
            let more = ["-Wshadow", "-Wcast-qual", "-Wstrict-prototypes", "-Wundef"];
            let flags = [&WARNINGS[..], &more, &[&standard, "-O1"]].concat();
            match unavailable(compiler, &flags) {
                Some(reason) => println!("skipped {compiler} {standard}: {reason}"),
                None => drop(compile(compiler, &C, &flags)),
            }
        }
    }
}

/// The log of the stand-in for `programs/calls.cc`.
const CXX_CALLS: &str = "\
open one 5 2
close 1 0
open nothing 6 2
close 2 0
open runs 7 2
close 3 0
open runs 7 2
close 4 0
open outer 0 0
open inner 8 1
close 5 0
opt_out 1
opt_out 0
close 6 2
open throws 1 2
close 7 0
";

/// The output of `programs/calls.cc`. The calls: 1 of `one`, 1 of `nothing`, 1 warm-up
/// and 2 `runs`; 100 are added for the exception.
const CXX_OUTPUT: &str = "called 105 times, result 1, dlsym 1\n";

#[test]
fn every_standard_of_cxx_without_a_warning() {
    for compiler in ["g++", "clang++"] {
        for standard in ["c++11", "c++14", "c++17", "c++20", "c++2b"] {
            let standard = format!("-std={standard}");
            let more = [
                "-Wshadow",
                "-Wold-style-cast",
                "-Wzero-as-null-pointer-constant",
                "-O1",
            ];
            let flags = [&WARNINGS[..], &more, &[&standard]].concat();
            if let Some(reason) = unavailable(compiler, &flags) {
                println!("skipped {compiler} {standard}: {reason}");
                continue;
            }
            let program = compile(compiler, &["calls.cc"], &flags);
            let alone = run(&program, None);
            assert_eq!(alone.text, CXX_OUTPUT, "{program:?}");
            let seen = run(&program, Some(stub()));
            assert_eq!(seen.text, CXX_OUTPUT, "{program:?}");
            assert_eq!(seen.log, CXX_CALLS, "{program:?}");
        }
    }
}

/// Some wrappers include the header within `extern "C"` by mistake.
#[test]
fn included_within_extern_c() {
    let text = "extern \"C\" {\n#include <allotrope.h>\n}\n\
                int main() { return allotrope::measure(\"x\", 1, [] { return 0; }); }\n";
    let program = toolchain::compile_text("g++", "wrapped.cc", text, &["-std=c++11"]);
    assert_eq!(run(&program, None).text, "");
}

#[test]
fn environment_variables_take_precedence_over_arguments() {
    let program = compile("cc", &C, &["-O1"]);
    let called = |variables: &[(&str, &str)]| {
        let seen = toolchain::run_with(&program, Some(stub()), variables);
        let windows = seen.log.lines().filter(|l| l.starts_with("open measured"));
        let windows: Vec<&str> = windows.collect();
        let calls = seen
            .text
            .rsplit_once("called ")
            .expect("calls.c prints it")
            .1;
        (calls.trim_end().to_owned(), windows.join(", "))
    };
    let both = called(&[("ALLOTROPE_WARMUP", "0"), ("ALLOTROPE_RUNS", "2")]);
    let two = "open measured 7 2, open measured 7 2".to_owned();
    assert_eq!(both, ("2 times".to_owned(), two));
    // At least one run; flag 4 is added to flag 2, which is always set.
    let none = called(&[
        ("ALLOTROPE_WARMUP", "0"),
        ("ALLOTROPE_RUNS", "0"),
        ("ALLOTROPE_WINDOW_FLAGS", "4"),
    ]);
    assert_eq!(none, ("1 times".to_owned(), "open measured 7 6".to_owned()));
    for nonsense in ["", "-1", "4294967296", "2x", " 2"] {
        let (calls, _) = called(&[("ALLOTROPE_RUNS", nonsense)]);
        assert_eq!(calls, "5 times", "{nonsense:?}");
    }
}

#[test]
fn the_programs_own_reference_to_dlsym_stays_strong() {
    for flags in [&["-O1"][..], &["-O1", "-static", "-w"]] {
        // The linker warns about dlsym in every static program.
        let program = compile("gcc", &["own_dlsym.c", "unit.c"], flags);
        assert_eq!(run(&program, None).text, "dlsym 1, window 0\n", "{flags:?}");
    }
}

#[test]
fn with_allotrope_disable_defined() {
    for compiler in ["gcc", "clang"] {
        let flags = [&WARNINGS[..], &["-DALLOTROPE_DISABLE", "-std=c99"]].concat();
        if let Some(reason) = unavailable(compiler, &flags) {
            println!("skipped {compiler}: {reason}");
            continue;
        }
        let program = compile(compiler, &["disabled.c"], &flags);
        let seen = run(&program, Some(stub()));
        assert_eq!(seen.text, "called 5 times, window 0, quiet 1\n");
        assert_eq!(seen.log, "");
    }
}

#[test]
fn a_shared_library_uses_the_header_and_the_program_does_not() {
    let library = compile("cc", &["unit.c"], &["-shared", "-fPIC", "-O1"]);
    let text = "void calls_of_another_unit(void);\n\
                int main(void) { calls_of_another_unit(); return 0; }\n";
    let path = library.path.display().to_string();
    let program = toolchain::compile_text("cc", "uses.c", text, &[&path]);
    assert_eq!(run(&program, None).log, "");
    let seen = run(&program, Some(stub()));
    assert_eq!(seen.log, "open unit 1 0\nclose 1 0\n");
}

/// Parses the module map with clang, as Swift's importer does.
#[test]
fn the_module_map() {
    if let Some(reason) = unavailable("clang", &[]) {
        return println!("skipped: {reason}");
    }
    let text = "#pragma clang module import Allotrope\n\
                int main(void) { return (int)allotrope_open(\"module\", 1, ALLOTROPE_THIS_THREAD); }\n";
    let map = format!(
        "-fmodule-map-file={}/module.modulemap",
        toolchain::include_folder().display()
    );
    let flags = ["-fmodules", &map, "-std=c11", "-Wall", "-Wextra", "-Werror"];
    let program = toolchain::compile_text("clang", "module.c", text, &flags);
    assert_eq!(run(&program, None).text, "");
}
