//! Reads files of stacks and prints what they contain and how long each took:
//! `cargo run --release -p allotrope-formats --example measure_read -- FILE…`
//! (`/usr/bin/time -v` adds the memory). With `--folded MEGABYTES` it prints a folded
//! file in which every frame has a name of its own, the worst case for the reader.

use std::env;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [option, megabytes] = &arguments[..]
        && option == "--folded"
    {
        return write_folded(megabytes.parse().map_err(io::Error::other)?);
    }
    for file in &arguments {
        let start = Instant::now();
        let read = allotrope_formats::read(Path::new(file)).map_err(io::Error::other)?;
        let (frames, stacks) = (read.set.frames.len(), read.set.stacks.len());
        println!(
            "{file}: {frames} frames, {stacks} stacks, {} ms",
            start.elapsed().as_millis()
        );
    }
    Ok(())
}

/// Lines of five frames, each with nine digits that no other frame has.
fn write_folded(megabytes: u64) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut number = 100_000_000_u64;
    while number < 100_000_000 + megabytes * 95_000 {
        write!(out, "f{number}")?;
        for next in 1..5 {
            write!(out, ";f{}", number + next)?;
        }
        writeln!(out, " 1")?;
        number += 5;
    }
    out.flush()
}
