//! Compresses the data of a page and makes it fit: while it is too large, the part that
//! takes most is encoded again with half as much in it.

use std::cmp::Reverse;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::Page;
use crate::columns::Columns;
use crate::encode::{Limits, encode};

/// Bytes of the elements around the data.
const AROUND: usize = 100;

/// The parts of a recording in base64 with their names, together at most so many bytes.
pub fn fit(page: &Page<'_>, most: usize) -> Vec<(&'static str, String)> {
    let parts = fit_with(
        Limits::of(page.profile),
        |limits| encode(page, limits),
        Limits::halve,
        most,
    );
    let named = parts.into_iter().map(|(part, data)| (part.name(), data));
    named.collect()
}

/// Parts in base64, together at most so many bytes, if limits can make them so small:
/// `encode` encodes what the limits allow, and `halve` halves what there may be of a part;
/// false: there cannot be less.
pub fn fit_with<L, P: Copy>(
    mut limits: L,
    encode: impl Fn(&L) -> Vec<(P, Columns)>,
    halve: impl Fn(&mut L, P) -> bool,
    most: usize,
) -> Vec<(P, String)> {
    loop {
        let parts = encode(&limits);
        let mut done: Vec<(P, String)> = parts
            .into_iter()
            .map(|(part, columns)| (part, compressed(&columns.encode())))
            .collect();
        let sum: usize = done.iter().map(|(_, data)| data.len() + AROUND).sum();
        if sum > most {
            done.sort_by_key(|(_, data)| Reverse(data.len()));
            if done.iter().any(|(part, _)| halve(&mut limits, *part)) {
                continue;
            }
        }
        return done;
    }
}

/// The text of a part: base64 of raw deflate.
pub fn compressed(bytes: &[u8]) -> String {
    STANDARD.encode(deflate(bytes))
}

/// Raw deflate (RFC 1951), which every browser can decompress.
fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    // A vector takes everything.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use allotrope_attribution::{Glue, Headlines};
    use allotrope_profile::{Frame, Process, Profile, Site, Stack, Totals};

    use super::*;
    use crate::encode::Part;

    /// Names that deflate cannot make much shorter.
    fn name(state: &mut u64, characters: usize) -> String {
        let letters = (0..characters).map(|_| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'A' + ((*state >> 33) % 58) as u8)
        });
        letters.collect()
    }

    /// Sites with stacks of two frames of their own and one that all share.
    fn profile(sites: u32, characters: usize) -> Profile {
        let mut state = 7;
        let frame = |function: String| Frame {
            function: function.into(),
            ..Frame::default()
        };
        let mut frames = vec![frame("main".to_owned())];
        let mut process = Process::default();
        for number in 1..=sites {
            let first = frames.len() as u32;
            frames.push(frame(name(&mut state, characters)));
            frames.push(frame(name(&mut state, characters)));
            process.sites.push(Site {
                number,
                stack: Stack::from(vec![first, first + 1, 0]),
                allocations: number.into(),
                allocated_bytes: u64::from(number) * 16,
                ..Site::default()
            });
            process.totals.allocations += u64::from(number);
        }
        Profile {
            frames,
            processes: vec![process],
            ..Profile::default()
        }
    }

    fn with_page<R>(profile: &Profile, what: impl FnOnce(&Page<'_>) -> R) -> R {
        what(&Page {
            profile,
            headlines: &Headlines::new(profile, &Glue::default()),
            findings: &[],
            file: "x",
            sampled: None,
            imported: None,
            boundaries: &[],
            peaks: &[],
            source: None,
        })
    }

    fn size(profile: &Profile, most: usize) -> usize {
        let parts = with_page(profile, |page| fit(page, most));
        parts.iter().map(|(_, data)| data.len() + AROUND).sum()
    }

    /// The sentences of the page.
    fn meta(profile: &Profile) -> String {
        let parts = with_page(profile, |page| encode(page, &Limits::of(profile)));
        let run = parts.iter().find(|(part, _)| *part == Part::Run);
        let bytes = run.map(|(_, columns)| columns.encode()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn long_names_and_many_sites_are_made_to_fit() {
        // 2 * 300 names of 2,000 characters: more than a megabyte.
        assert!(size(&profile(300, 2_000), 300_000) <= 300_000);
        // 2 * 5,000 names of 40: half a megabyte, and cutting them does not help enough.
        assert!(size(&profile(5_000, 40), 100_000) <= 100_000);
    }

    #[test]
    fn of_ten_thousand_processes_those_with_most_allocations_are_in_full() {
        let process = |id: u32| Process {
            id,
            pid: 1_000 + id,
            executable: "/bin/program".into(),
            totals: Totals {
                allocations: 1,
                ..Totals::default()
            },
            ..Process::default()
        };
        let profile = Profile {
            processes: (0..10_000).map(process).collect(),
            ..Profile::default()
        };
        assert!(size(&profile, crate::MAX_BYTES) < 500_000);
        let meta = meta(&profile);
        // 10,000 less 1,024.
        assert!(meta.contains("\"totals_only\":8976"), "{meta}");
        assert!(meta.contains("\"processes\":0"), "{meta}");
        assert!(meta.contains("\"carried\":1024"), "{meta}");
    }

    #[test]
    fn nothing_and_one_site_are_pages_too() {
        let none = Profile::default();
        assert!(size(&none, crate::MAX_BYTES) < 5_000);
        assert!(meta(&none).contains("\"carried\":0"));
        assert!(meta(&profile(1, 5)).contains("\"carried\":1"));
    }

    #[test]
    fn what_fits_is_whole() {
        let small = profile(10, 20);
        assert_eq!(size(&small, usize::MAX), size(&small, 100_000));
    }
}
