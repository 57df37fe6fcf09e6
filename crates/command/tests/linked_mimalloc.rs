//! mimalloc as the global allocator of a Rust program that knows nothing of Allotrope:
//! every call is recorded, those of mimalloc's own functions too.

mod recorded;
mod support;

use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use mimalloc::MiMalloc;
use support::{Text, allotrope};

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

type Heap = *mut c_void;

unsafe extern "C" {
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_calloc(count: usize, size: usize) -> *mut c_void;
    fn mi_mallocn(count: usize, size: usize) -> *mut c_void;
    fn mi_malloc_small(size: usize) -> *mut c_void;
    fn mi_zalloc_small(size: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn mi_reallocn(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn mi_reallocf(block: *mut c_void, size: usize) -> *mut c_void;
    fn mi_rezalloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn mi_recalloc(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn mi_free(block: *mut c_void);
    fn mi_free_size(block: *mut c_void, size: usize);
    fn mi_free_size_aligned(block: *mut c_void, size: usize, alignment: usize);
    fn mi_malloc_aligned(size: usize, alignment: usize) -> *mut c_void;
    fn mi_zalloc_aligned(size: usize, alignment: usize) -> *mut c_void;
    fn mi_calloc_aligned(count: usize, size: usize, alignment: usize) -> *mut c_void;
    fn mi_realloc_aligned(block: *mut c_void, size: usize, alignment: usize) -> *mut c_void;
    fn mi_posix_memalign(into: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    fn mi_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn mi_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    fn mi_new(size: usize) -> *mut c_void;
    fn mi_new_nothrow(size: usize) -> *mut c_void;
    fn mi_strdup(text: *const c_char) -> *mut c_void;
    fn mi_strndup(text: *const c_char, length: usize) -> *mut c_void;
    fn mi_heap_new() -> Heap;
    fn mi_heap_delete(heap: Heap);
    fn mi_heap_malloc(heap: Heap, size: usize) -> *mut c_void;
    fn mi_heap_zalloc(heap: Heap, size: usize) -> *mut c_void;
    fn mi_heap_calloc(heap: Heap, count: usize, size: usize) -> *mut c_void;
    fn mi_heap_malloc_aligned(heap: Heap, size: usize, alignment: usize) -> *mut c_void;
    fn mi_heap_realloc(heap: Heap, block: *mut c_void, size: usize) -> *mut c_void;
}

static HEAP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Cases: a function, how many blocks it makes and of how many bytes in all, and what it
/// does. All blocks are freed.
macro_rules! cases {
    ($($name:ident, $allocations:literal, $bytes:literal: $body:block)*) => {
        $(
            #[inline(never)]
            fn $name() {
                // SAFETY: what is freed was allocated, and freed once.
                unsafe { $body }
            }
        )*

        const TRUTH: &[(&str, u64, u64)] = &[$((stringify!($name), $allocations, $bytes)),*];

        #[test]
        fn the_functions() {
            // A block of its own, too.
            // SAFETY: it takes nothing.
            HEAP.store(unsafe { mi_heap_new() }, Relaxed);
            $($name();)*
            // SAFETY: it was made above.
            unsafe { mi_heap_delete(HEAP.load(Relaxed)) };
        }
    };
}

cases! {
    malloc_of_mimalloc, 100, 700: {
        for _ in 0..100 {
            mi_free(black_box(mi_malloc(7)));
        }
        mi_free(null_mut());
    }
    zeroed_of_mimalloc, 6, 90: {
        for _ in 0..2 {
            mi_free(black_box(mi_zalloc(10)));
            mi_free(black_box(mi_calloc(3, 5)));
            mi_free(black_box(mi_zalloc_small(20)));
        }
    }
    small_and_many, 2, 46: {
        mi_free(black_box(mi_malloc_small(16)));
        mi_free(black_box(mi_mallocn(5, 6)));
    }
    grown_of_mimalloc, 7, 10_600: {
        let mut block = black_box(mi_realloc(null_mut(), 100));
        block = black_box(mi_realloc(block, 1000));
        block = black_box(mi_reallocn(block, 10, 200));
        block = black_box(mi_reallocf(block, 3000));
        block = black_box(mi_rezalloc(block, 4000));
        block = black_box(mi_recalloc(block, 4, 25));
        // It fails, and the block stays.
        assert!(mi_realloc(block, usize::MAX / 4).is_null());
        block = black_box(mi_realloc_aligned(block, 400, 64));
        mi_free(block);
    }
    freed_by_failure, 1, 40: {
        let block = black_box(mi_malloc(40));
        assert!(mi_reallocf(block, usize::MAX / 4).is_null());
    }
    aligned_of_mimalloc, 6, 600: {
        mi_free_size_aligned(black_box(mi_malloc_aligned(100, 64)), 100, 64);
        mi_free_size(black_box(mi_zalloc_aligned(100, 8)), 100);
        mi_free(black_box(mi_calloc_aligned(5, 20, 4096)));
        mi_free(black_box(mi_memalign(128, 100)));
        mi_free(black_box(mi_aligned_alloc(32, 100)));
        let mut block = null_mut();
        assert_eq!(mi_posix_memalign(&mut block, 256, 100), 0);
        mi_free(black_box(block));
    }
    operators_of_mimalloc, 2, 33: {
        mi_free(black_box(mi_new(22)));
        mi_free(black_box(mi_new_nothrow(11)));
    }
    strings_of_mimalloc, 2, 10: {
        mi_free(black_box(mi_strdup(c"12345".as_ptr())));
        mi_free(black_box(mi_strndup(c"12345".as_ptr(), 3)));
    }
    heaps_of_mimalloc, 6, 290: {
        let heap = HEAP.load(Relaxed);
        mi_free(black_box(mi_heap_malloc(heap, 10)));
        mi_free(black_box(mi_heap_zalloc(heap, 20)));
        mi_free(black_box(mi_heap_calloc(heap, 6, 5)));
        mi_free(black_box(mi_heap_malloc_aligned(heap, 40, 64)));
        let block = black_box(mi_heap_realloc(heap, null_mut(), 90));
        mi_free(black_box(mi_heap_realloc(heap, block, 100)));
    }
}

#[test]
fn every_function_is_recorded() {
    let program = std::env::current_exe().expect("it runs");
    let recording = support::record(program).args(["--exact", "the_functions"]);
    let recording = recording.run().ok();
    let report = recording.report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0);
    for (function, allocations, bytes) in TRUTH {
        let found = process.under(&format!("linked_mimalloc::{function}"));
        let seen = (found.allocations, found.bytes, found.leaked);
        let summary = report.summary();
        assert_eq!(seen, (*allocations, *bytes, 0), "{function}: {summary}");
    }
}

#[test]
fn the_workload() {
    recorded::workload();
}

#[test]
fn every_call_is_recorded() {
    let recording = recorded::expect_truth("the_workload");
    let printed = &recording.stderr;
    printed.lacks("warning");
    recorded::profiled(&recording);
}

#[test]
fn doctor_tells_beforehand() {
    let program = std::env::current_exe().expect("it runs");
    let printed = allotrope(["doctor".as_ref(), program.as_os_str()]).text();
    let what = "mimalloc is linked into the program; its calls are recorded by patching";
    printed.has(what);
}
