//! The shared-memory contract between a recorded program and the collector.
//!
//! The *arena*, two sealed files in memory (`memfd`), is mapped by the collector
//! and by every recorded process.
//!
//! - [`layout`]: where each structure is, its size, and who may write it.
//! - [`ring`]: the queue of words between one recorded thread and the collector,
//!   with its writer and its reader.
//! - [`wire`]: encoding and decoding of the events in a ring.
//! - [`numbers`]: numbers that the trace file uses as well.
//! - [`location`], [`handshake`]: how a process of the recording, and nobody else,
//!   gets the arena.
//! - [`hook_api`]: what the recorder offers to other libraries in its process.
//!
//! The recorder uses these without `std`. The feature `collector` adds `arena`,
//! which creates the arena and gives safe access to it; `test-support` adds
//! `producer`, a stand-in for the recorder.
//!
//! # Who writes what
//!
//! | part | written by | read by |
//! | --- | --- | --- |
//! | [`layout::Control`], [`layout::Progress`] | collector only; sealed against everybody else | recorders |
//! | [`layout::Shared`] | both, single words by atomic operations | both |
//! | [`layout::ImageSlot`] | the image that claimed it; the collector acknowledges and frees it | both |
//! | [`layout::RingHeader`] | claimed by an image; `written` by its one producer thread | both |
//! | a ring's slots | the ring's producer, only between `written` and `read + capacity` | collector, only between `read` and `written` |
//!
//! # What a hostile peer may do
//!
//! It may write anything to the parts that it can write. The collector therefore
//! reads each word once, checks positions against the ring's capacity and every
//! index against its table, and treats malformed words as a corrupt ring. It has
//! its own copy of all that it relies on. There is no pointer in shared memory and
//! no lock.
//!
//! The recorder trusts the control file, since only the collector can write it.
//! Other programs of the recording can write what it reads elsewhere (other
//! rings' owners, a free ring's position). Whatever they write, the recorder
//! stores only to slots of the ring that it claimed.
//!
//! # Rings, threads and streams
//!
//! An image (a process between two `exec`s) claims rings. One thread at a time
//! writes to a ring; when that thread is gone, another one of the same image may
//! take the ring over, and writes a `Thread` event first. A signal handler that
//! allocates while the recorder is at work on the same thread writes to a second
//! ring, so that no event is interrupted by another one. The collector frees a
//! ring when its image has ended and everything in it was read.
#![cfg_attr(not(any(test, feature = "collector")), no_std)]

#[cfg(feature = "collector")]
pub mod arena;
#[cfg(feature = "collector")]
pub mod exit_information;
pub mod handshake;
pub mod hook_api;
pub mod layout;
#[cfg(feature = "collector")]
mod liveness;
pub mod location;
pub mod numbers;
#[cfg(feature = "test-support")]
pub mod producer;
pub mod ring;
pub mod wire;
