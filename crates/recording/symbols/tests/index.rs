//! Indexes: they give the same frames as the debug information, in all fields, and a
//! damaged or missing index costs time, never a name.

mod fixture;

use std::fs;
use std::path::PathBuf;

use allotrope_symbols::{IndexCache, Locator, ModuleSymbols, Ran, Resolved};
use fixture::{C_SOURCE, CPP_SOURCE, NEW_SOURCE, Program, RUST_SOURCE, compile, instructions};

fn program(compiler: &str, options: &[&str], name: &str, source: &'static str) -> Option<Program> {
    let link = match compiler {
        "rustc" => "-Clink-arg=-Wl,--build-id=sha1",
        _ => "-Wl,--build-id=sha1",
    };
    compile(compiler, &[options, &[link]].concat(), name, source)
}

/// The frames of every instruction's address, taken both as an exact address and as a
/// return address, and of addresses outside of all code.
fn frames_of_all(program: &Program, locator: &Locator) -> Vec<Resolved> {
    let addresses = instructions(&program.path, 1).expect("binutils come with the compiler");
    let both = addresses.iter().flat_map(|it| [(*it, true), (*it, false)]);
    let outside = [0, 1, 0x10, u64::from(u32::MAX), u64::MAX];
    let outside = outside.into_iter().flat_map(|it| [(it, true), (it, false)]);
    let all: Vec<_> = outside.chain(both).collect();
    let symbols = ModuleSymbols::load(locator, &program.path, &Ran::unverified(), None).unwrap();
    let resolved = symbols.resolve(&all);
    assert_eq!(resolved.len(), all.len());
    resolved
}

fn cache(folder: &tempfile::TempDir) -> (IndexCache, Locator) {
    let cache = IndexCache::at(folder.path()).with_least_size(0);
    (cache.clone(), Locator::new().with_index_cache(cache))
}

fn files(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_index_gives_the_frames_of_the_debug_information() {
    for (compiler, options, name, source) in [
        ("cc", &["-O2", "-g"][..], "truth.c", C_SOURCE),
        ("c++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE),
        ("c++", &["-O0", "-gdwarf-4"], "truth.cpp", CPP_SOURCE),
        ("c++", &["-O3", "-g", "-flto"], "truth.cpp", CPP_SOURCE),
        ("clang++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE),
        (
            "clang++",
            &["-O2", "-gline-tables-only"],
            "truth.cpp",
            CPP_SOURCE,
        ),
        ("c++", &["-O0", "-g"], "new.cpp", NEW_SOURCE),
        ("clang++", &["-O2", "-g"], "new.cpp", NEW_SOURCE),
        ("rustc", &["-g", "-Copt-level=3"], "truth.rs", RUST_SOURCE),
    ] {
        let Some(program) = program(compiler, options, name, source) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let (_, locator) = cache(&folder);
        let expected = frames_of_all(&program, &Locator::new());
        assert_eq!(
            frames_of_all(&program, &locator),
            expected,
            "{compiler} {options:?}, written"
        );
        assert_eq!(files(&folder).len(), 1, "{compiler} {options:?}");
        assert_eq!(
            frames_of_all(&program, &locator),
            expected,
            "{compiler} {options:?}, read"
        );
        let unoptimised = |locator: &Locator| {
            let symbols = ModuleSymbols::load(locator, &program.path, &Ran::unverified(), None);
            symbols.unwrap().unoptimised()
        };
        assert_eq!(unoptimised(&locator), unoptimised(&Locator::new()));
    }
}

/// clang writes MD5 sums of sources into DWARF 5, gcc does not.
#[test]
fn an_index_has_the_sums_of_the_sources() {
    for (compiler, options, has_sums) in [
        ("clang", &["-O1", "-gdwarf-5"][..], true),
        ("clang", &["-O1", "-gdwarf-4"], false),
        ("cc", &["-O1", "-gdwarf-5"], false),
    ] {
        let Some(program) = program(compiler, options, "truth.c", C_SOURCE) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let (_, locator) = cache(&folder);
        let sums = |locator: &Locator| {
            let symbols = ModuleSymbols::load(locator, &program.path, &Ran::unverified(), None);
            let symbols = symbols.unwrap();
            let addresses = instructions(&program.path, 1).unwrap();
            let addresses: Vec<(u64, bool)> = addresses.iter().map(|it| (*it, true)).collect();
            symbols.resolve(&addresses);
            symbols.source_sums()
        };
        let expected = sums(&Locator::new());
        let of_source = expected.iter().find(|(path, _)| path.ends_with("truth.c"));
        let md5 = *md5::compute(C_SOURCE);
        let found = of_source.map(|(_, found)| *found);
        assert_eq!(found, has_sums.then_some(md5), "{compiler} {options:?}");
        assert_eq!(sums(&locator), expected, "{compiler} {options:?}, written");
        assert_eq!(files(&folder).len(), 1);
        assert_eq!(sums(&locator), expected, "{compiler} {options:?}, read");
    }
}

#[test]
fn an_index_is_used_without_the_debug_file() {
    let Some(program) = program("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, locator) = cache(&folder);
    let expected = frames_of_all(&program, &locator);
    let path = program.path.to_str().unwrap();
    fixture::run("objcopy", &["--strip-all", path]).unwrap();
    assert_eq!(frames_of_all(&program, &locator), expected);
}

#[test]
fn a_damaged_index_is_written_again() {
    let Some(program) = program("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, locator) = cache(&folder);
    let expected = frames_of_all(&program, &locator);
    let path = files(&folder).remove(0);
    let whole = fs::read(&path).unwrap();
    let step = (whole.len() / 30).max(1);
    // Bytes in all parts of the header, and some of the rest.
    for at in (0..200).step_by(5).chain((200..whole.len()).step_by(step)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(frames_of_all(&program, &locator), expected, "byte {at}");
        assert_eq!(
            fs::read(&path).unwrap(),
            whole,
            "not written again after byte {at}"
        );
    }
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(
            frames_of_all(&program, &locator),
            expected,
            "cut at {length}"
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
    assert_eq!(frames_of_all(&program, &locator), expected);
}

#[test]
fn names_are_found_if_no_index_can_be_stored() {
    let Some(program) = program("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    let expected = frames_of_all(&program, &Locator::new());
    // There is a file at the folder's path.
    let blocked = IndexCache::at(&program.source_path).with_least_size(0);
    let locator = Locator::new().with_index_cache(blocked);
    assert_eq!(frames_of_all(&program, &locator), expected);
    // The index is larger than the limit of the cache.
    let folder = tempfile::tempdir().unwrap();
    let (cache, _) = cache(&folder);
    let locator = Locator::new().with_index_cache(cache.with_limit(10));
    assert_eq!(frames_of_all(&program, &locator), expected);
    assert_eq!(files(&folder).len(), 0);
}

#[test]
fn several_threads_can_use_one_cache() {
    let Some(program) = program("c++", &["-O2", "-g"], "truth.cpp", CPP_SOURCE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, locator) = cache(&folder);
    let expected = frames_of_all(&program, &Locator::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (program, locator, expected) = (&program, &locator, &expected);
            let folder = &folder;
            scope.spawn(move || {
                for round in 0..6 {
                    assert_eq!(&frames_of_all(program, locator), expected);
                    if (thread + round) % 3 == 0 {
                        for path in files(folder) {
                            let _ = fs::remove_file(path);
                        }
                    }
                }
            });
        }
    });
    let left = files(&folder);
    let partial = left
        .iter()
        .filter(|it| it.extension().is_some_and(|it| it == "partial"));
    assert_eq!(partial.count(), 0, "{left:?}");
}

#[test]
fn modules_with_little_debug_information_or_no_build_id_get_no_index() {
    let Some(program) = program("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let small = Locator::new().with_index_cache(IndexCache::at(folder.path()));
    frames_of_all(&program, &small);
    let anonymous = compile("cc", &["-g", "-Wl,--build-id=none"], "truth.c", C_SOURCE).unwrap();
    frames_of_all(&anonymous, &cache(&folder).1);
    assert_eq!(files(&folder).len(), 0);
}
