//! The frame to look at for some sites, and the functions that call it.

use std::path::Path;

use allotrope_profile::{Frame, Site};
use rustc_hash::FxHashMap;

use crate::context::Context;

/// A caller is named if it has this part of the weight.
const MAX_OF_IT: f64 = 0.8;
/// Largest number of callers that are named.
const NAMED: usize = 3;

/// The language of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
    Rust,
    Other,
}

impl Context<'_> {
    /// The headline frame with the largest weight.
    pub(crate) fn frame(&self, sites: &[u32], weight: impl Fn(&Site) -> u64) -> Option<u32> {
        let mut weights: FxHashMap<u32, u64> = FxHashMap::default();
        for &site in sites {
            if let Some(head) = self.head(site) {
                *weights.entry(head).or_default() += weight(self.site(site));
            }
        }
        let heaviest = weights
            .into_iter()
            .max_by_key(|&(frame, weight)| (weight, std::cmp::Reverse(frame)));
        heaviest.map(|(frame, _)| frame)
    }

    /// The numbers of the sites, those with the largest weight first.
    pub(crate) fn numbers_of(&self, sites: &[u32], weight: impl Fn(&Site) -> u64) -> Vec<u32> {
        let mut numbers: Vec<&Site> = sites.iter().map(|&site| self.site(site)).collect();
        numbers.sort_by_key(|site| std::cmp::Reverse(weight(site)));
        numbers.into_iter().map(|site| site.number).collect()
    }

    /// The functions that a finding with this frame is about: that of the frame, and the others that
    /// its sites' blocks are of.
    pub(crate) fn functions(&self, frame: Option<u32>, sites: &[u32]) -> (Option<u32>, Vec<u32>) {
        let named = frame.map(|frame| self.frames.function(frame));
        let heads = sites.iter().filter_map(|&site| self.head(site));
        let mut others: Vec<u32> = heads.map(|head| self.frames.function(head)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&function| Some(function) != named);
        (named, others)
    }

    fn of_frame(&self, frame: Option<u32>) -> Option<&Frame> {
        self.profile.frames.get(frame? as usize)
    }

    /// The name of a frame's function.
    pub(crate) fn function_name(&self, frame: Option<u32>) -> String {
        let frame = self.of_frame(frame);
        frame.map_or_else(
            || "an unknown function".to_owned(),
            |frame| allotrope_text::shown(&frame.function).into_owned(),
        )
    }

    /// The language of a frame's source file.
    pub(crate) fn language(&self, frame: Option<u32>) -> Language {
        let file = self.of_frame(frame).map(|frame| Path::new(&*frame.file));
        match file.and_then(Path::extension).and_then(|it| it.to_str()) {
            Some("rs") => Language::Rust,
            Some("c") => Language::C,
            Some("cc" | "cpp" | "cxx" | "C" | "hpp" | "hh" | "hxx" | "h") => Language::Cxx,
            _ => Language::Other,
        }
    }

    /// ` (called by a ← b)` for the [callers](Self::callers); empty if there are none.
    pub(crate) fn called_by(&self, sites: &[u32], weight: impl Fn(&Site) -> u64) -> String {
        let callers = self.callers(sites, weight).into_iter();
        let names: Vec<String> = callers
            .map(|frame| self.function_name(Some(frame)))
            .collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" (called by {})", names.join(" ← ")),
        }
    }

    /// Frames of the functions outside of the headline frame that most of the weight comes
    /// through, from the innermost on; without `main`, of which that says nothing.
    pub(crate) fn callers(&self, sites: &[u32], weight: impl Fn(&Site) -> u64) -> Vec<u32> {
        let paths = sites.iter().map(|&site| {
            let mut path: Vec<u32> = Vec::new();
            let mut last = u32::MAX;
            for frame in self.own_frames(site).take(64) {
                let function = self.frames.function(frame);
                if function != last {
                    path.push(frame);
                    last = function;
                }
            }
            (path, weight(self.site(site)))
        });
        let mut paths: Vec<(Vec<u32>, u64)> = paths.collect();
        let all: u64 = paths.iter().map(|(_, weight)| weight).sum();
        let mut callers: Vec<u32> = Vec::new();
        for depth in 1..=NAMED {
            let mut weights: FxHashMap<u32, (u64, u32)> = FxHashMap::default();
            for (path, weight) in &paths {
                if let Some(&frame) = path.get(depth) {
                    let entry = weights
                        .entry(self.frames.function(frame))
                        .or_insert((0, frame));
                    entry.0 += weight;
                }
            }
            let heaviest = weights.into_iter().max_by_key(|(_, (weight, _))| *weight);
            let Some((function, (weight, frame))) = heaviest else {
                break;
            };
            if all == 0 || (weight as f64) < MAX_OF_IT * all as f64 {
                break;
            }
            paths.retain(|(path, _)| {
                path.get(depth)
                    .is_some_and(|&it| self.frames.function(it) == function)
            });
            let name = self.function_name(Some(frame));
            if name == "main" || name.ends_with("::main") {
                break;
            }
            callers.push(frame);
        }
        callers
    }
}
