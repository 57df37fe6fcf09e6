//! Measures the time and memory for resolving addresses of a module:
//! `resolve_speed MODULE COUNT [INDEX-FOLDER]`. The addresses are distributed evenly
//! over the module's code. Indexes are stored in the folder, if one is given; a second
//! run then measures how much time they save.

use std::path::Path;
use std::time::Instant;

use allotrope_symbols::{IndexCache, Locator, ModuleSymbols, Ran};
use object::{Object, ObjectSection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, module, count, folder @ ..] = &arguments[..] else {
        return Err("usage: resolve_speed MODULE COUNT [INDEX-FOLDER]".into());
    };
    let count: u64 = count.parse()?;
    let addresses = addresses(Path::new(module), count)?;
    let cache = folder.first().map(IndexCache::at);
    let locator = Locator::new().with_index_cache(cache);
    let start = Instant::now();
    let symbols = ModuleSymbols::load(&locator, Path::new(module), &Ran::unverified(), None)?;
    let loaded = start.elapsed();
    let resolved = symbols.resolve(&addresses);
    let all = start.elapsed();
    let named = resolved.iter().filter(|it| !it.frames.is_empty()).count();
    let frames: usize = resolved.iter().map(|it| it.frames.len()).sum();
    println!(
        "{named} of {count} addresses named, {frames} frames; loading {:.2} s, all {:.2} s, {} MiB at most",
        loaded.as_secs_f64(),
        all.as_secs_f64(),
        peak_memory()? >> 10
    );
    Ok(())
}

fn addresses(module: &Path, count: u64) -> Result<Vec<(u64, bool)>, Box<dyn std::error::Error>> {
    // Reads only parts of the file, because the peak memory is measured.
    let bytes = object::ReadCache::new(std::fs::File::open(module)?);
    let file = object::File::parse(&bytes)?;
    let text = file.section_by_name(".text").ok_or("no .text")?;
    let step = (text.size() / count.max(1)).max(1);
    let range = text.address()..text.address() + text.size();
    Ok(range
        .step_by(usize::try_from(step)?)
        .take(usize::try_from(count)?)
        .map(|address| (address, true))
        .collect())
}

/// Peak resident memory in KiB, including the parts of the module that `addresses` read.
fn peak_memory() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    Ok(words.ok_or("no VmHWM")?.parse()?)
}
