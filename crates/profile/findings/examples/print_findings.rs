//! Prints the findings of recordings, a line each, for `scripts/findings-noise`:
//! `cargo run --release -p allotrope-findings --example print_findings FILE…`. With
//! `--short` a line has only file, rule, severity and function.

use std::error::Error;
use std::path::Path;

use allotrope_attribution::{Attributed, Glue};
use allotrope_findings::{FindingOptions, find};
use allotrope_profile::{Options, aggregate};
use allotrope_trace::TraceReader;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<_> = std::env::args_os().skip(1).collect();
    let short = files.first().is_some_and(|it| it == "--short");
    for file in files.drain(..).skip(usize::from(short)) {
        let path = Path::new(&file);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let trace = TraceReader::open(path)?;
        let options = Options {
            time_table: Some(&[]),
            evidence: true,
            ..Options::default()
        };
        let profile = aggregate(&trace, &options)?;
        let attributed = Attributed::new(&profile, &Glue::default());
        for found in find(&attributed, &FindingOptions::default()) {
            let frame = found.frame.and_then(|at| profile.frames.get(at as usize));
            let function = frame.map_or("-", |frame| &frame.function);
            let (rule, severity) = (found.rule.name(), found.severity.name());
            if short {
                println!("{name}\t{rule}\t{severity}\t{function}");
                continue;
            }
            let line = frame.map_or(0, |frame| frame.line);
            println!(
                "{name}: {rule} ({severity}): {}, {}",
                found.title, found.measure
            );
            println!("    at {function}, line {line}; process {}", found.process);
            println!("    {}", found.text);
            println!("    → {}", found.advice);
        }
    }
    Ok(())
}
