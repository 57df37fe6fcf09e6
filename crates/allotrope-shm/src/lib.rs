//! The shared-memory contract between a recorded program and the collector.
//!
//! The *arena*, two sealed files in memory (`memfd`), is mapped by the collector
//! and by every recorded process. [`layout`] says what lies where and who may
//! write it, [`wire`] how events are put into 64-bit words, [`location`] and
//! [`handshake`] how a process of the recording finds the arena and nobody else
//! does. With the feature `collector`, `arena` creates the arena and gives safe
//! access to it.
//!
//! # Who writes what
//!
//! | part | written by | read by |
//! | --- | --- | --- |
//! | [`layout::Control`], [`layout::Progress`] | collector only; sealed against everybody else | recorders |
//! | [`layout::Shared`] | both, single words by atomic operations | both |
//! | [`layout::ImageSlot`] | the image that claimed it; the collector acknowledges and frees it | both |
//! | [`layout::RingHeader`] | claimed by an image; `written` by its one producer thread | both |
//! | ring words | the ring's producer, only between `written` and `read + capacity` | collector, only between `read` and `written` |
//!
//! # What a hostile peer may do
//!
//! Anything to the parts that it can write. The collector therefore reads each
//! word once, checks positions against the ring's capacity and every index
//! against its table, and treats what does not decode as a corrupt ring. It
//! keeps what it must rely on in memory of its own. There is no pointer in
//! shared memory and no lock.
//!
//! The recorder believes the control file, since only the collector can write
//! it. What it reads elsewhere (other rings' owners, a free ring's position) may
//! come from another program of the recording: whatever it is, the recorder
//! writes within the ring that it claimed and nowhere else.
//!
//! # Rings, threads and streams
//!
//! An image claims a ring as a whole. One thread at a time writes to
//! it; when that thread is gone another of the same image may take it over,
//! announcing itself with a `Thread` event. A thread whose recording was
//! interrupted by a signal handler that allocates writes those events to a
//! second ring, so that a half-made event is never seen. The collector frees a
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
pub mod secure_execution;
pub mod wire;
