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

use crate::model::{Module, Profile, Site, UNKNOWN_MODULE};
use crate::named_frame::Frame;
use crate::sampled::SampledProfile;

/// Least percentage of the allocations whose stacks have nameless code of a stripped module,
/// or of none, for a sentence that people see. Below it the code is in none of the stacks
/// that a report begins with.
pub const MIN_PERCENT: u64 = 5;

/// Code that has addresses without names.
#[derive(Debug, Default)]
struct Nameless {
    /// Frames without a name.
    addresses: u64,
    /// Allocations whose stacks have one of them; of a sampled profile, live bytes.
    weight: u64,
}

/// The nameless code of a module.
#[derive(Debug)]
pub struct NamelessCode {
    /// The module's path; its name in a sentence.
    pub name: String,
    /// Addresses without a name.
    pub addresses: u64,
    /// The weight of the stacks that have one of them.
    pub weight: u64,
    /// Why they have no names.
    pub reason: &'static str,
    /// A reason that most systems have, and that few users can change.
    pub is_usual: bool,
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
    stacks(profile, |site| site.allocations, "allocations")
}

fn of_samples(profile: &SampledProfile) -> Stacks<'_> {
    stacks(&profile.profile, |site| site.leaked_bytes, "live bytes")
}

fn stacks<'a>(profile: &'a Profile, weight: fn(&Site) -> u64, noun: &'static str) -> Stacks<'a> {
    let sites = profile.processes.iter().flat_map(|process| &process.sites);
    Stacks {
        modules: &profile.modules,
        frames: &profile.frames,
        stacks: sites.map(|site| (&site.stack[..], weight(site))).collect(),
        noun,
    }
}

impl Stacks<'_> {
    fn sentences(&self, least_percent: u64) -> Vec<String> {
        let total = self.stacks.iter().map(|(_, weight)| weight).sum();
        let code = self.nameless().into_iter().map(|(index, found)| {
            let module = self.modules.get(index as usize);
            let reason = module.and_then(|it| it.missing);
            let name = module.map_or("Code in no file".into(), |it| text_of_path(&it.path));
            NamelessCode {
                name: name.into_owned(),
                addresses: found.addresses,
                weight: found.weight,
                reason: match module {
                    Some(_) => reason.unwrap_or(MissingNames::Stripped).reason(),
                    None => "no perf map or jitdump that could be read names it",
                },
                is_usual: matches!(reason, None | Some(MissingNames::Stripped)),
            }
        });
        let sentences = sentences(code.collect(), total, self.noun, least_percent);
        sentences.into_iter().map(|it| it + ".").collect()
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

/// The sentences about nameless code in stacks of this weight, that with most weight first; what is
/// usual needs at least this percentage. `noun`: what the weights are.
pub fn sentences(
    mut code: Vec<NamelessCode>,
    total: u64,
    noun: &str,
    least_percent: u64,
) -> Vec<String> {
    let least = u128::from(total) * u128::from(least_percent);
    code.retain(|it| !it.is_usual || u128::from(it.weight) * 100 >= least);
    code.sort_by(|a, b| (b.weight, &a.name).cmp(&(a.weight, &b.name)));
    let sentence = |it: &NamelessCode| {
        let addresses = match it.addresses {
            1 => "1 address has no name".to_owned(),
            many => format!("{} addresses have no names", count(many)),
        };
        let share = share(it.weight, total);
        let NamelessCode { name, reason, .. } = it;
        format!("{name}: {addresses}, in the stacks of {share} of the {noun}: {reason}")
    };
    code.iter().map(sentence).collect()
}
