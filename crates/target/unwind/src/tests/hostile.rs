//! Hostile call frame information: that of real modules with random mutations, in memory
//! that is followed by an inaccessible page. Whatever it contains, the unwinder must not
//! panic, loop forever or read outside of it.
//!
//! For a long run: `ALLOTROPE_UNWIND_ROUNDS=10000000 cargo test --release
//! -p allotrope-unwind hostile`, with `ALLOTROPE_UNWIND_SEED` for another sequence.

use super::process::{Fenced, Random, load_cxx_library, loaded_modules, page_is_readable};
use crate::Module;
use crate::arch::{Frame, FrameAddress, rule_from_cfi, step, step_by_information};
use crate::memory::Memory;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(otherwise)
}

/// The bytes from `.eh_frame_hdr` on, some of `.eh_frame` among them.
fn sections(module: &Module) -> Vec<u8> {
    const MAX: u64 = 256 << 10;
    let bytes = (module.end - module.eh_frame_hdr).min(MAX);
    let mut memory = Memory::unknown(page_is_readable);
    (0..bytes)
        .map_while(|at| memory.read::<1>(module.eh_frame_hdr + at))
        .flatten()
        .collect()
}

fn mutate(bytes: &mut [u8], random: &mut Random) -> Vec<(usize, u8)> {
    const NOTABLE: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x0f, 0x10, 0x16];
    let pairs = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let table_end = (12 + 8 * pairs).min(bytes.len());
    (0..random.below(12) + 1)
        .map(|_| {
            // Most are in the entries, some in the header and its table.
            let at = match random.below(16) {
                0 => random.below(12) as usize,
                1 | 2 => random.below(table_end as u64) as usize,
                _ => {
                    let rest = (bytes.len() - table_end).max(1) as u64;
                    (table_end + random.below(rest) as usize).min(bytes.len() - 1)
                }
            };
            let before = bytes[at];
            bytes[at] = match random.below(3) {
                0 => NOTABLE[random.below(8) as usize],
                1 => before ^ 1 << random.below(8),
                _ => random.next() as u8,
            };
            (at, before)
        })
        .collect()
}

#[test]
fn hostile_call_frame_information_does_no_harm() {
    load_cxx_library();
    let rounds = number("ALLOTROPE_UNWIND_ROUNDS", 20_000);
    let mut random = Random(number("ALLOTROPE_UNWIND_SEED", 0x5eed) | 1);
    let stack: Vec<u64> = (0..4096).collect();
    let stack_start = stack.as_ptr() as u64;
    let modules = loaded_modules();
    for (_, module) in &modules {
        let original = sections(module);
        let mut fenced = Fenced::new(original.len());
        fenced.bytes().copy_from_slice(&original);
        let copy = Module {
            start: fenced.start,
            end: fenced.start + original.len() as u64,
            eh_frame_hdr: fenced.start,
        };
        let pairs = u64::from(u32::from_le_bytes(original[8..12].try_into().unwrap()));
        for _ in 0..rounds / modules.len() as u64 {
            let changes = mutate(fenced.bytes(), &mut random);
            for _ in 0..4 {
                // An address near the start of a function, or any address.
                let at = 12 + 8 * random.below(pairs.max(1)) as usize;
                let pair = original.get(at..at + 4).map_or(0, |first| {
                    i64::from(i32::from_le_bytes(first.try_into().unwrap()))
                });
                let address = match random.below(16) {
                    0 => random.next() >> 16,
                    _ => copy.start.wrapping_add_signed(pair) + random.below(64),
                };
                let frame = Frame {
                    stack_pointer: stack_start + 64,
                    code: FrameAddress::return_address(address + 1),
                    frame_pointer: stack_start + 8 * random.below(4096),
                };
                let mut memory = Memory::unknown(page_is_readable);
                let rule = rule_from_cfi(&copy, address, &mut memory);
                step(frame, rule, &mut memory);
                step_by_information(&copy, frame, &mut memory);
            }
            for (at, before) in changes.into_iter().rev() {
                fenced.bytes()[at] = before;
            }
        }
    }
}
