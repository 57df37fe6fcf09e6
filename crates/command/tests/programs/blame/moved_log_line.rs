// The log line moved above the check that skips most packets.
// BLAME route
use std::hint::black_box;

struct Packet {
    target: u8,
    size: u32,
}

#[inline(never)]
fn write_log(line: &str) -> usize {
    black_box(line).len()
}

fn route(packets: &[Packet], own: u8) -> usize {
    let mut logged = 0;
    for packet in packets {
        #[cfg(after)]
        {
            let line = format!("{} bytes for {}", packet.size, packet.target); // MARK blame
            logged += write_log(&line);
        }
        if packet.target != own {
            continue;
        }
        #[cfg(not(after))]
        {
            let line = format!("{} bytes for {}", packet.size, packet.target);
            logged += write_log(&line);
        }
        black_box(packet.size);
    }
    logged
}

fn main() {
    let packets: Vec<Packet> = (0..900)
        .map(|at| Packet {
            target: (at % 50) as u8,
            size: 64 + at,
        })
        .collect();
    black_box(route(black_box(&packets), 7));
}
