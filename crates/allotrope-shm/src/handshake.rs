//! How a recorder gets the arena's descriptors over the collector's socket
//! where `/proc` can not give them: both ends prove first that they know the
//! recording's secret, without showing it.
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
//! 128 bits (Aumasson and Bernstein, 2012), keyed with the secret, of who
//! proves and of both nonces: whoever listens on the name of a collector that
//! is gone, or connects without the secret, learns nothing that helps.

use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Bytes of a nonce and of a proof.
pub const PART: usize = 16;

/// A random number that is used once.
pub type Nonce = [u8; PART];

/// Who proves that he knows the secret.
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
