//! Measures what the time table and the evidence add to the reading of a trace: `cargo run
//! --release -p allotrope-profile --example measure_time_table FILE`. Prints the least
//! seconds of five readings of each kind, alternately, and the size of the table.

use std::time::Instant;

use allotrope_profile::{Options, aggregate};
use allotrope_trace::TraceReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name a recording")?;
    let trace = TraceReader::open(std::path::Path::new(&file))?;
    let mut least = [f64::INFINITY; 3];
    let mut cells = 0;
    for _ in 0..5 {
        for (kind, least) in least.iter_mut().enumerate() {
            let options = Options {
                time_table: (kind > 0).then_some(&[]),
                evidence: kind > 1,
                ..Options::default()
            };
            let started = Instant::now();
            let profile = aggregate(&trace, &options)?;
            *least = least.min(started.elapsed().as_secs_f64());
            let tables = profile.processes.iter().filter_map(|it| it.times.as_ref());
            cells = tables.map(|table| table.cells.len()).sum();
        }
    }
    let [plain, times, evidence] = least;
    let more = |with: f64| (with / plain - 1.0) * 100.0;
    println!(
        "plain {plain:.3} s, with time table {times:.3} s ({:+.1} %), with evidence, too, \
         {evidence:.3} s ({:+.1} %), {cells} cells",
        more(times),
        more(evidence),
    );
    Ok(())
}
