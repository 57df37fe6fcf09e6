//! blamed: read_row
//! Reads rows and passes them to a thread that stores them more slowly.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

struct Row {
    columns: Vec<String>,
}

#[inline(never)]
fn read_row(number: usize) -> Row {
    let columns = (0..4).map(|column| format!("row {number} column {column}"));
    Row {
        columns: columns.collect(),
    }
}

fn main() {
    let (sender, receiver) = mpsc::channel::<Row>();
    let storing = thread::spawn(move || {
        let mut sum = 0;
        for row in receiver {
            thread::sleep(Duration::from_micros(200));
            sum += row.columns.len();
        }
        sum
    });
    for number in 0..2000 {
        sender.send(read_row(number)).unwrap();
    }
    drop(sender);
    println!("{}", storing.join().unwrap());
}
