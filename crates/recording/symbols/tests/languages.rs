//! Functions, files, lines, columns and inlined frames of programs in C, C++ and Rust.
//! The expected values are derived from the programs' sources.

mod fixture;

use allotrope_symbols::{FileIdentity, Locator, ModuleSymbols, NamedFrame, Ran, Resolved};
use std::collections::BTreeMap;

use fixture::{
    C_SOURCE, CPP_SOURCE, NEW_SOURCE, Program, RUST_SOURCE, compile, compile_in_parts,
    instructions, run,
};

/// Checks the frames at a mark. `expected` has, innermost first, the function, a text in
/// the frame's source line, and whether the frame is inlined.
fn check(program: &Program, mark: &str, expected: &[(&str, &str, bool)]) -> Vec<NamedFrame> {
    let frames = program.at(mark);
    let found: Vec<_> = frames
        .iter()
        .map(|frame| (&*frame.function, &*frame.file, frame.line, frame.inlined))
        .collect();
    let file = program.source_path.to_str().unwrap();
    let expected: Vec<_> = expected
        .iter()
        .map(|(function, text, inlined)| (*function, file, program.position(text).0, *inlined))
        .collect();
    assert_eq!(found, expected, "at {mark}");
    frames
}

#[test]
fn c_with_gcc_and_clang_and_every_dwarf_version() {
    for compiler in ["gcc", "clang"] {
        for version in ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
            for sections in ["-gz=none", "-gz=zlib"] {
                let options = ["-O2", version, sections];
                let Some(program) = compile(compiler, &options, "truth.c", C_SOURCE) else {
                    continue;
                };
                let inlined = check(
                    &program,
                    "mark_inner",
                    &[
                        ("inner", "MARK(mark_inner)", true),
                        ("middle", "call of inner", true),
                        ("outer", "call of middle", false),
                    ],
                );
                check(
                    &program,
                    "mark_outer",
                    &[("outer", "MARK(mark_outer)", false)],
                );
                check(
                    &program,
                    "mark_hidden",
                    &[("hidden", "MARK(mark_hidden)", false)],
                );
                assert_eq!(inlined[0].column, program.position("MARK(mark_inner)").1);
                assert_eq!(inlined[1].column, program.position("inner(x) + 1").1);
                assert_eq!(inlined[2].column, program.position("middle(x) - 1").1);
                assert_eq!(&*inlined[2].signature, "outer");
                let offset = program.address("mark_inner") - program.address("outer");
                assert!(inlined.iter().all(|frame| frame.offset == Some(offset)));
            }
        }
    }
}

#[test]
fn the_symbol_table_gives_function_and_offset_without_debug_information() {
    let Some(program) = compile("cc", &["-O2", "-g0"], "truth.c", C_SOURCE) else {
        return;
    };
    let expected = NamedFrame {
        function: "hidden".into(),
        signature: "hidden".into(),
        offset: Some(program.address("mark_hidden") - hidden_start(&program)),
        ..NamedFrame::default()
    };
    assert_eq!(program.at("mark_hidden"), [expected]);
    assert_eq!(program.load().unoptimised(), None);
}

/// The start of `hidden`. gcc may have renamed its symbol, with a suffix.
fn hidden_start(program: &Program) -> u64 {
    let symbols = run("nm", &[program.path.to_str().unwrap()]).unwrap();
    let mut lines = symbols.lines().map(|line| line.split_ascii_whitespace());
    let start = lines.find_map(|mut words| {
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        (name == "hidden" || name.starts_with("hidden.")).then_some(address)
    });
    u64::from_str_radix(start.unwrap(), 16).unwrap()
}

#[test]
fn a_return_address_is_looked_up_one_byte_earlier() {
    let Some(program) = compile("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    let mark = program.address("mark_inner");
    let start = program.address("outer");
    let found = program.load().resolve(&[
        (mark + 1, false),
        (mark, true),
        (start, false),
        (0, false),
        (u64::MAX, true),
        (0, true),
        (mark, true),
    ]);
    let [after, exact, before_start, no_address, beyond, zero, again] = &found[..] else {
        panic!("one answer for each address");
    };
    let functions = |resolved: &Resolved| -> Vec<_> {
        resolved
            .frames
            .iter()
            .map(|f| (f.function.clone(), f.line))
            .collect()
    };
    assert_eq!(functions(after), functions(exact));
    assert_eq!(
        after.frames[0].offset,
        exact.frames[0].offset.map(|it| it + 1)
    );
    assert_ne!(functions(before_start).last().map(|f| &*f.0), Some("outer"));
    assert_eq!(
        (no_address, beyond, zero),
        (
            &Resolved::default(),
            &Resolved::default(),
            &Resolved::default()
        )
    );
    assert_eq!(again, exact);
}

#[test]
fn cpp_with_gcc_and_clang() {
    let options = ["-O2", "-g", "-std=c++17"];
    for compiler in ["g++", "clang++"] {
        let Some(program) = compile(compiler, &options, "truth.cpp", CPP_SOURCE) else {
            continue;
        };
        let string =
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let shelf = format!("shop::Shelf<{string} >");
        assert_eq!(program.functions("mark_put"), [format!("{shelf}::put")]);
        assert_eq!(program.functions("mark_less"), ["shop::Key::operator<"]);
        let conversion = program.functions("mark_conversion");
        assert_eq!(conversion, [format!("shop::Key::operator {string}")]);

        let lambda = program.at("mark_lambda");
        let lines: Vec<u32> = lambda.iter().map(|frame| frame.line).collect();
        let line = |text| program.position(text).0;
        let each = line("for (auto &thing");
        let call = line("shelf.each(");
        assert_eq!(
            lines[..3],
            [line("MARK(mark_lambda)"), each, call],
            "{lambda:?}"
        );
        // gcc writes no linkage name of a lambda in a function that is not exported.
        let enclosing = "shop::(anonymous namespace)::count";
        let closure = lambda[0].function.strip_prefix(enclosing).unwrap();
        // clang calls such lambdas `$_1`.
        let known = closure.contains("{lambda") || closure.contains("::$_");
        assert!(known && closure.ends_with("::operator()"), "{lambda:?}");
        assert!(
            lambda[1].function.starts_with(&format!("{shelf}::each<")),
            "{lambda:?}"
        );
        assert_eq!(&*lambda[2].function, "shop::(anonymous namespace)::count");
        assert!(lambda[0].inlined && lambda[1].inlined);
    }
}

#[test]
fn cpp_names_are_the_same_without_debug_information() {
    let described = compile("c++", &["-O2", "-g", "-std=c++17"], "truth.cpp", CPP_SOURCE);
    let bare = compile(
        "c++",
        &["-O2", "-g0", "-std=c++17"],
        "truth.cpp",
        CPP_SOURCE,
    );
    let (Some(described), Some(bare)) = (described, bare) else {
        return;
    };
    for mark in ["mark_put", "mark_less", "mark_conversion"] {
        let (with, without) = (described.at(mark), bare.at(mark));
        assert_eq!(with[0].function, without[0].function);
        assert_eq!(with[0].signature, without[0].signature);
        assert_eq!(with[0].offset, without[0].offset);
    }
}

#[test]
fn rust() {
    let options = [
        "-g",
        "-Copt-level=2",
        "-Ccodegen-units=1",
        "--crate-name=truth",
        "--edition=2021",
    ];
    // Legacy names contain hashes, v0 names do not.
    for mangling in [None, Some("-Csymbol-mangling-version=v0")] {
        let options: Vec<&str> = options.into_iter().chain(mangling).collect();
        let Some(program) = compile("rustc", &options, "truth.rs", RUST_SOURCE) else {
            return;
        };
        check(
            &program,
            "mark_inner",
            &[
                ("truth::inner", "std::arch::asm!", true),
                ("truth::outer", "call of inner", false),
            ],
        );
        let count = program.functions("mark_count");
        let of_trait = "<truth::shop::Shelf<alloc::string::String> as truth::shop::Count>::count";
        assert_eq!(count.last().map(String::as_str), Some(of_trait));
        let closure = &program.functions("mark_closure")[0];
        let name = closure.strip_prefix("truth::main::{");
        assert!(
            name.is_some_and(|rest| rest.contains("closure")),
            "{closure}"
        );
    }
}

#[test]
fn optimisation_is_read_from_recorded_compiler_options() {
    for (compiler, options, expected) in [
        ("gcc", &["-g"][..], Some(true)),
        ("gcc", &["-g", "-O0"], Some(true)),
        ("gcc", &["-g", "-O2"], Some(false)),
        ("gcc", &["-g", "-Og"], Some(false)),
        ("gcc", &["-g", "-gno-record-gcc-switches"], None),
        ("clang", &["-g"], None),
        ("clang", &["-g", "-O0", "-grecord-command-line"], Some(true)),
        (
            "clang",
            &["-g", "-O2", "-grecord-command-line"],
            Some(false),
        ),
    ] {
        let Some(program) = compile(compiler, options, "truth.c", C_SOURCE) else {
            continue;
        };
        assert_eq!(
            program.load().unoptimised(),
            expected,
            "{compiler} {options:?}"
        );
    }
}

/// Sources of the command's tests that compile by themselves.
const PROGRAMS: [(&str, &[&str]); 3] = [
    (
        "clang",
        &[
            "figures",
            "threads",
            "entry_points",
            "metrics",
            "attribution",
        ],
    ),
    ("clang++", &["heavy"]),
    ("rustc", &["collections", "inlined_rust"]),
];

/// clang and rustc write no options: where the variables are shows that nothing was optimised.
/// Of 40 programs at all levels, none with optimisation is said to have none.
#[test]
fn builds_without_optimisation_are_recognised_by_their_variables() {
    let folder = std::path::Path::new("../../command/tests/programs");
    let slow = std::env::var_os("ALLOTROPE_SLOW").is_some();
    let (mut unoptimised, mut recognised, mut optimised) = (0, 0, 0);
    for (compiler, programs) in PROGRAMS {
        let (suffix, levels) = match compiler {
            "rustc" => ("rs", ["0", "1", "2", "3", "s"]),
            "clang++" => ("cc", ["0", "1", "2", "s", "g"]),
            _ => ("c", ["0", "1", "2", "s", "g"]),
        };
        let levels = if slow { &levels[..] } else { &levels[..2] };
        for program in &programs[..if slow { programs.len() } else { 1 }] {
            let source = std::fs::read_to_string(folder.join(format!("{program}.{suffix}")));
            let source = source.expect("the command has it").leak();
            for level in levels {
                let level_option = match compiler {
                    "rustc" => format!("-Copt-level={level}"),
                    _ => format!("-O{level}"),
                };
                let options = match compiler {
                    "rustc" => vec!["-g", &*level_option],
                    _ => vec!["-g", "-w", "-pthread", &*level_option],
                };
                let name = format!("{program}.{suffix}");
                let Some(program) = compile(compiler, &options, &name, source) else {
                    continue;
                };
                let found = program.load().unoptimised();
                eprintln!("{compiler} {name} {level_option}: {found:?}");
                match *level {
                    "0" => unoptimised += 1,
                    _ => optimised += 1,
                }
                assert!(
                    *level == "0" || found != Some(true),
                    "{name} {level_option}"
                );
                recognised += usize::from(found == Some(true));
            }
        }
    }
    eprintln!("{recognised} of {unoptimised} without optimisation, 0 of {optimised} with");
    assert_eq!(recognised, unoptimised);
}

#[test]
fn the_error_for_a_missing_module_names_its_path() {
    let path = std::path::Path::new("/nonexistent/module.so");
    let error = ModuleSymbols::load(
        &Locator::new(),
        path,
        &Ran::new(&[1, 2], FileIdentity::default()),
        None,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read /nonexistent/module.so: "),
        "{error}"
    );
}

/// The types of the blocks that functions allocate, with the bytes of an object.
fn allocated(program: &Program) -> BTreeMap<String, (String, u64)> {
    let addresses = instructions(&program.path, 1).expect("binutils come with the compiler");
    let returns: Vec<_> = addresses.into_iter().map(|it| (it, false)).collect();
    let symbols =
        ModuleSymbols::load(&Locator::new(), &program.path, &Ran::unverified(), None).unwrap();
    let resolved = symbols.resolve(&returns).into_iter();
    resolved
        .flat_map(|it| it.frames)
        .filter_map(|frame| {
            let of_type = frame.allocates?;
            let function = frame.function.to_string();
            assert_eq!(of_type.is_array, function == "make_counted");
            Some((function, (of_type.name.to_string(), of_type.object_bytes)))
        })
        .filter(|(function, _)| function.starts_with("make_"))
        .collect()
}

#[test]
fn blocks_of_new_have_the_class_of_their_constructor() {
    let expected = [
        ("make_point", "shop::Point", 16),
        ("make_apart", "shop::Apart", 40),
        ("make_named", "shop::Named", 32),
        // A base of the same size.
        ("make_derived", "shop::Derived", 16),
        ("make_counted", "shop::Counted", 8),
        ("make_nothrow", "shop::Box<int>", 4),
        // No constructor: `make_plain`, and `make_buffer`, where one follows that constructs
        // something else.
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(function, name, bytes)| (function.to_owned(), (name.to_owned(), bytes)))
        .collect();
    for compiler in ["g++", "clang++"] {
        for options in [
            &["-O0"][..],
            &["-O1"],
            &["-O2"],
            &["-O3", "-gdwarf-4"],
            &["-O2", "-fno-plt"],
            &["-O2", "-static"],
            &["-O0", "-fPIC", "-rdynamic"],
        ] {
            let options = [options, &["-g"]].concat();
            let Some(program) = compile(compiler, &options, "new.cpp", NEW_SOURCE) else {
                continue;
            };
            assert_eq!(allocated(&program), expected, "{compiler} {options:?}");
        }
        let split = ["-O2", "-g", "-gsplit-dwarf"];
        if let Some(program) = compile_in_parts(compiler, &split, "new.cpp", NEW_SOURCE) {
            assert_eq!(allocated(&program), expected, "{compiler} {split:?}");
        }
        let Some(bare) = compile(compiler, &["-O2", "-g1"], "new.cpp", NEW_SOURCE) else {
            continue;
        };
        assert!(allocated(&bare).is_empty(), "sizes are not known");
    }
}
