use std::sync::mpsc; use std::thread;
fn main() {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let threads: Vec<_> = (0..4).map(|t| { let send = send.clone(); thread::spawn(move || for i in 0..250 { send.send(vec![t as u8; 16 + i % 7]).unwrap(); }) }).collect();
    drop(send);
    let mut n = 0; for v in receive { n += v.len(); }
    for t in threads { t.join().unwrap(); }
    println!("{n}");
}
