//! Samples running programs with perf_event_open(2), and attributes their CPU time to the
//! allocator: to its entry points, functions and lines, and to the code that calls it.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `events` | opening the kernel's events, reading their records in order of time |
//! | `space` | the address space of each process; unwinding samples |
//! | `module` | files of executable code: unwind information, what they export |
//! | [`allocator_code`] | which functions belong to an allocator |
//! | `code` | machine code: what a call calls, and which functions a function jumps to |
//! | [`session`] | from records to stacks with counts |
//! | `stacks` | the stacks with the frames that tail calls have removed |
//! | [`chosen`] | patterns of functions; those that the user says are the allocator's |
//! | `names` | the names of frames, and how well it is known that one is the allocator's |
//! | [`profile`] | the tables of a report |
//! | [`rows`] | a row of a table, its share and interval |
//! | [`annotation`] | the instructions of one function, with their samples |
//! | `annotation_text` | the same for people |
//! | [`counter`] | what a counter has counted, rates of misses |
//! | [`folded`] | the stacks as folded text, and for a flame graph |
//! | [`saved`] | a report that was saved as JSON |
//! | [`compare`] | two saved reports: before and after |
//! | [`comparison_text`] | a comparison for people |
//! | [`breakdown`] | groups, parts of the program, call graphs, what is outside |
//! | [`operations`] | how many calls a run has made |
//! | [`origin`] | what was run, when and where |
//! | `doubts` | figures that cannot be right, as sentences |
//! | [`text`] | the report for people, short |
//! | [`report`] | the whole report |
//!
//! A sample has the registers and the first bytes of the thread's stack; framehop unwinds
//! them by `.eh_frame`, because allocators are compiled without frame pointers. So frames
//! beyond these bytes are missing. The frames of an allocator are the innermost ones.
//!
//! Records come from the kernel, but the paths and files that they name belong to the
//! sampled programs and may be hostile.
//!
//! The only `unsafe` block is the request by which the events of one processor share a
//! ring (`events`): perf-event2 does not have it.

pub mod allocator_code;
pub mod annotation;
mod annotation_text;
pub mod breakdown;
pub mod chosen;
mod code;
pub mod compare;
pub mod comparison_text;
mod counted;
pub mod counter;
pub(crate) mod doubts;
mod events;
pub mod folded;
mod module;
mod names;
pub mod operations;
pub mod origin;
pub mod profile;
mod quantity;
pub mod report;
pub mod rows;
pub mod saved;
pub mod session;
mod space;
mod stacks;
pub mod text;

pub use breakdown::OwnGroup;
pub use chosen::{Chosen, Pattern};
pub use events::{OpenError, Options, Source, Target};
pub use operations::Operations;
pub use origin::Origin;
pub use profile::{Profile, Score, Wanted};
pub use quantity::Quantity;
pub use saved::Saved;
pub use session::Session;

/// Whether a file that begins so is a report, as text or as JSON.
pub fn is_report(head: &[u8]) -> bool {
    head.starts_with(b"{\"format\":\"allotrope-cpu/") || is_for_people(head)
}

/// Whether a file that begins so is a report as text or Markdown.
fn is_for_people(head: &[u8]) -> bool {
    [text::START, text::NOTHING, report::START]
        .iter()
        .any(|start| head.starts_with(start.as_bytes()))
}
