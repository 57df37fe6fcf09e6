// The header's value is made a String, where a borrowed one was enough.
// BLAME content_length
use std::hint::black_box;

fn content_length(headers: &[(&[u8], &[u8])]) -> u64 {
    let mut length = 0;
    for (name, value) in headers {
        if *name != b"content-length" {
            continue;
        }
        #[cfg(not(after))]
        let value = String::from_utf8_lossy(value);
        #[cfg(after)]
        let value = String::from_utf8_lossy(value).into_owned(); // MARK blame
        length = black_box(value).trim().parse().unwrap_or(0);
    }
    length
}

fn main() {
    let headers: [(&[u8], &[u8]); 3] = [
        (b"host", b"example.org"),
        (b"content-length", b" 1024"),
        (b"accept", b"*/*"),
    ];
    let mut sum = 0;
    for _ in 0..700 {
        sum += content_length(black_box(&headers));
    }
    black_box(sum);
}
