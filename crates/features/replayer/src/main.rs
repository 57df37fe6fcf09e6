//! The replayer: a program that calls the allocator that it was started with as a recorded
//! program did. The library of this package describes its files, its steps and the hook for
//! tracers; `replay` of `allotrope-allocators` starts it and reads its results.
//!
//! It must not call the allocator itself. So `main` is C's, which leaves out the runtime of
//! Rust's standard library; memory comes from mmap(2); and nothing panics on purpose, because
//! a panic's message allocates. All `unsafe` of the replay is in this program: it calls C
//! functions and follows pointers that they returned.
#![no_main]

mod bench;
mod calls;
mod counters;
mod environment;
mod memory;
mod pass;
mod stepped;
mod system;
mod threads;

use std::ffi::{CStr, c_char, c_int};

use allotrope_replayer::operations::{HEADER_BYTES, Header};
use allotrope_replayer::results;

use pass::{Kind, Pass, World};
use system::Words;

/// The program's start.
///
/// # Safety
///
/// The C library calls it once, with arguments as C defines them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: this is the only thread, and the arguments are those of C's main.
    unsafe { environment::replace(count, arguments) };
    // SAFETY: this is the only thread, and the arguments are those of C's main.
    unsafe { system::disable_address_randomisation(arguments) };
    system::end_with_parent();
    let argument = |at: c_int| {
        // SAFETY: there are `count` arguments, strings that live as long as the program.
        (at < count).then(|| unsafe { CStr::from_ptr(*arguments.add(at as usize)) })
    };
    let (Some(operations), Some(wanted)) = (argument(1), argument(2)) else {
        system::print(c"usage: allotrope-replayer OPERATIONS RESULTS [SAMPLES]\n");
        return 2;
    };
    let Some(results) = system::open_results(wanted) else {
        system::print(c"allotrope-replayer: cannot map the results file\n");
        return 2;
    };
    match replay(operations, argument(3), results) {
        Ok(()) => results.set(results::STATE, results::STATE_DONE),
        Err(state) => results.set(results::STATE, state),
    }
    // Destructors of the allocator would run in `exit`, and could undo what was measured.
    system::exit_now(0)
}

/// Replays all operations. The error is a state.
fn replay(operations: &CStr, samples: Option<&CStr>, results: Words) -> Result<(), u64> {
    results.set(results::STATE, results::STATE_PREPARING);
    write_path(results);
    if results.get(results::MODE) == results::MODE_BENCH {
        return bench::run(results);
    }
    let file = system::open(operations).ok_or(results::STATE_BAD_FILE)?;
    let samples = match samples {
        Some(path) => Some(system::open(path).ok_or(results::STATE_BAD_FILE)?),
        None => None,
    };
    let header = read_header(file).ok_or(results::STATE_BAD_FILE)?;
    if header.threads == 1 && results.get(results::PROCESSOR) > 0 {
        system::run_on(results.get(results::PROCESSOR) - 1);
    }
    let world = World::new(file, samples, &header, results).ok_or(results::STATE_NO_RESOURCES)?;
    let mode = results.get(results::MODE);
    if mode == results::MODE_LATENCY {
        results.set(results::CLOCK_STEP, system::tick_step());
    }
    if mode != results::MODE_STEPPED {
        results.set(results::STATE, results::STATE_NULL_LOOP);
        let mut null = Pass::new(&world, Kind::Null);
        null.run_alone();
        if null.is_bad {
            return Err(results::STATE_BAD_FILE);
        }
        results.set(results::NULL_TIME, null.time);
        world.clear_slots();
    }
    let pass = Pass::new(&world, Kind::Real);
    threads::replay(&world, pass)
}

fn read_header(file: c_int) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    system::read_at(file, &mut bytes, 0)?;
    let header = Header::from_bytes(&bytes)?;
    let threads = 1..=allotrope_replayer::operations::MAX_THREADS;
    threads.contains(&header.threads).then_some(header)
}

/// Writes the path of the library with `malloc` to the results, so that the caller sees
/// whether the allocator was really loaded.
fn write_path(results: Words) {
    let Some(path) = system::library_of(libc::malloc as *const libc::c_void) else {
        return;
    };
    let bytes = path.to_bytes();
    let longest = (results::PATH_WORDS - 1) * 8;
    for (at, chunk) in bytes[..bytes.len().min(longest)].chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        results.set(results::PATH + at, u64::from_le_bytes(word));
    }
}
