// The messages are boxed before they are sent, to make the channel's slots small.
// BLAME produce
use std::hint::black_box;
use std::sync::mpsc::{Sender, channel};

struct Message {
    id: usize,
    payload: [u8; 96],
}

#[cfg(not(after))]
type Sent = Message;
#[cfg(after)]
type Sent = Box<Message>;

#[inline(never)]
fn produce(sender: &Sender<Sent>, count: usize) {
    for id in 0..count {
        let message = Message {
            id,
            payload: [1; 96],
        };
        #[cfg(after)]
        let message = Box::new(message); // MARK blame
        sender.send(message).unwrap();
    }
}

fn main() {
    let (sender, receiver) = channel();
    let mut sum = 0;
    for _ in 0..20 {
        produce(&sender, 31);
        for message in receiver.try_iter() {
            sum += message.id + usize::from(message.payload[95]);
        }
    }
    black_box(sum);
}
