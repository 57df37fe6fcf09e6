//! Compresses the data of a page and makes it fit: while it is too large, the part that
//! takes most is encoded again with half as much in it.

use std::cmp::Reverse;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::Page;
use crate::encode::{Limits, Part, encode};

/// Bytes of the elements around the data.
const AROUND: usize = 100;

/// The parts in base64 with their names, together at most so many bytes.
pub fn fit(page: &Page<'_>, most: usize) -> Vec<(&'static str, String)> {
    let mut limits = Limits::of(page.profile);
    loop {
        let parts = encode(page, &limits);
        let mut done: Vec<(Part, String)> = parts
            .into_iter()
            .map(|(part, columns)| (part, STANDARD.encode(deflate(&columns.encode()))))
            .collect();
        let sum: usize = done.iter().map(|(_, data)| data.len() + AROUND).sum();
        if sum > most {
            done.sort_by_key(|(_, data)| Reverse(data.len()));
            if done.iter().any(|(part, _)| limits.halve(*part)) {
                continue;
            }
        }
        let named = done.into_iter().map(|(part, data)| (part.name(), data));
        return named.collect();
    }
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
    use allotrope_diff::{Glue, Headlines};
    use allotrope_profile::{Frame, Profile, Site, Stack};

    use super::*;
    use crate::sampled::process_without_events;

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
            function,
            ..Frame::default()
        };
        let mut frames = vec![frame("main".to_owned())];
        let mut process = process_without_events();
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

    fn size(profile: &Profile, most: usize) -> usize {
        let headlines = Headlines::new(profile, &Glue::default());
        let page = Page {
            profile,
            headlines: &headlines,
            findings: &[],
            file: "x",
            sampled: None,
            boundaries: &[],
            source: None,
        };
        let parts = fit(&page, most);
        parts.iter().map(|(_, data)| data.len() + AROUND).sum()
    }

    #[test]
    fn long_names_and_many_sites_are_made_to_fit() {
        // 2 * 300 names of 2,000 characters: more than a megabyte.
        assert!(size(&profile(300, 2_000), 300_000) <= 300_000);
        // 2 * 5,000 names of 40: half a megabyte, and cutting them does not help enough.
        assert!(size(&profile(5_000, 40), 100_000) <= 100_000);
    }

    #[test]
    fn what_fits_is_whole() {
        let small = profile(10, 20);
        assert_eq!(size(&small, usize::MAX), size(&small, 100_000));
    }
}
