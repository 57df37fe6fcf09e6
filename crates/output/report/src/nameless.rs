//! Modules whose addresses have no names: a sentence each, with the number of addresses, the
//! share of the allocations, and the reason.

use std::collections::BTreeMap;

use allotrope_profile::{Module, Profile};
use allotrope_text::text_of_path;
use allotrope_trace::model::MissingNames;
use rustc_hash::FxHashSet;

use crate::numbers::{count, share};

/// A module that has addresses without names.
#[derive(Debug, Default)]
struct Nameless {
    /// Frames without a name.
    addresses: u64,
    /// Allocations whose stacks have one of them.
    allocations: u64,
}

/// The warnings, the module with the most allocations first.
pub(crate) fn warnings(profile: &Profile) -> Vec<String> {
    let modules = modules(profile);
    let sites = profile.processes.iter().flat_map(|process| &process.sites);
    let total: u64 = sites.map(|site| site.allocations).sum();
    let mut found: Vec<(&Module, Nameless)> = modules
        .into_iter()
        .map(|(index, found)| (&profile.modules[index as usize], found))
        .collect();
    found.sort_by(|(a, first), (b, second)| {
        let by_weight = second.allocations.cmp(&first.allocations);
        by_weight.then_with(|| a.path.cmp(&b.path))
    });
    found
        .into_iter()
        .filter_map(|(module, found)| sentence(module, &found, total))
        .collect()
}

/// The modules with addresses without names, by index: those whose file could not be used,
/// and those without a single name. That a library keeps the names of its inner functions to
/// itself is usual.
fn modules(profile: &Profile) -> BTreeMap<u32, Nameless> {
    let is_nameless = |frame: &allotrope_profile::Frame| {
        let name = profile.module_name(frame);
        let offset = frame.function.strip_prefix(&*name);
        offset.is_some_and(|rest| rest.starts_with("+0x")) && frame.file.is_empty()
    };
    let mut named = FxHashSet::default();
    let mut nameless: Vec<Option<u32>> = Vec::with_capacity(profile.frames.len());
    let mut found: BTreeMap<u32, Nameless> = BTreeMap::new();
    for frame in &profile.frames {
        let module = profile.modules.get(frame.module as usize);
        let reason = module.and_then(|module| module.missing);
        let is_one = reason.is_some() && is_nameless(frame);
        nameless.push(is_one.then_some(frame.module));
        if is_one {
            found.entry(frame.module).or_default().addresses += 1;
        } else {
            named.insert(frame.module);
        }
    }
    found.retain(|index, _| {
        let reason = profile.modules[*index as usize].missing;
        reason != Some(MissingNames::Stripped) || !named.contains(index)
    });
    for site in profile.processes.iter().flat_map(|it| &it.sites) {
        let mut seen = FxHashSet::default();
        let modules = site.stack.iter();
        let modules = modules.filter_map(|&frame| *nameless.get(frame as usize)?);
        for module in modules.filter(|&module| seen.insert(module)) {
            if let Some(found) = found.get_mut(&module) {
                found.allocations += site.allocations;
            }
        }
    }
    found
}

fn sentence(module: &Module, found: &Nameless, total: u64) -> Option<String> {
    let reason = match module.missing? {
        MissingNames::FileGone => "its file is gone",
        MissingNames::OtherBuild => {
            "the file at its path is another build, or not proven to be the one that ran"
        }
        MissingNames::ProcessGone => {
            "its process had ended before the file could be opened, and the file is gone"
        }
        MissingNames::Stripped => "its file has no symbols",
    };
    let addresses = match found.addresses {
        1 => "1 address has no name".to_owned(),
        many => format!("{} addresses have no names", count(many)),
    };
    let share = share(found.allocations, total);
    Some(format!(
        "{}: {addresses}, in the stacks of {share} of the allocations: {reason}.",
        text_of_path(&module.path)
    ))
}
