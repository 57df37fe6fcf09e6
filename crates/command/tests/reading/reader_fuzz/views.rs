//! What the commands do with a file, in this process: the same calls of the libraries, in
//! the same order, with helper threads even where a trace is small.

use std::io::{self, Write};

use allotrope_attribution::{Attributed, Glue};
use allotrope_diff::{DiffOptions, compare};
use allotrope_formats::{EXPORTERS, ExportError, ExportOptions, Input, read_bytes};
use allotrope_profile::{
    AggregateError, Filter, Helpers, Options, Profile, WindowKey, aggregate, aggregate_readable,
    aggregate_windows, blocks_of_sites,
};
use allotrope_profile::{Metric, StackSet};
use allotrope_report::diff::{DiffTextOptions, Selection, flame, json as diff_json, sections};
use allotrope_report::json::JsonOptions;
use allotrope_report::text::{self, BlockList, TextOptions, TreeOrder};
use allotrope_report::{Blocks, LISTED, json, sites_of_row};
use allotrope_trace::model::Record;
use allotrope_trace::{Entry, ReadError, TraceReader, TraceWriter};

use super::numbers::Numbers;

/// Metrics to compare and to write.
const METRICS: [Metric; 4] = [
    Metric::Allocations,
    Metric::Bytes,
    Metric::LeakedBytes,
    Metric::PeakBytes,
];

fn options(helpers: Helpers) -> Options<'static> {
    Options {
        helpers,
        site_details: true,
        ..Options::default()
    }
}

/// Reads a trace and shows it as one of the commands does, chosen by `numbers`.
/// `before` is what a diff compares it to.
pub fn trace(file: &[u8], before: &StackSet, numbers: &mut Numbers) {
    let Ok(mut trace) = TraceReader::new(file) else {
        return;
    };
    let which = numbers.below(12);
    if which == 0 {
        symbolize(&mut trace).expect("memory takes everything");
        return;
    }
    let profile = aggregate_readable(&mut trace, &options(Helpers::Always));
    let profile = match profile {
        Ok(profile) => profile,
        Err(AggregateError::Read(ReadError::Nothing(_))) => return,
        // A damaged trace must be read up to the damage.
        Err(AggregateError::Read(error @ ReadError::Damaged { .. })) => panic!("{error}"),
        Err(error) => panic!("a mutant is no more than damaged: {error}"),
    };
    if which == 1 {
        let alone = aggregate(&trace, &options(Helpers::Never));
        let alone = alone.expect("it was readable a moment ago");
        assert!(alone == profile, "helper threads change nothing");
    }
    let shown = show(which, &trace, &profile, before, numbers);
    shown.expect("nothing is written to a device");
}

fn show(
    which: usize,
    trace: &TraceReader<&[u8]>,
    profile: &Profile,
    before: &StackSet,
    numbers: &mut Numbers,
) -> io::Result<()> {
    let out = &mut io::sink();
    let attributed = &Attributed::new(profile, &Glue::default());
    let text_options = TextOptions {
        top: 1 + numbers.below(20),
        all_frames: numbers.once_in(2),
        blocks: *numbers.one_of(&[Blocks::All, Blocks::All, Blocks::Leaked, Blocks::Freed]),
        filter: numbers.once_in(8).then(|| Filter::new("work", false)),
        process: numbers.once_in(8).then_some(0),
        ..TextOptions::default()
    };
    match which {
        1 | 2 => {
            let mut bytes = Vec::new();
            json::write(attributed, &JsonOptions::default(), &mut bytes)?;
            let read: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(read["cut"].is_string(), profile.cut.is_some());
            Ok(())
        }
        3 | 4 => text::write(attributed, &text_options, out),
        5 | 6 => {
            if profile.is_counts_only() {
                return Ok(());
            }
            let direction = *numbers.one_of(&[TreeOrder::BottomUp, TreeOrder::TopDown]);
            let options = TextOptions {
                tree: Some(direction),
                metric: Some(*numbers.one_of(&LISTED)),
                ..text_options
            };
            text::write(attributed, &options, out)
        }
        7 => site(trace, attributed, &text_options, numbers, out),
        8 => window(trace, profile, &text_options, out),
        9 | 10 => {
            if profile.is_counts_only() {
                return Ok(());
            }
            let set = StackSet::from(profile);
            diff(before, &set, numbers)
        }
        _ => {
            if profile.is_counts_only() {
                return Ok(());
            }
            export(&StackSet::from(profile), numbers);
            Ok(())
        }
    }
}

/// `report --site N --events`.
fn site(
    trace: &TraceReader<&[u8]>,
    attributed: &Attributed<'_>,
    options: &TextOptions,
    numbers: &mut Numbers,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = attributed.profile;
    let sites: usize = profile.processes.iter().map(|it| it.sites.len()).sum();
    if profile.is_counts_only() || sites == 0 {
        return Ok(());
    }
    let number = 1 + numbers.below(sites) as u32;
    let alike = sites_of_row(attributed, number, options);
    assert!(!alike.is_empty(), "the profile has this site");
    text::write_site(attributed, number, options, out)?;
    let mut list = BlockList::new(attributed, options, out)?;
    let mut written = Ok(());
    let helpers = self::options(Helpers::Always);
    let shown = blocks_of_sites(trace, &helpers, &alike, &mut |block| {
        if written.is_ok() {
            written = list.write(block);
        }
    });
    shown.expect("it was readable a moment ago");
    written.and_then(|()| list.finish())
}

/// `report --window`.
fn window(
    trace: &TraceReader<&[u8]>,
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let runs = profile.processes.iter().flat_map(|it| &it.windows);
    let keys: Vec<WindowKey> = runs.map(|run| run.key).collect();
    let stacks = aggregate_windows(trace, &self::options(Helpers::Always), &keys);
    let stacks = stacks.expect("it was readable a moment ago");
    let attributed = Attributed::new(&stacks, &Glue::default());
    json::write(&attributed, &JsonOptions::default(), out)?;
    text::write(&attributed, options, out)
}

/// `diff`, in each of its forms.
fn diff(before: &StackSet, after: &StackSet, numbers: &mut Numbers) -> io::Result<()> {
    let known = before.known.and(after.known);
    let known = METRICS.into_iter().filter(|&metric| known.has(metric));
    let known: Vec<Metric> = known.collect();
    if known.is_empty() {
        return Ok(());
    }
    let options = DiffOptions {
        metric: *numbers.one_of(&known),
        ..DiffOptions::default()
    };
    let mut sides = [vec![before.clone()], vec![after.clone()]];
    if numbers.once_in(2) {
        sides.reverse();
    }
    if numbers.once_in(4) {
        let again = sides[1].clone();
        sides[1].extend(again);
    }
    let [before, after] = sides;
    let Ok(diff) = compare(&before, &after, &options) else {
        return Ok(());
    };
    let out = &mut io::sink();
    match numbers.below(4) {
        0 => diff_json::write(&diff, &Selection::default(), out),
        1 => sections::write(&diff, &Selection::default(), out),
        2 => flame::write(&diff, &after, None, out),
        _ => {
            let options = DiffTextOptions {
                all_frames: numbers.once_in(2),
                ..DiffTextOptions::default()
            };
            allotrope_report::diff::text::write(&diff, &options, out)
        }
    }
}

/// `export`, to every format. Half of the time what was written is read again.
fn export(set: &StackSet, numbers: &mut Numbers) {
    for exporter in EXPORTERS {
        let options = ExportOptions {
            metric: *numbers.one_of(&METRICS),
            ..ExportOptions::default()
        };
        let mut out = Vec::new();
        let input = Input::of_set(set);
        if exporter.check(&input).is_err() {
            continue;
        }
        match exporter.write(&input, &options, &mut out) {
            Ok(()) if numbers.once_in(2) => {
                let _ = read_bytes("exported", &out[..]);
            }
            Ok(()) | Err(ExportError::Unknown(_)) => {}
            Err(error) => panic!("memory takes everything: {error}"),
        }
    }
}

/// What `symbolize` reads and writes.
fn symbolize(trace: &mut TraceReader<&[u8]>) -> Result<(), allotrope_trace::WriteError> {
    if trace.verify().is_err() {
        return Ok(());
    }
    let mut writer = TraceWriter::new(io::sink())?;
    let mut events = Vec::new();
    for entry in trace.entries() {
        match entry {
            Err(_) => return Ok(()),
            Ok(Entry::Record(Record::Symbols(_))) => {}
            Ok(Entry::Record(record)) => {
                // A writer takes what a reader returns, unless it is too large for a chunk.
                let _ = writer.write(&record);
            }
            Ok(Entry::Events(run)) => {
                if trace.read_events(&run, &mut events).is_err() {
                    return Ok(());
                }
                writer.write_events(run.image, run.stream, run.first_ordinal, &events)?;
            }
        }
    }
    writer.flush()
}

/// Reads a file of another format, compares and exports it.
pub fn foreign(file: &[u8], before: &StackSet, numbers: &mut Numbers) {
    let Ok(read) = read_bytes("mutant", file) else {
        return;
    };
    let frames = read.set.frames.len();
    let mut all = read.set.stacks.iter().flat_map(|stack| &*stack.frames);
    assert!(all.all(|&frame| (frame as usize) < frames));
    if numbers.once_in(2) {
        diff(before, &read.set, numbers).expect("nothing is written to a device");
    } else {
        export(&read.set, numbers);
    }
}
