//! The sites of a process as JSON. There may be hundreds of thousands of sites, with ten
//! million frames in their stacks, so this is most of the time of writing a report: the
//! text is composed without serde, which would look for characters to escape in the name
//! of every field, and by two threads.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;

use allotrope_attribution::{BlockTypes, Headlines, Rule};
use allotrope_profile::{Metric, Site};

use crate::json_append::{append_float, append_lifetimes, append_number};
use crate::json_details;
use crate::reachability::LostForm;

/// The metrics of a site, in the order of its fields.
const METRICS: [Metric; 8] = [
    Metric::Allocations,
    Metric::Bytes,
    Metric::Temporary,
    Metric::LeakedAllocations,
    Metric::LeakedBytes,
    Metric::PeakBytes,
    Metric::PeakAllocations,
    Metric::Reallocations,
];

/// The number of sites that a thread composes at a time: some hundred kilobytes of text.
const PIECE: usize = 1024;
/// The number of pieces that wait to be written at most.
const AHEAD: usize = 4;

/// What a site has besides its figures.
pub(crate) struct Additions<'a> {
    /// Rule that suppresses the leaks of each site, by the site's index. May be shorter than the
    /// list of sites.
    pub(crate) rules: &'a [Option<&'a Rule>],
    /// The number by which figures are also divided.
    pub(crate) per: Option<f64>,
    /// The types of blocks.
    pub(crate) types: &'a BlockTypes<'a>,
    /// The frames that stand for the stacks.
    pub(crate) headlines: &'a Headlines,
    /// Duration of the process, in microseconds.
    pub(crate) duration_us: u64,
}

/// Writes the sites as objects with commas between them. Another thread composes every
/// second piece of the text.
pub(crate) fn write(
    sites: &[Site],
    additions: &Additions<'_>,
    numbers: &Numbers,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (sender, composed) = mpsc::sync_channel(AHEAD);
    thread::scope(|scope| {
        let compose = move || {
            for (index, piece) in sites.chunks(PIECE).enumerate().skip(1).step_by(2) {
                // It fails if nothing is to be written any more.
                let text = numbers.text_of(piece, index * PIECE, additions);
                if sender.send(text).is_err() {
                    break;
                }
            }
        };
        // If it cannot be started, its end of the channel is closed.
        let _ = thread::Builder::new().spawn_scoped(scope, compose);
        for (index, piece) in sites.chunks(PIECE).enumerate() {
            let compose = || numbers.text_of(piece, index * PIECE, additions);
            let text = match index % 2 {
                0 => compose(),
                _ => composed.recv().unwrap_or_else(|_| compose()),
            };
            // Each object begins with a comma; the first one must not.
            let text = text.get(usize::from(index == 0)..);
            out.write_all(text.unwrap_or_default())?;
        }
        drop(composed);
        Ok(())
    })
}

/// The numbers from 0 as text. A site has dozens of indexes of frames, of which there are
/// few.
pub(crate) struct Numbers(Vec<Digits>);

/// A number and a comma. Copying all bytes and cutting off the rest is faster than copying
/// so few.
#[derive(Clone, Copy)]
struct Digits {
    text: [u8; 15],
    length: u8,
}

impl Numbers {
    /// Formats so many numbers as there are frames.
    pub(crate) fn new(frames: usize) -> Self {
        let mut format = itoa::Buffer::new();
        let digits = (0..frames).map(|number| {
            let mut digits = Digits {
                text: [b','; 15],
                length: 0,
            };
            let text = format.format(number).as_bytes();
            digits.text[..text.len()].copy_from_slice(text);
            digits.length = text.len() as u8 + 1;
            digits
        });
        Self(digits.collect())
    }

    /// The sites as objects, each after a comma. `first`: the index of the first one.
    fn text_of(&self, sites: &[Site], first: usize, additions: &Additions<'_>) -> Vec<u8> {
        // A little more than most need, so that it seldom has to grow.
        let lengths = sites.iter().map(|site| 1024 + 6 * site.stack.len());
        let mut text = Vec::with_capacity(lengths.sum());
        for (index, site) in (first..).zip(sites) {
            self.append(site, &mut text);
            additions.append(index, site, &mut text);
            text.push(b'}');
        }
        text
    }

    /// Appends all of the object but its additions and its end.
    fn append(&self, site: &Site, text: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        text.extend_from_slice(b",{\"number\":");
        text.extend_from_slice(digits.format(site.number).as_bytes());
        append_number("stack_id", site.stack_id.into(), text);
        text.extend_from_slice(b",\"stack\":[");
        text.reserve(site.stack.len() * size_of::<Digits>());
        for &frame in &*site.stack {
            let Digits {
                text: digits,
                length,
            } = self.0[frame as usize];
            let end = text.len() + usize::from(length);
            text.extend_from_slice(&digits);
            text.truncate(end);
        }
        // The comma after the last frame.
        text.pop_if(|last| *last == b',');
        text.push(b']');
        let metrics = site.metrics();
        for metric in METRICS {
            append_number(metric.key(), metrics[metric as usize], text);
        }
        append_number("max_bytes", site.max_bytes, text);
        append_number("max_allocations", site.max_allocations, text);
        append_lifetimes(&site.lifetimes, text);
        match &site.details {
            Some(details) => json_details::append(details, &site.lifetimes, text),
            None => text.extend_from_slice(json_details::NONE),
        }
    }
}

impl Additions<'_> {
    fn append(&self, index: usize, site: &Site, text: &mut Vec<u8>) {
        let share = match self.duration_us {
            0 => f64::NAN,
            duration => site.lifetimes.mean_us() / duration as f64,
        };
        append_float("lifetime_share", share, text);
        if let Some(head) = self.headlines.head(site) {
            append_number("head", head.into(), text);
        }
        let own = self.headlines.own(site);
        if let Some(&own) = own.and_then(|own| site.stack.get(own)) {
            append_number("own", own.into(), text);
        }
        if let Some(per) = self.per {
            append_float("allocations_each", site.allocations as f64 / per, text);
            let bytes = site.allocated_bytes as f64;
            append_float("allocated_bytes_each", bytes / per, text);
        }
        let mut field = |name: &str, value: serde_json::Value| {
            text.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
        };
        if let Some(lost) = &site.lost
            && let Ok(value) = serde_json::to_value(LostForm::of(lost))
        {
            field("lost", value);
        }
        if let Some(name) = self.types.of(site) {
            field("type", name.into());
        }
        if let Some(operator) = self.types.operator(site) {
            field("operator", operator.into());
        }
        if let Some(Some(rule)) = self.rules.get(index) {
            field("suppressed", rule.text().into());
            field("suppressed_by", rule.list().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_attribution::Glue;
    use allotrope_profile::{Profile, Stack};

    #[test]
    fn many_sites_are_one_valid_list_in_their_order() {
        let site = |index: usize| Site {
            stack: Stack::from((0..index as u32 % 4).collect::<Vec<_>>()),
            allocations: index as u64,
            ..Site::default()
        };
        for count in [0, 1, 2, PIECE, PIECE + 1, 2 * PIECE, 4 * PIECE + 3] {
            let sites: Vec<Site> = (0..count).map(site).collect();
            let mut text = b"[".to_vec();
            let profile = Profile::default();
            let types = BlockTypes::new(&profile);
            let additions = Additions {
                rules: &[],
                per: Some(2.0),
                types: &types,
                headlines: &Headlines::new(&profile, &Glue::none()),
                duration_us: 0,
            };
            write(&sites, &additions, &Numbers::new(3), &mut text).unwrap();
            text.push(b']');
            let read: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
            assert_eq!(read.len(), count);
            for (index, site) in read.iter().enumerate() {
                assert_eq!(site["allocations"], index);
                assert_eq!(site["stack"].as_array().map(Vec::len), Some(index % 4));
                assert_eq!(site["lifetime_mean_us"], 0.0);
                assert_eq!(site["allocations_each"], index as f64 / 2.0);
            }
        }
    }
}
