// The buffer that was kept is made anew for each packet.
// BLAME receive
use std::hint::black_box;

#[inline(never)]
fn receive(packets: usize) -> usize {
    let mut sum = 0;
    #[cfg(not(after))]
    let mut buffer = vec![0u8; 512];
    for packet in 0..packets {
        #[cfg(after)]
        let mut buffer = vec![0u8; 512]; // MARK blame
        buffer[packet % 512] = 1;
        sum += black_box(&buffer).len();
    }
    sum
}

fn main() {
    black_box(receive(1000));
}
