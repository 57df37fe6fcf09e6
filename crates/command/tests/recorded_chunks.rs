//! `Recorded` around an allocator that calls another one: `System` serves its large
//! blocks, and the chunks from which it carves all others. The first block of a chunk
//! has the chunk's own address. Each call is one event all the same.

mod recorded;
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

use allotrope_client::Recorded;
use allotrope_trace::model::EntryPoint;

const CHUNK: usize = 64 << 10;
/// Larger blocks are `System`'s.
const LARGE: usize = 4 << 10;

/// Carves blocks from chunks, which it never frees.
struct Chunks {
    /// Address of the free rest of the newest chunk, and its bytes.
    rest: Mutex<(usize, usize)>,
}

impl Chunks {
    fn carve(&self, layout: Layout) -> *mut u8 {
        let mut rest = self.rest.lock().unwrap_or_else(|held| held.into_inner());
        let wasted = rest.0.next_multiple_of(layout.align()) - rest.0;
        if rest.1 < wasted + layout.size() {
            let chunk = Layout::from_size_align(CHUNK, 4096).expect("a power of two");
            // SAFETY: the layout is not empty.
            *rest = (unsafe { System.alloc(chunk) } as usize, CHUNK);
        } else {
            *rest = (rest.0 + wasted, rest.1 - wasted);
        }
        let block = rest.0;
        *rest = (block + layout.size(), rest.1 - layout.size());
        block as *mut u8
    }
}

// SAFETY: blocks lie in chunks, one behind the other, aligned; or are System's.
unsafe impl GlobalAlloc for Chunks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGE || layout.align() > 4096 {
            // SAFETY: the caller's promise for the same layout.
            unsafe { System.alloc(layout) }
        } else {
            self.carve(layout)
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() > LARGE || layout.align() > 4096 {
            // SAFETY: with this layout, `alloc` took the block from `System`.
            unsafe { System.dealloc(block, layout) };
        }
    }
}

#[global_allocator]
static GLOBAL: Recorded<Chunks> = Recorded::new(Chunks {
    rest: Mutex::new((0, 0)),
});

#[test]
fn the_workload() {
    recorded::workload();
}

#[test]
fn every_call_is_recorded_once() {
    let recording = recorded::expect_truth("the_workload");
    let process = recorded::profiled(&recording);
    let (allocations, _) = recorded::through(&process, EntryPoint::Reported);
    assert!(allocations >= recorded::allocations_of_workload());
    // Calls of C are recorded as usual, those of the allocator are not: its chunks
    // would come through these entry points.
    assert_eq!(
        recorded::through(&process, EntryPoint::PosixMemalign),
        (0, 0)
    );
    assert_eq!(
        recorded::through(&process, EntryPoint::AlignedAlloc),
        (0, 0)
    );
}
