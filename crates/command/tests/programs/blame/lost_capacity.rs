// The frame's buffer is made without the capacity that was known.
// BLAME encode
use std::hint::black_box;

#[inline(never)]
fn encode(parts: &[&[u8]]) -> Vec<u8> {
    #[cfg(not(after))]
    let mut frame = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    #[cfg(after)]
    let mut frame = Vec::new();
    for part in parts {
        frame.extend_from_slice(part); // MARK blame
    }
    frame
}

fn main() {
    let part = [7u8; 48];
    let parts = vec![&part[..]; 32];
    let mut bytes = 0;
    for _ in 0..150 {
        bytes += black_box(encode(black_box(&parts))).len();
    }
    black_box(bytes);
}
