//! Damaged files cost names, never a panic, whatever was damaged.

mod fixture;

use std::path::Path;
use std::time::{Duration, Instant};

use allotrope_symbols::{Locator, ModuleSymbols};
use fixture::{C_SOURCE, CPP_SOURCE, Program, compile, instructions};

/// Marsaglia's xorshift64: damage that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn read_all(path: &Path, addresses: &[u64]) -> usize {
    let locator = Locator::new();
    let Ok(symbols) = ModuleSymbols::load(&locator, path, &[], None) else {
        return 0;
    };
    let _ = symbols.unoptimised();
    let addresses: Vec<_> = addresses.iter().map(|address| (*address, true)).collect();
    let resolved = symbols.resolve(&addresses);
    assert_eq!(resolved.len(), addresses.len());
    resolved.iter().filter(|r| !r.frames.is_empty()).count()
}

/// Reads `count` copies, each changed by `damage`.
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
        // Not a measure of speed: work without bound would take hours.
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
