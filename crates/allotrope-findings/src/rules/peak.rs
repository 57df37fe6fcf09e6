//! One function holds most of the peak.
//!
//! It speaks if a function holds at least half of the live bytes at the peak, and 64 KiB.
//! It is silent about a function that another rule about the peak has named.

use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;

use crate::context::{Context, Group};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, percent, ratio, share, some};
use crate::rank::Candidate;

const LEAST_SHARE: f64 = 0.5;
const LEAST_BYTES: u64 = 64 << 10;

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let peak = context.peak_bytes();
    let holds_most = |group: &&Group| {
        group.peak_bytes >= LEAST_BYTES && ratio(group.peak_bytes, peak) >= LEAST_SHARE
    };
    let groups = context.groups.iter().filter(holds_most);
    groups.map(|group| candidate(context, group)).collect()
}

fn candidate(context: &Context<'_>, group: &Group) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(group.peak_bytes, context.peak_bytes());
    let when = context.peak_ns().saturating_sub(context.start_ns) as f64;
    let text = format!(
        "{} of {} are live when most memory is, at {} of the run{}.",
        some(group.peak_blocks, "block"),
        context.function_name(frame),
        percent(when / context.duration_ns() as f64),
        context.called_by(&group.sites, weight),
    );
    let finding = Finding {
        rule: Rule::Peak,
        severity: Severity::Hint,
        title: "one function holds most of the peak".to_owned(),
        measure: format!(
            "{}, {} of the peak",
            in_bytes(group.peak_bytes),
            percent(stake)
        ),
        text,
        advice: "Less memory means less here: hold it for a shorter time, in smaller parts, \
                 or in a smaller form."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        numbers: vec![
            bytes("peak_bytes", group.peak_bytes),
            bytes("peak_bytes_threshold", LEAST_BYTES),
            share("share_of_peak", stake),
            share("share_of_peak_threshold", LEAST_SHARE),
            blocks("peak_blocks", group.peak_blocks),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake,
    }
}
