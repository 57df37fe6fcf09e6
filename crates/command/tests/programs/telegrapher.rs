//! The library of "A memory profiling journey": messages that a thread sends one after the other.
//!
//! `telegrapher baseline|fixed|late MESSAGES MICROSECONDS`: MESSAGES of 1,024 bytes, each request takes
//! MICROSECONDS. `baseline` has a queue without a bound, and each request sends one message. `fixed` has one of
//! 128 and requests of at most 64, so that at most 128 + 64 messages and the one that waits for the queue are
//! live. `late` is `fixed`, and at the end allocates 4 MiB, which is where the peak is.
//! As a library it is `telegraph`, for a host in C.

use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SIZE: usize = 1024;
const QUEUE: usize = 128;
const BATCH: usize = 64;

pub struct Message(Vec<u8>);

#[inline(never)]
#[no_mangle]
pub fn encode_message(data: &[u8]) -> Message {
    Message(data.to_vec())
}

fn sender(rx: Receiver<Message>, most: usize, pause: Duration) -> JoinHandle<u64> {
    let work = move || {
        let mut sent = 0;
        while let Ok(first) = rx.recv() {
            let mut batch = Vec::with_capacity(most);
            batch.push(first);
            while batch.len() < most {
                let Ok(next) = rx.try_recv() else { break };
                batch.push(next);
            }
            thread::sleep(pause);
            sent += batch.iter().map(|it| it.0.len() as u64).sum::<u64>();
        }
        sent
    };
    thread::Builder::new().name("telegrapher".to_owned()).spawn(work).expect("a thread")
}

fn run(is_bounded: bool, messages: u64, pause: Duration) -> u64 {
    let payload = [7; SIZE];
    let worker = if is_bounded {
        let (tx, rx) = sync_channel(QUEUE);
        let worker = sender(rx, BATCH, pause);
        for _ in 0..messages {
            tx.send(encode_message(&payload)).expect("it receives");
        }
        worker
    } else {
        let (tx, rx) = channel();
        let worker = sender(rx, 1, pause);
        for _ in 0..messages {
            tx.send(encode_message(&payload)).expect("it receives");
        }
        worker
    };
    worker.join().expect("it ends")
}

#[no_mangle]
pub extern "C" fn telegraph(messages: u64) -> u64 {
    run(true, messages, Duration::from_micros(100))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let is_bounded = arguments[1] != "baseline";
    let sent = run(is_bounded, number(2), Duration::from_micros(number(3)));
    if arguments[1] == "late" {
        let summary = vec![1_u8; 4 << 20];
        println!("{}", std::hint::black_box(&summary).len());
    }
    println!("{sent} bytes were sent");
}
