//! A library that sends messages to a service. `send_message` copies the payload and puts it
//! into a channel; a thread takes the messages out one by one and waits for the service.
//!
//! `journey unbounded`: the channel takes all 1,000 messages of 1 KB at once, so that each
//! waits for all before it: a queue whose blocks `Message::from` allocates.
//! `journey bounded`: the channel takes 16, and the reader takes up to 16 at a time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

struct Message {
    payload: Vec<u8>,
}

impl From<&[u8]> for Message {
    #[inline(never)]
    fn from(data: &[u8]) -> Self {
        Self {
            payload: data.to_vec(), // MARK payload
        }
    }
}

#[inline(never)]
fn produce(message: &Message) -> usize {
    // What the service answers with.
    thread::sleep(Duration::from_micros(500));
    message.payload.len()
}

#[inline(never)]
fn produce_batch(messages: &[Message]) -> usize {
    thread::sleep(Duration::from_micros(500));
    messages.iter().map(|message| message.payload.len()).sum()
}

enum Sender {
    Unbounded(mpsc::Sender<Message>),
    Bounded(mpsc::SyncSender<Message>),
}

struct Telegrapher {
    sender: Sender,
    thread: thread::JoinHandle<usize>,
}

impl Telegrapher {
    fn new(unbounded: bool) -> Self {
        let named = || thread::Builder::new().name("telegrapher".into());
        if unbounded {
            let (sender, receiver) = mpsc::channel::<Message>();
            let run = move || receiver.iter().map(|message| produce(&message)).sum();
            let thread = named().spawn(run).unwrap();
            let sender = Sender::Unbounded(sender);
            return Self { sender, thread };
        }
        let (sender, receiver) = mpsc::sync_channel::<Message>(16);
        let run = move || {
            let mut sent = 0;
            while let Ok(first) = receiver.recv() {
                let mut batch = vec![first];
                batch.extend(receiver.try_iter().take(15));
                sent += produce_batch(&batch);
            }
            sent
        };
        let thread = named().spawn(run).unwrap();
        let sender = Sender::Bounded(sender);
        Self { sender, thread }
    }

    #[inline(never)]
    fn send_message(&self, data: &[u8]) {
        let message = Message::from(data);
        match &self.sender {
            Sender::Unbounded(sender) => sender.send(message).unwrap(),
            Sender::Bounded(sender) => sender.send(message).unwrap(),
        }
    }

    fn finish(self) -> usize {
        drop(self.sender);
        self.thread.join().unwrap()
    }
}

fn main() {
    let unbounded = std::env::args().nth(1).as_deref() == Some("unbounded");
    let telegrapher = Telegrapher::new(unbounded);
    let data = [7_u8; 1024];
    for _ in 0..1000 {
        telegrapher.send_message(&data);
    }
    println!("{}", telegrapher.finish());
}
