//! The shared-memory contract between a recorded program and the collector.
//!
//! The *arena*, two sealed files in memory (`memfd`), is mapped by the collector
//! and by every recorded process.
//!
//! - [`layout`]: where each structure is, its size, and who may write it.
//! - [`ring`]: the queue of words between one recorded thread and the collector,
//!   with its writer and its reader.
//! - [`wire`]: encoding and decoding of the events in a ring.
//! - [`numbers`]: numbers with the same meaning in the trace file.
//! - [`location`], [`handshake`]: how processes of the recording, and no others, get the
//!   arena.
//! - [`mapped_file`]: which file a module's code comes from.
//! - [`hook_api`]: the recorder's functions for other libraries in its process.
//!
//! The recorder uses these without `std`. The feature `collector` adds `arena`,
//! which creates the arena and gives safe access to it, and `page_map`; `test-support` adds
//! `producer`, a stand-in for the recorder.
//!
//! # Who writes what
//!
//! | part | written by | read by |
//! | --- | --- | --- |
//! | [`layout::Control`], [`layout::Progress`] | collector only; sealed against all others | recorders |
//! | [`layout::Shared`] | both, single words by atomic operations | both |
//! | [`layout::ImageSlot`] | the image that claimed it; the collector acknowledges and frees it | both |
//! | [`layout::RingHeader`] | claimed by an image; `written` by its one producer thread | both |
//! | a ring's slots | the ring's producer, only between `written` and `read + capacity` | collector, only between `read` and `written` |
//!
//! # What a hostile peer may do
//!
//! It may write anything to the parts that it can write. The collector therefore
//! reads each word once, checks positions against the ring's capacity and every
//! index against its table, and treats malformed words as a corrupt ring. State that it
//! relies on is in its own memory. Shared memory contains no locks, and no pointers that
//! anybody follows: by the addresses of a recorder's mappings the collector only looks up
//! which pages are resident.
//!
//! The recorder trusts the control file, since only the collector can write it.
//! Other programs of the recording can write the other parts that it reads (other
//! rings' owners, a free ring's position). Whatever they write, the recorder stores
//! only to slots of the ring that it claimed.
//!
//! # Rings, threads and streams
//!
//! An image (a process between two `exec`s) claims rings. One thread at a time
//! writes to a ring. When that thread has ended, another one of the same image may
//! take the ring over; it writes a `Thread` event first. If a signal handler interrupts
//! the recorder and allocates, it writes to a second, *nested* ring, so that no event is
//! interrupted by another one. The collector frees a ring when its image has ended and
//! everything in it was read.
#![cfg_attr(
    not(any(test, feature = "collector", feature = "samples-reader")),
    no_std
)]

#[cfg(feature = "collector")]
pub mod arena;
pub mod atomics;
#[cfg(feature = "collector")]
pub mod exit_information;
pub mod handshake;
pub mod hook_api;
pub mod layout;
#[cfg(feature = "collector")]
mod liveness;
pub mod location;
pub mod mapped_file;
pub mod numbers;
#[cfg(feature = "collector")]
pub mod page_map;
#[cfg(feature = "test-support")]
pub mod producer;
pub mod ring;
pub mod samples;
pub mod wire;
