//! The threads of the replay, and whose turn it is. One thread at a time calls the allocator,
//! in the recorded order: each thread has a word on which it sleeps, and the thread whose turn
//! ends sets the word of the next. So no two can wait for each other.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use allotrope_replayer::{THREADS_AT_START, results};

use crate::pass::{Next, Pass, World};
use crate::system;

/// Values of a thread's word. 0: wait.
const GO: u32 = 1;
const END: u32 = 2;

/// Bytes of a thread's stack. Allocators need little.
const STACK: usize = 256 << 10;

/// A thread other than the first.
struct Worker {
    word: AtomicU32,
    number: u32,
    /// Created and not joined.
    runs: bool,
    handle: libc::pthread_t,
    turns: *const Turns<'static>,
}

struct Turns<'w> {
    /// Used by the thread whose turn it is.
    pass: UnsafeCell<Pass<'w>>,
    /// Workers by number; that of the first thread has only a word.
    workers: *mut Worker,
    count: u32,
    /// Threads that have started.
    started: AtomicU32,
    results: system::Words,
}

/// Replays with as many threads as the operations have. The error is a state.
pub fn replay(world: &World, pass: Pass<'_>) -> Result<(), u64> {
    let count = world.header.threads;
    let bytes = count as usize * size_of::<Worker>();
    let workers = system::own_memory(bytes).ok_or(results::STATE_NO_RESOURCES)?;
    let turns = Turns {
        pass: UnsafeCell::new(pass),
        workers: workers.cast(),
        count,
        started: AtomicU32::new(0),
        results: world.results,
    };
    for number in 0..count {
        let worker = Worker {
            word: AtomicU32::new(0),
            number,
            runs: false,
            handle: 0,
            turns: (&raw const turns).cast(),
        };
        // SAFETY: the table has so many places, and no thread exists yet.
        unsafe { turns.workers.add(number as usize).write(worker) };
    }
    for number in 1..count.min(THREADS_AT_START) {
        turns.create(number);
    }
    while turns.started.load(Ordering::Acquire) < count.min(THREADS_AT_START) - 1 {
        std::thread::yield_now();
    }
    turns.measure()
}

impl Turns<'_> {
    fn worker(&self, number: u32) -> *mut Worker {
        if number >= self.count {
            system::give_up(self.results, results::STATE_BAD_FILE);
        }
        // SAFETY: the number is within the table.
        unsafe { self.workers.add(number as usize) }
    }

    fn word(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the table stays, and of a word only shared references exist.
        unsafe { &(*self.worker(number)).word }
    }

    fn measure(&self) -> Result<(), u64> {
        let results = self.results;
        results.set(results::STATE, results::STATE_REPLAYING);
        results.set(results::DONE, 0);
        // SAFETY: the first thread has the first turn.
        unsafe { (*self.pass.get()).start_memory() };
        let (faults, preemptions) = system::usage();
        let (ticks, ns) = (system::ticks(), system::now_ns());
        self.take_turn(0);
        while system::wait(self.word(0)) == GO {
            self.word(0).store(0, Ordering::Relaxed);
            self.take_turn(0);
        }
        results.set(results::SPAN_TICKS, system::ticks() - ticks);
        results.set(results::SPAN_NS, system::now_ns() - ns);
        let (faults_after, preemptions_after) = system::usage();
        results.set(results::PAGE_FAULTS, faults_after - faults);
        results.set(results::PREEMPTIONS, preemptions_after - preemptions);
        // SAFETY: the others wait, and the end is the first thread's.
        let pass = unsafe { &*self.pass.get() };
        pass.finish();
        if pass.is_bad {
            return Err(results::STATE_BAD_FILE);
        }
        Ok(())
    }

    /// Replays this thread's operations, and gives the turn to the next thread.
    fn take_turn(&self, own: u32) {
        loop {
            // SAFETY: this thread has its turn. The reference ends before the turn does.
            let next = unsafe { (*self.pass.get()).advance(own) };
            match next {
                Next::Exit(thread) => self.end(thread),
                Next::Turn(thread) => {
                    self.results.add(results::SWITCHES, 1);
                    self.create(thread);
                    return system::wake(self.word(thread), GO);
                }
                Next::End => return system::wake(self.word(0), END),
            }
        }
    }

    /// Creates a thread, unless it exists.
    fn create(&self, number: u32) {
        let worker = self.worker(number);
        // SAFETY: only the thread whose turn it is uses these fields, and the functions get
        // places for their results. The table outlives all threads.
        unsafe {
            if number == 0 || (*worker).runs {
                return;
            }
            (*worker).word.store(0, Ordering::Relaxed);
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
            let created = libc::pthread_create(
                &raw mut (*worker).handle,
                &raw const attributes,
                work,
                worker.cast(),
            );
            if created != 0 {
                system::give_up(self.results, results::STATE_NO_RESOURCES);
            }
            (*worker).runs = true;
        }
    }

    /// Lets a waiting thread end, and waits until it has.
    fn end(&self, number: u32) {
        let worker = self.worker(number);
        // SAFETY: as in `create`. A thread is joined once.
        unsafe {
            if number == 0 || !(*worker).runs {
                return;
            }
            system::wake(&(*worker).word, END);
            libc::pthread_join((*worker).handle, ptr::null_mut());
            (*worker).runs = false;
        }
    }
}

/// The start of a thread.
extern "C" fn work(worker: *mut c_void) -> *mut c_void {
    let worker: *const Worker = worker.cast();
    // SAFETY: the worker and its turns outlive the thread; these fields do not change.
    let (word, own, turns) = unsafe { (&(*worker).word, (*worker).number, &*(*worker).turns) };
    turns.started.fetch_add(1, Ordering::Release);
    while system::wait(word) == GO {
        word.store(0, Ordering::Relaxed);
        turns.take_turn(own);
    }
    ptr::null_mut()
}
