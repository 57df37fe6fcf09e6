//! Code whose addresses have no names: a sentence for each module, with the number of
//! addresses, the share of the allocations, and the reason; and one for code in no module.
//!
//! That a system's program is stripped is usual. For people it is worth a line only if
//! enough of the allocations pass through its nameless code ([`MIN_PERCENT`]); JSON has
//! all sentences.

use std::collections::BTreeMap;

use allotrope_text::numbers::{count, share};
use allotrope_text::text_of_path;
use allotrope_trace::model::MissingNames;
use rustc_hash::FxHashSet;

use crate::model::{Module, Profile, UNKNOWN_MODULE};
use crate::named_frame::Frame;
use crate::sampled::SampledProfile;

/// Least percentage of the allocations whose stacks have nameless code of a stripped module,
/// or of none, for a sentence that people see. Below it the code is in none of the stacks
/// that a report begins with.
const MIN_PERCENT: u64 = 5;

/// Code that has addresses without names.
#[derive(Debug, Default)]
struct Nameless {
    /// Frames without a name.
    addresses: u64,
    /// Allocations whose stacks have one of them; of a sampled profile, live bytes.
    weight: u64,
}

/// The stacks of a profile with their weights.
struct Stacks<'a> {
    modules: &'a [Module],
    frames: &'a [Frame],
    stacks: Vec<(&'a [u32], u64)>,
    /// What the weights are.
    noun: &'static str,
}

/// The sentences about a recording that people see, the code with the most allocations first.
pub(super) fn warnings(profile: &Profile) -> Vec<String> {
    of_recording(profile).sentences(MIN_PERCENT)
}

/// All sentences about a recording.
pub(super) fn all_warnings(profile: &Profile) -> Vec<String> {
    of_recording(profile).sentences(0)
}

/// The sentences about a sampled profile that people see.
pub fn sampled_warnings(profile: &SampledProfile) -> Vec<String> {
    of_samples(profile).sentences(MIN_PERCENT)
}

/// All sentences about a sampled profile.
pub fn all_sampled_warnings(profile: &SampledProfile) -> Vec<String> {
    of_samples(profile).sentences(0)
}

fn of_recording(profile: &Profile) -> Stacks<'_> {
    let sites = profile.processes.iter().flat_map(|process| &process.sites);
    Stacks {
        modules: &profile.modules,
        frames: &profile.frames,
        stacks: sites
            .map(|site| (&site.stack[..], site.allocations))
            .collect(),
        noun: "allocations",
    }
}

fn of_samples(profile: &SampledProfile) -> Stacks<'_> {
    let sites = profile.processes.iter().flat_map(|process| &process.sites);
    let live = |bytes: f64| bytes.round() as u64;
    Stacks {
        modules: &profile.modules,
        frames: &profile.frames,
        stacks: sites
            .map(|site| (&site.stack[..], live(site.figures.live.bytes().value)))
            .collect(),
        noun: "live bytes",
    }
}

impl Stacks<'_> {
    /// The sentences about code with at least this percentage of the weight, and about
    /// modules whose file could not be used.
    fn sentences(&self, least_percent: u64) -> Vec<String> {
        let total: u64 = self.stacks.iter().map(|(_, weight)| weight).sum();
        let module = |index: u32| self.modules.get(index as usize);
        let mut found: Vec<(Option<&Module>, Nameless)> = self
            .nameless()
            .into_iter()
            .map(|(index, found)| (module(index), found))
            .filter(|(module, found)| {
                let reason = module.and_then(|it| it.missing);
                let is_usual = matches!(reason, None | Some(MissingNames::Stripped));
                let percent = u128::from(found.weight) * 100;
                !is_usual || percent >= u128::from(total) * u128::from(least_percent)
            })
            .collect();
        found.sort_by(|(a, first), (b, second)| {
            let path = |module: &Option<&Module>| module.map(|it| it.path.clone());
            let by_weight = second.weight.cmp(&first.weight);
            by_weight.then_with(|| path(a).cmp(&path(b)))
        });
        let sentence = |(module, found): &(Option<&Module>, Nameless)| {
            let name = match module {
                Some(module) => text_of_path(&module.path),
                None => "Code in no file".into(),
            };
            let addresses = match found.addresses {
                1 => "1 address has no name".to_owned(),
                many => format!("{} addresses have no names", count(many)),
            };
            let share = share(found.weight, total);
            let (noun, reason) = (self.noun, reason(*module));
            format!("{name}: {addresses}, in the stacks of {share} of the {noun}: {reason}.")
        };
        found.iter().map(sentence).collect()
    }

    /// The modules with addresses without names, by index: those whose file could not be
    /// used, and those without a single name. That a library keeps the names of its inner
    /// functions to itself is usual. Code in no module has the index [`UNKNOWN_MODULE`].
    fn nameless(&self) -> BTreeMap<u32, Nameless> {
        let mut named = FxHashSet::default();
        let mut nameless: Vec<bool> = Vec::with_capacity(self.frames.len());
        let mut found: BTreeMap<u32, Nameless> = BTreeMap::new();
        for frame in self.frames {
            let is_one = self.is_nameless(frame);
            nameless.push(is_one);
            if is_one {
                found.entry(frame.module).or_default().addresses += 1;
            } else {
                named.insert(frame.module);
            }
        }
        found.retain(|index, _| {
            let module = self.modules.get(*index as usize);
            let reason = module.and_then(|it| it.missing);
            reason != Some(MissingNames::Stripped) || !named.contains(index)
        });
        for (stack, weight) in &self.stacks {
            let mut seen = FxHashSet::default();
            for &frame in *stack {
                let is_nameless = nameless.get(frame as usize) == Some(&true);
                let module = self.frames.get(frame as usize).map(|it| it.module);
                if let Some(module) = module.filter(|_| is_nameless)
                    && seen.insert(module)
                    && let Some(found) = found.get_mut(&module)
                {
                    found.weight += weight;
                }
            }
        }
        found
    }

    fn is_nameless(&self, frame: &Frame) -> bool {
        if !frame.file.is_empty() {
            return false;
        }
        if frame.module == UNKNOWN_MODULE {
            return frame.function.starts_with("0x") && frame.signature.is_empty();
        }
        let module = self.modules.get(frame.module as usize);
        let module = module.filter(|module| module.missing.is_some());
        module.is_some_and(|module| {
            let offset = frame.function.strip_prefix(&*module.name());
            offset.is_some_and(|rest| rest.starts_with("+0x"))
        })
    }
}

fn reason(module: Option<&Module>) -> &'static str {
    match module.map(|it| it.missing) {
        None => "no perf map or jitdump that could be read names it",
        Some(Some(MissingNames::FileGone)) => "its file is gone",
        Some(Some(MissingNames::OtherBuild)) => {
            "the file at its path is another build, or not proven to be the one that ran"
        }
        Some(Some(MissingNames::ProcessGone)) => {
            "its process had ended before the file could be opened, and the file is gone"
        }
        Some(Some(MissingNames::Stripped) | None) => "its file has no symbols",
    }
}
