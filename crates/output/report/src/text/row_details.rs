//! What the blocks of a row are: entry points, sizes, and which threads allocate and free them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_attribution::BlockTypes;
use allotrope_profile::{Process, Site, SiteDetails, SiteThread, ThreadPair};

use crate::numbers::{bytes, count, duration, share};
use crate::selection::Row;
use crate::shorten::clean;

/// The most entry points, sizes and pairs of threads in a line.
const MAX: usize = 3;

/// The details of all sites of a row, if they were gathered.
pub(super) fn merged(row: &Row<'_>) -> Option<SiteDetails> {
    let mut details = SiteDetails::default();
    for site in &row.sites {
        details.merge(site.details.as_ref()?);
    }
    Some(details)
}

/// The lines of a site in full.
pub(super) fn lines(
    details: &SiteDetails,
    row: &Row<'_>,
    types: &BlockTypes<'_>,
) -> Vec<(&'static str, String)> {
    let mut all = vec![("through", entries(details, operator(row, types)))];
    all.extend(type_names(types, row.sites.iter().copied()).map(|names| ("type", names)));
    all.push(("sizes", sizes(details)));
    if row.process.threads.len() > 1 {
        all.push(("threads", threads(details, row.process)));
    }
    if !details.frees.is_empty() {
        all.push(("freed by", frees(&details.frees, row.process)));
    }
    all
}

/// The operator of C++ through which all blocks of the row were allocated, if it is one.
fn operator(row: &Row<'_>, types: &BlockTypes<'_>) -> Option<&'static str> {
    let mut operators = row.sites.iter().map(|site| types.operator(site));
    let first = operators.next()??;
    operators.all(|it| it == Some(first)).then_some(first)
}

/// The types of the blocks of some sites, those with most bytes first; `None` if none is known.
pub(super) fn type_names<'a>(
    types: &BlockTypes<'_>,
    sites: impl Iterator<Item = &'a Site>,
) -> Option<String> {
    let mut sums: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for site in sites {
        let sum = sums.entry(types.of(site)).or_default();
        *sum = sum.saturating_add(site.allocated_bytes);
    }
    if sums.keys().all(Option::is_none) {
        return None;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|&(name, bytes)| (Reverse(bytes), name));
    let name = |(name, _): &(Option<&str>, u64)| clean(name.unwrap_or("[unknown]"));
    Some(listed(sums.iter().map(name)))
}

fn entries(details: &SiteDetails, operator: Option<&str>) -> String {
    let one = |it: &allotrope_profile::SiteEntry| {
        let alignment = match it.alignment {
            0 => String::new(),
            alignment => format!(", aligned to {}", bytes(alignment)),
        };
        let times = match details.entries.len() {
            1 => String::new(),
            _ => format!(" {}", count(it.allocations)),
        };
        format!("{}{times}{alignment}", it.entry.name())
    };
    let functions = listed(details.entries.iter().map(one));
    match operator {
        Some(operator) => format!("{operator} ({functions})"),
        None => functions,
    }
}

fn sizes(details: &SiteDetails) -> String {
    if details.smallest_bytes == details.largest_bytes {
        return format!("all {}", bytes(details.largest_bytes));
    }
    let range = format!(
        "{} to {}",
        bytes(details.smallest_bytes),
        bytes(details.largest_bytes)
    );
    let mut classes = details.sizes.clone();
    let allocations: u64 = classes.iter().map(|class| class.allocations).sum();
    classes.sort_by_key(|class| !class.allocations);
    let one = |class: &allotrope_profile::SizeClass| {
        let part = share(class.allocations, allocations);
        format!("{part} up to {}", bytes(class.up_to_bytes))
    };
    match classes.len() {
        1 => range,
        _ => format!("{range}: {}", listed(classes.iter().map(one))),
    }
}

/// Which threads allocate the blocks.
fn threads(details: &SiteDetails, process: &Process) -> String {
    let allocations: u64 = details.threads.iter().map(|it| it.allocations).sum();
    let one = |it: &SiteThread| {
        let part = match details.threads.len() {
            1 => String::new(),
            _ => format!(" {}", share(it.allocations, allocations)),
        };
        let name = it.thread.map(|it| thread(process, it));
        format!("{}{part}", name.as_deref().unwrap_or("others"))
    };
    listed(details.threads.iter().map(one))
}

/// Which threads free the blocks, and after how long.
fn frees(pairs: &[ThreadPair], process: &Process) -> String {
    let freed: u64 = pairs.iter().map(|pair| pair.lifetimes.blocks).sum();
    let one = |pair: &ThreadPair| {
        let part = match pairs.len() {
            1 => String::new(),
            _ => format!(" {}", share(pair.lifetimes.blocks, freed)),
        };
        let after = duration(pair.lifetimes.mean_us());
        match (pair.allocated_by, pair.freed_by) {
            (Some(allocated), Some(freed)) if allocated == freed => {
                let thread = thread(process, allocated);
                format!("{thread}, which allocated them{part}, after {after}")
            }
            (Some(allocated), Some(freed)) => format!(
                "{}, allocated by {}{part}, after {after}",
                thread(process, freed),
                thread(process, allocated)
            ),
            _ => format!("others{part}, after {after}"),
        }
    };
    pairs_listed(pairs.iter().map(one))
}

/// The kernel's id and the name of a thread.
pub(super) fn thread(process: &Process, index: u32) -> String {
    match process.threads.get(index as usize) {
        Some(thread) if thread.tid > 0 && thread.name.is_empty() => thread.tid.to_string(),
        Some(thread) if thread.tid > 0 => format!("{} {}", thread.tid, clean(&thread.name)),
        _ => "an unknown thread".to_owned(),
    }
}

fn listed(all: impl Iterator<Item = String>) -> String {
    joined(all, ", ")
}

fn pairs_listed(all: impl Iterator<Item = String>) -> String {
    joined(all, "; ")
}

/// The first of them, and how many there are besides.
fn joined(all: impl Iterator<Item = String>, separator: &str) -> String {
    let all: Vec<String> = all.collect();
    let mut text = all[..all.len().min(MAX)].join(separator);
    if all.len() > MAX {
        text.push_str(&format!("{separator}{} more", all.len() - MAX));
    }
    text
}
