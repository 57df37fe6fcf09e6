//! Suppressed leaks: which rule suppresses a site, and the line that says how much a
//! ranking leaves out.

use std::collections::BTreeMap;
use std::fmt;

use allotrope_attribution::{Attributed, FrameText, Matcher, Rule, Suppressions};
use allotrope_profile::Site;

use crate::numbers::{bytes, plural};

/// The texts of a frame, by its index.
type Texts<'a> = Box<dyn Fn(u32) -> Option<FrameText<'a>> + 'a>;

/// Finds the rules that suppress the leaks of sites.
pub(crate) struct RuleFinder<'a> {
    matcher: Matcher<'a, Texts<'a>>,
}

impl<'a> RuleFinder<'a> {
    pub(crate) fn new(attributed: &'a Attributed<'a>, suppressions: &'a Suppressions) -> Self {
        let text = |frame| attributed.text(frame);
        Self {
            matcher: Matcher::new(suppressions, Box::new(text)),
        }
    }

    /// The rule that suppresses the leaks of a site; `None` if it has none.
    pub(crate) fn rule(&mut self, site: &Site) -> Option<&'a Rule> {
        match site.leaked_allocations {
            0 => None,
            _ => self.matcher.rule(&site.stack),
        }
    }
}

/// What the rules of each list suppress.
#[derive(Debug, Default)]
pub(crate) struct Suppressed<'a> {
    lists: BTreeMap<&'a str, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    sites: u64,
    blocks: u64,
    bytes: u64,
}

impl<'a> Suppressed<'a> {
    /// Adds the leaks of sites that are shown as one.
    pub(crate) fn add(&mut self, sites: &[(&Site, &'a Rule)]) {
        let mut lists: Vec<&str> = Vec::new();
        for (site, rule) in sites {
            let list = rule.list_in_words();
            let sum = self.lists.entry(list).or_default();
            sum.blocks = sum.blocks.saturating_add(site.leaked_allocations);
            sum.bytes = sum.bytes.saturating_add(site.leaked_bytes);
            if !lists.contains(&list) {
                lists.push(list);
                sum.sites += 1;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Number of blocks and their bytes.
    pub(crate) fn total(&self) -> [u64; 2] {
        let sums = self.lists.values();
        sums.fold([0; 2], |[blocks, bytes], sum| {
            [
                blocks.saturating_add(sum.blocks),
                bytes.saturating_add(sum.bytes),
            ]
        })
    }
}

/// `3 blocks with 75.0 KiB at 2 sites by the built-in list`, for each list.
impl fmt::Display for Suppressed<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (list, sum)) in self.lists.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(
                to,
                "{comma}{} with {} at {} by {list}",
                plural(sum.blocks as usize, "block", "blocks"),
                bytes(sum.bytes),
                plural(sum.sites as usize, "site", "sites"),
            )?;
        }
        Ok(())
    }
}
