//! The handshake by which a recorder that cannot open the collector's `/proc/PID/fd`
//! gets the arena's descriptors over the collector's socket. First both ends prove that
//! they know the recording's secret, without revealing it.
//!
//! ```text
//! recorder                                   collector
//!    nonce of the recorder (16 bytes)    ─▶
//!                                       ◀─   nonce of the collector (16), proof (16)
//!    proof (16)                          ─▶
//!                                       ◀─   one byte; arena and control descriptor (SCM_RIGHTS)
//! ```
//!
//! Each message is one packet (`SOCK_SEQPACKET`). A proof is SipHash-2-4 with
//! 128 bits (Aumasson and Bernstein, 2012), keyed with the secret, of the proving side
//! and both nonces. A process without the secret that listens on the name of an ended
//! collector, or connects to a collector, learns nothing that it can use.

use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Bytes of a nonce and of a proof.
pub const PART: usize = 16;

/// A random number that is used only once.
pub type Nonce = [u8; PART];

/// The side that proves that it knows the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// The recorded program.
    Recorder = b'R',
    /// The collector.
    Collector = b'C',
}

/// The proof of `side` in an exchange with these nonces.
pub fn proof(secret: u128, side: Side, recorder: &Nonce, collector: &Nonce) -> [u8; PART] {
    let mut hasher = SipHasher24::new_with_key(&secret.to_le_bytes());
    hasher.write(&[side as u8]);
    hasher.write(recorder);
    hasher.write(collector);
    hasher.finish128().as_u128().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_depends_on_everything() {
        let (zero, one) = ([0; PART], [1; PART]);
        let proofs = [
            proof(1, Side::Recorder, &zero, &one),
            proof(1, Side::Collector, &zero, &one),
            proof(1, Side::Recorder, &one, &zero),
            proof(1, Side::Recorder, &zero, &zero),
            proof(1 << 127, Side::Recorder, &zero, &one),
        ];
        for (index, first) in proofs.iter().enumerate() {
            assert!(!proofs[index + 1..].contains(first));
        }
    }
}
