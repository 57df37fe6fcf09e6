//! Compresses the data of a page and makes it fit: while it is too large, the part that
//! takes most is encoded again with half as much in it.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::Page;
use crate::encode::{Limits, Part, encode};

/// Bytes of the elements around the data.
const AROUND: usize = 100;

/// The parts in base64 with their names, together at most so many bytes.
pub fn fit(page: &Page<'_>, most: usize) -> Vec<(&'static str, String)> {
    let mut limits = Limits::MOST;
    loop {
        let parts = encode(page, &limits);
        let done: Vec<(Part, String)> = parts
            .into_iter()
            .map(|(part, columns)| (part, STANDARD.encode(deflate(&columns.encode()))))
            .collect();
        let sum: usize = done.iter().map(|(_, data)| data.len() + AROUND).sum();
        let largest = done.iter().filter(|(part, _)| limits.can_halve(*part));
        let largest = largest.max_by_key(|(_, data)| data.len());
        match largest {
            Some(&(part, _)) if sum > most => limits.halve(part),
            _ => {
                return done
                    .into_iter()
                    .map(|(part, it)| (part.name(), it))
                    .collect();
            }
        }
    }
}

/// Raw deflate (RFC 1951), which every browser can decompress.
fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    // A vector takes everything.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
