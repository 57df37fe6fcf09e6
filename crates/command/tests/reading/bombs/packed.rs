//! Compressed data that unpacks to much more than it has bytes.

use std::io::Write;

/// One frame of Zstandard.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).expect("memory takes everything")
}

/// One member of gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

/// `start`, and then `part` so many times, each part packed by itself: packed data may be
/// concatenated.
pub fn repeated(pack: fn(&[u8]) -> Vec<u8>, start: &[u8], part: &[u8], times: usize) -> Vec<u8> {
    let mut packed = pack(start);
    packed.extend(pack(part).repeat(times));
    packed
}
