//! `allotrope show FILE WHAT --blocks`: the single blocks of a finding, a site or a function.

use allotrope_attribution::{Attributed, Glue};
use allotrope_profile::{Options, Profile, RunTimes, blocks_of_sites};
use allotrope_reading::{Moment, Recording, Wanted};
use allotrope_report::text::{self, Subject, TextOptions};
use allotrope_report::{BlockOrder, SelectedBlocks, write_blocks_json};
use allotrope_text::numbers::duration;

use super::Format;
use crate::exit_status::Failure;
use crate::pager::PagerArguments;
use crate::progress::Progress;
use crate::standard_output;
use crate::time::range_ns;

/// Options about single blocks.
#[derive(Debug, clap::Args)]
pub struct BlockArguments {
    /// List the blocks one by one, with the stacks that allocated and freed them
    ///
    /// Each with its time, size, lifetime and threads. A recording has the stacks that freed
    /// blocks with `record --free-stacks`.
    #[arg(long, requires = "what", group = "in_detail")]
    pub blocks: bool,
    /// The order of the blocks
    #[arg(
        long,
        value_enum,
        value_name = "ORDER",
        default_value_t,
        requires = "blocks"
    )]
    order: Order,
    /// List only blocks that were allocated from TIME on
    ///
    /// TIME is a time after the start, such as `2s` or `500ms`, or the name of a mark.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, requires = "blocks")]
    from: Option<Moment>,
    /// List only blocks that were allocated before TIME
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, requires = "blocks")]
    to: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Order {
    /// By the time of allocation
    #[default]
    Time,
    /// The largest first
    Size,
    /// The longest-lived first
    Lifetime,
}

/// Prints the blocks of a subject. `glue` is that of `attributed`.
pub fn print(
    recording: &mut Recording,
    subject: &Subject<'_>,
    (attributed, glue): (&Attributed<'_>, &Glue),
    arguments: &BlockArguments,
    options: &TextOptions,
    (format, pager): (Format, PagerArguments),
) -> Result<(), Failure> {
    let profile = attributed.profile;
    let (from, to) = (arguments.from.as_ref(), arguments.to.as_ref());
    let range = range_ns(recording, profile, from, to)?;
    let order = match arguments.order {
        Order::Time => BlockOrder::Time,
        Order::Size => BlockOrder::Size,
        Order::Lifetime => BlockOrder::Lifetime,
    };
    let mut selected = SelectedBlocks::new(profile, order, range, options.top);
    let progress = Progress::new(false);
    let show = |done, total| progress.show("reading the blocks", done, total);
    let reading = Options {
        progress: Some(&show),
        ..Options::default()
    };
    let sites = subject.blocks_of(profile);
    let aggregated = blocks_of_sites(recording.trace(), &reading, &sites, &mut |block| {
        selected.add(block);
    });
    progress.finish();
    aggregated.map_err(|error| recording.error(error))?;
    // A site lists only its first 64 stacks that freed blocks: those beyond are read where they
    // are wanted.
    let stacks = selected.unnamed_stacks(profile);
    let with_stacks: Profile;
    let of_all;
    let attributed = match stacks.is_empty() {
        true => attributed,
        false => {
            with_stacks = recording.profile_with(Wanted {
                stacks: &stacks,
                site_details: true,
                ..Wanted::default()
            })?;
            of_all = Attributed::new(&with_stacks, glue);
            &of_all
        }
    };
    if format == Format::Json {
        return standard_output::print(|output| {
            write_blocks_json(attributed.profile, &subject.title, &selected, output)
        });
    }
    let range = (from.is_some() || to.is_some()).then(|| words(profile, range));
    pager.print(|output| {
        let (title, range) = (&subject.title, range.as_deref());
        text::write_selected_blocks(attributed, title, range, &selected, options, output)
    })
}

/// A range of time in words.
fn words(profile: &Profile, [from, to]: [u64; 2]) -> String {
    let run = RunTimes::of(profile);
    let after =
        |ns: u64| duration(ns.min(run.ended_ns).saturating_sub(run.started_ns) as f64 / 1e3);
    match (from, to) {
        (0, to) => format!("allocated in the first {}", after(to)),
        (from, u64::MAX) => format!("allocated from {} after the start on", after(from)),
        (from, to) => format!(
            "allocated from {} to {} after the start",
            after(from),
            after(to)
        ),
    }
}
