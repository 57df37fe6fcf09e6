//! The collector's state of a ring.

use allotrope_shm::ring::Reader;

use crate::stream::Stream;

/// The collector's state of a ring: its reader and the stream to which its words belong.
#[derive(Debug, Default)]
pub(crate) struct RingState {
    pub(crate) reader: Reader,
    /// The stream of the ring's current claim.
    pub(crate) stream: Option<Box<Stream>>,
    /// The ring's current claim is corrupt: its words are discarded, but released, so
    /// that its writer does not wait forever.
    pub(crate) discards: bool,
}
