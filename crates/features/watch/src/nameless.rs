//! Sentences about modules without names among the stacks of a report: the number of
//! addresses, the share of the live bytes that are shown, and the reason.

use std::collections::{BTreeMap, BTreeSet};

use allotrope_profile::warnings::nameless::NamelessCode;
use allotrope_text::shown;
use allotrope_trace::model::MissingNames;

use crate::report::SiteRow;

const STRIPPED: &str = MissingNames::Stripped.reason();

/// The sentences, the module with most live bytes first. Stripped files need at least this
/// percentage. A library that only lacks the names of its inner functions is left out.
pub(crate) fn sentences(sites: &[SiteRow], least_percent: u64) -> Vec<String> {
    let mut found: BTreeMap<(&str, &'static str), (BTreeSet<u64>, u64)> = BTreeMap::new();
    let mut named = BTreeSet::new();
    let mut total = 0;
    for site in sites {
        let bytes = site.sums.live.bytes().value.round() as u64;
        total += bytes;
        let mut modules = BTreeSet::new();
        for frame in &site.stack {
            if !frame.function.is_empty() {
                named.insert(&*frame.module.module);
            }
            let Some(reason) = frame.module.missing else {
                continue;
            };
            let key = (&*frame.module.module, reason);
            let (addresses, weight) = found.entry(key).or_default();
            addresses.insert(frame.module.address);
            if modules.insert(key) {
                *weight += bytes;
            }
        }
    }
    found.retain(|(module, reason), _| *reason != STRIPPED || !named.contains(module));
    let code = found
        .into_iter()
        .map(|((module, reason), (addresses, weight))| NamelessCode {
            name: shown(module).into_owned(),
            addresses: addresses.len() as u64,
            weight,
            reason,
            is_usual: reason == STRIPPED,
        });
    let noun = "live bytes that are shown";
    allotrope_profile::warnings::nameless::sentences(code.collect(), total, noun, least_percent)
}

#[cfg(test)]
mod tests {
    use allotrope_profile::warnings::nameless::MIN_PERCENT;
    use allotrope_sampling::Period;

    use super::*;
    use crate::history::Trend;
    use crate::names::{Frame, Place};
    use crate::sites::Sums;

    const GONE: &str = "its file is gone";

    fn frame(function: &str, module: &str, missing: Option<&'static str>) -> Frame {
        Frame {
            function: function.into(),
            module: Place {
                module: module.into(),
                address: 1,
                missing,
            },
            ..Frame::default()
        }
    }

    /// A site of this many blocks of 1 MiB.
    fn site(blocks: u64, stack: Vec<Frame>) -> SiteRow {
        let mut sums = Sums::new(Period::DEFAULT);
        for _ in 0..blocks {
            sums.live.add(1 << 20, Period::DEFAULT);
        }
        SiteRow {
            oldest: 0,
            trend: Trend::Flat,
            evidence: None,
            key: 0,
            history: Vec::new(),
            processes: Vec::new(),
            sums,
            stack,
            headline: 0,
        }
    }

    #[test]
    fn little_code_of_a_stripped_file_is_left_out_but_no_file_that_is_gone() {
        let main = || frame("main", "/srv/server", None);
        let sites = [
            site(97, vec![main()]),
            site(2, vec![frame("", "/bin/dash", Some(STRIPPED)), main()]),
            site(1, vec![frame("", "/srv/old.so", Some(GONE)), main()]),
            site(0, vec![frame("", "/lib/libc.so.6", Some(STRIPPED))]),
            site(0, vec![frame("qsort", "/lib/libc.so.6", None)]),
        ];
        let gone = "/srv/old.so: 1 address has no name, in the stacks of 1.0 % of the live bytes that are shown: its file is gone";
        assert_eq!(sentences(&sites, MIN_PERCENT), [gone]);
        let all = sentences(&sites, 0);
        assert_eq!(all.len(), 2);
        assert!(
            all[0].starts_with("/bin/dash: ") && all[0].contains("2.0 %"),
            "{all:?}"
        );
        assert_eq!(all[1], gone);
    }
}
