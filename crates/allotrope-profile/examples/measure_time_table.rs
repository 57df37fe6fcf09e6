//! Measures what the time table adds to the reading of a trace: `cargo run --release -p
//! allotrope-profile --example measure_time_table FILE`. Prints the least seconds of five
//! readings of each kind, alternately, and the size of the table.

use std::time::Instant;

use allotrope_profile::{Options, replay};
use allotrope_trace::TraceReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name a recording")?;
    let trace = TraceReader::open(std::path::Path::new(&file))?;
    let mut least = [f64::INFINITY; 2];
    let mut cells = 0;
    for _ in 0..5 {
        for (with, least) in least.iter_mut().enumerate() {
            let options = Options {
                time_table: (with == 1).then_some(&[]),
                ..Options::default()
            };
            let started = Instant::now();
            let profile = replay(&trace, &options)?;
            *least = least.min(started.elapsed().as_secs_f64());
            let tables = profile.processes.iter().filter_map(|it| it.times.as_ref());
            cells = tables.map(|table| table.cells.len()).sum();
        }
    }
    let [without, with] = least;
    println!(
        "without {without:.3} s, with {with:.3} s ({:+.1} %), {cells} cells",
        (with / without - 1.0) * 100.0
    );
    Ok(())
}
