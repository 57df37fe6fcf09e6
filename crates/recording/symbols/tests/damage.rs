//! Damaged files lose names, but never cause a panic or unbounded work.

mod fixture;

use std::path::Path;
use std::time::{Duration, Instant};

use allotrope_symbols::{Locator, ModuleSymbols, Ran};
use fixture::{C_SOURCE, CPP_SOURCE, Program, compile, compile_in_parts, instructions};

/// Marsaglia's xorshift64, so that the damage is the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Resolves the addresses, and returns how many have frames.
fn read_all(path: &Path, addresses: &[u64]) -> usize {
    let locator = Locator::new();
    let Ok(symbols) = ModuleSymbols::load(&locator, path, &Ran::unverified(), None) else {
        return 0;
    };
    let _ = symbols.unoptimised();
    let addresses: Vec<_> = addresses.iter().map(|address| (*address, true)).collect();
    let resolved = symbols.resolve(&addresses);
    assert_eq!(resolved.len(), addresses.len());
    resolved.iter().filter(|r| !r.frames.is_empty()).count()
}

/// Resolves addresses with `count` copies of the program, each changed by `damage`.
fn damage(program: &Program, count: u64, mut damage: impl FnMut(&mut Vec<u8>, &mut Random)) {
    let original = std::fs::read(&program.path).unwrap();
    let Some(addresses) = instructions(&program.path, 7) else {
        return;
    };
    assert!(read_all(&program.path, &addresses) > 0);
    let copy = program.path.with_extension("copy");
    for seed in 1..=count {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = original.clone();
        damage(&mut bytes, &mut random);
        std::fs::write(&copy, bytes).unwrap();
        let start = Instant::now();
        read_all(&copy, &addresses);
        // Detects unbounded work, which would take hours; not a test of speed.
        assert!(start.elapsed() < Duration::from_secs(60), "seed {seed}");
    }
}

#[test]
fn truncated_files() {
    let Some(program) = compile("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    damage(&program, 200, |bytes, random| {
        let length = random.below(bytes.len());
        bytes.truncate(length);
    });
}

#[test]
fn files_with_flipped_bits() {
    for options in [&["-O2", "-g"][..], &["-O2", "-gdwarf-4", "-gz"]] {
        let Some(program) = compile("c++", options, "truth.cpp", CPP_SOURCE) else {
            return;
        };
        damage(&program, 100, |bytes, random| {
            for _ in 0..1 + random.below(200) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        });
    }
}

#[test]
fn files_with_damaged_headers() {
    let Some(program) = compile("cc", &["-O2", "-g"], "truth.c", C_SOURCE) else {
        return;
    };
    damage(&program, 300, |bytes, random| {
        // The ELF header and the table of sections, which ends the file.
        let table = bytes.len() - 64 * 30;
        for _ in 0..1 + random.below(4) {
            let at = match random.below(3) {
                0 => 16 + random.below(48),
                _ => table + random.below(64 * 30),
            };
            bytes[at] = [0, 1, 0x7f, 0xff, random.below(256) as u8][random.below(5)];
        }
    });
}

/// Resolves addresses of the program `count` times, each with another damage in the file
/// `beside` it, which contains its debug information.
fn damage_beside(program: &Program, beside: &Path, count: u64) {
    let Some(addresses) = instructions(&program.path, 5) else {
        return;
    };
    let original = std::fs::read(beside).unwrap();
    let expected = read_all(&program.path, &addresses);
    assert!(expected > 0);
    for seed in 1..=count {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = original.clone();
        if seed % 4 == 0 {
            bytes.truncate(random.below(original.len()));
        } else {
            for _ in 0..1 + random.below(60) {
                let at = random.below(bytes.len());
                bytes[at] = [0, 0xff, random.below(256) as u8][random.below(3)];
            }
        }
        std::fs::write(beside, bytes).unwrap();
        let start = Instant::now();
        // The symbol table still has names.
        let found = read_all(&program.path, &addresses);
        assert!(
            found * 10 >= expected * 9,
            "seed {seed}: {found} of {expected}"
        );
        assert!(start.elapsed() < Duration::from_secs(60), "seed {seed}");
    }
}

#[test]
fn damaged_split_files() {
    for (compiler, version) in [
        ("g++", "-gdwarf-5"),
        ("g++", "-gdwarf-4"),
        ("clang++", "-gdwarf-5"),
    ] {
        let options = ["-O2", version, "-gsplit-dwarf"];
        let program = compile_in_parts(compiler, &options, "truth.cpp", CPP_SOURCE);
        let Some(program) = program else { continue };
        let entries = std::fs::read_dir(program.path.parent().unwrap()).unwrap();
        let mut files = entries.map(|entry| entry.unwrap().path());
        let split = files.find(|path| path.extension().is_some_and(|it| it == "dwo"));
        damage_beside(&program, &split.unwrap(), 60);
    }
}

#[test]
fn damaged_packages() {
    let options = ["-O2", "-gdwarf-4", "-gsplit-dwarf"];
    let Some(program) = compile_in_parts("g++", &options, "truth.cpp", CPP_SOURCE) else {
        return;
    };
    let package = program.path.with_extension("dwp");
    let split = program.path.with_file_name("part.dwo");
    let (split_path, package_path) = (split.to_str().unwrap(), package.to_str().unwrap());
    if fixture::run("dwp", &[split_path, "-o", package_path]).is_none() {
        return;
    }
    std::fs::remove_file(&split).unwrap();
    damage_beside(&program, &package, 80);
}

#[test]
fn damaged_debug_files() {
    let options = ["-O2", "-g", "-gz", "-Wl,--build-id=none"];
    let Some(program) = compile("c++", &options, "truth.cpp", CPP_SOURCE) else {
        return;
    };
    let folder = program.path.parent().unwrap();
    let debug = folder.join("p.debug");
    let (path, debug_path) = (program.path.to_str().unwrap(), debug.to_str().unwrap());
    let split = fixture::run("objcopy", &["--only-keep-debug", path, debug_path])
        .and_then(|_| fixture::run("objcopy", &["--strip-debug", path]))
        .and_then(|_| fixture::run("objcopy", &["--add-gnu-debuglink", debug_path, path]));
    if split.is_some() {
        damage_beside(&program, &debug, 20);
    }
}
