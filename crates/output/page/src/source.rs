//! The source code of the page: the lines around each place in the user's own code that a stack
//! of the page has. `SourceLines` finds and reads the files. Code is text like names are: it is
//! escaped, compressed, and never parsed as HTML.
//!
//! There is a limit of bytes. The places of the heaviest sites come first, and how many places
//! have no code for lack of room is counted.

use std::collections::{BTreeMap, BTreeSet};

use allotrope_attribution::Origin;
use allotrope_profile::Process;
use rustc_hash::FxHashSet;

use crate::Page;
use crate::columns::Columns;
use crate::names::Names;
use crate::sites::{PageSite, sums};

/// Lines before and after the place itself.
const AROUND: u32 = 3;
/// Places that are looked up: a hostile recording may name each line of many files.
const MAX_PLACES: usize = 10_000;
/// Bytes of all lines, before compression.
pub const MAX_BYTES: usize = 1 << 20;

/// A line of a file, as frames name it.
type Place<'a> = (&'a str, u32);
/// Lines by their numbers, by file.
type Lines<'a> = BTreeMap<&'a str, BTreeMap<u32, String>>;

/// The columns, and for how many places there was no room.
pub fn encode(
    page: &Page<'_>,
    sites: &[PageSite],
    processes: &[&Process],
    names: &mut Names,
    most: usize,
) -> (Columns, u64) {
    let places = places(page, sites, processes);
    let looked_up = &places[..places.len().min(MAX_PLACES)];
    let all = match most {
        0 => Lines::new(),
        _ => read(page, looked_up),
    };
    let mut chosen: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let mut room = most;
    let mut left_out = places.len() - looked_up.len();
    for &(file, line) in looked_up {
        let Some(lines) = all.get(file).filter(|lines| lines.contains_key(&line)) else {
            // With no room at all nothing was read.
            left_out += usize::from(most == 0);
            continue;
        };
        let chosen = chosen.entry(file).or_default();
        let new = lines
            .range(around(line))
            .filter(|(number, _)| !chosen.contains(number));
        let size = new.clone().map(|(_, text)| text.len() + 1).sum();
        match room.checked_sub(size) {
            Some(left) => {
                room = left;
                chosen.extend(new.map(|(&number, _)| number).collect::<Vec<_>>());
            }
            None => left_out += 1,
        }
    }
    (columns(&all, &chosen, names), left_out as u64)
}

fn around(line: u32) -> std::ops::RangeInclusive<u32> {
    line.saturating_sub(AROUND).max(1)..=line.saturating_add(AROUND)
}

/// The places of the stacks, each once, those of the heaviest sites first. Frames of standard
/// libraries and allocators are left out, which the page folds.
fn places<'a>(page: &Page<'a>, sites: &[PageSite], processes: &[&Process]) -> Vec<Place<'a>> {
    if page.source.is_none() {
        return Vec::new();
    }
    let run = sums(processes);
    let weight = |site: &PageSite| site.weight(processes[site.process as usize], &run);
    let mut order: Vec<(f64, &PageSite)> = sites.iter().map(|it| (weight(it), it)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut seen = FxHashSet::default();
    let mut places = Vec::new();
    for (_, site) in order {
        for &at in site.stack.iter() {
            let Some(frame) = page.profile.frames.get(at as usize) else {
                continue;
            };
            let is_shown = page.headlines.origin(at) != Origin::Glue;
            let place = (&*frame.file, frame.line);
            if is_shown && !place.0.is_empty() && place.1 > 0 && seen.insert(place) {
                places.push(place);
            }
        }
    }
    places
}

/// The lines around places. Each file is passed through once.
fn read<'a>(page: &Page<'_>, places: &[Place<'a>]) -> Lines<'a> {
    let Some(source) = page.source else {
        return Lines::new();
    };
    let mut wanted: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for &(file, line) in places {
        wanted.entry(file).or_default().extend(around(line));
    }
    wanted
        .into_iter()
        .map(|(file, lines)| (file, source.lines(file, &lines).into_iter().collect()))
        .collect()
}

fn columns(all: &Lines<'_>, chosen: &BTreeMap<&str, BTreeSet<u32>>, names: &mut Names) -> Columns {
    let mut files = Vec::new();
    let mut counts = Vec::new();
    let mut numbers = Vec::new();
    let mut text = Vec::new();
    let mut seen = FxHashSet::default();
    for (file, lines) in chosen {
        let name = names.number(file);
        // Long names that were cut may read the same.
        if lines.is_empty() || !seen.insert(name) {
            continue;
        }
        files.push(name);
        counts.push(lines.len() as u64);
        for (number, line) in lines.iter().filter_map(|it| all[file].get_key_value(it)) {
            numbers.push(u64::from(*number));
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
    }
    let mut columns = Columns::default();
    columns.numbers("source.file", files);
    columns.numbers("source.lines", counts);
    columns.differences("source.number", numbers);
    columns.bytes("source.text", text);
    columns
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use allotrope_attribution::{Glue, Headlines};
    use allotrope_profile::{Frame, Profile, Site, Stack};
    use allotrope_report::SourceLines;

    use super::*;

    /// Sites with one frame each: a line of the file, and how many blocks of one byte it allocates.
    fn profile(file: &Path, sites: &[(u32, u64)]) -> Profile {
        let mut process = Process::default();
        let mut frames = Vec::new();
        for (number, &(line, bytes)) in (1..).zip(sites) {
            frames.push(Frame {
                function: format!("function_{number}").into(),
                file: file.to_string_lossy().into(),
                line,
                ..Frame::default()
            });
            process.sites.push(Site {
                number,
                stack: Stack::from(vec![number - 1]),
                allocations: bytes,
                allocated_bytes: bytes,
                ..Site::default()
            });
            process.totals.allocations += bytes;
            process.totals.allocated_bytes += bytes;
        }
        Profile {
            frames,
            processes: vec![process],
            ..Profile::default()
        }
    }

    /// What is encoded, and for how many places there was no room.
    fn encoded(profile: &Profile, source: Option<&SourceLines>, most: usize) -> (String, u64) {
        let headlines = Headlines::new(profile, &Glue::default());
        let page = Page {
            profile,
            headlines: &headlines,
            findings: &[],
            file: "x",
            sampled: None,
            imported: None,
            boundaries: &[],
            peaks: &[],
            source,
        };
        let processes: Vec<&Process> = profile.processes.iter().collect();
        let sites: Vec<PageSite> = processes[0]
            .sites
            .iter()
            .map(|site| PageSite::new(0, site, &headlines))
            .collect();
        let mut names = Names::with_at_most(1000);
        let (columns, left_out) = encode(&page, &sites, &processes, &mut names, most);
        let bytes = columns.encode();
        let key = b"source.text";
        let at = bytes.windows(key.len()).position(|it| it == key);
        // After the name there is the length: one byte below 128, else two in these tests.
        let rest = &bytes[at.expect("the column") + key.len()..];
        let skipped = rest
            .iter()
            .position(|byte| byte & 0x80 == 0)
            .expect("an end")
            + 1;
        let text = String::from_utf8(rest[skipped..].to_vec()).expect("UTF-8");
        (text, left_out)
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.c");
        fs::write(&path, text).expect("it is written");
        (folder, path)
    }

    #[test]
    fn a_place_has_the_lines_around_it_and_lines_are_there_once() {
        let text: String = (1..=20).map(|number| format!("line {number}\n")).collect();
        let (_folder, path) = file(&text);
        let source = SourceLines::default();
        let (text, left_out) = encoded(
            &profile(&path, &[(2, 10), (10, 10), (12, 10), (20, 10)]),
            Some(&source),
            MAX_BYTES,
        );
        let expected = (1..=5).chain(7..=15).chain(17..=20);
        let expected: String = expected.map(|number| format!("line {number}\n")).collect();
        assert_eq!((text, left_out), (expected, 0));
    }

    #[test]
    fn the_heaviest_places_come_first_and_the_others_are_counted() {
        let text: String = (1..=100).map(|number| format!("{number:09}\n")).collect();
        let (_folder, path) = file(&text);
        let source = SourceLines::default();
        let of = |most| {
            let sites = [(20, 1), (40, 1000), (60, 10)];
            encoded(&profile(&path, &sites), Some(&source), most)
        };
        let lines = |numbers: std::ops::RangeInclusive<u32>| -> String {
            numbers.map(|number| format!("{number:09}\n")).collect()
        };
        // Seven lines of ten bytes are a place.
        assert_eq!(of(139), (lines(37..=43), 2));
        assert_eq!(of(140), (lines(37..=43) + &lines(57..=63), 1));
        assert_eq!(of(210).1, 0);
        assert_eq!(of(0), (String::new(), 3));
    }

    #[test]
    fn what_is_not_wanted_or_not_there_is_not_in_it() {
        let (_folder, path) = file("one\n");
        let source = SourceLines::default();
        let one = profile(&path, &[(1, 10)]);
        assert_eq!(encoded(&one, None, MAX_BYTES), (String::new(), 0));
        let beyond = profile(&path, &[(3, 10)]);
        let nothing = (String::new(), 0);
        assert_eq!(encoded(&beyond, Some(&source), MAX_BYTES), nothing);
        let missing = profile(&path.with_extension("h"), &[(1, 10)]);
        assert_eq!(encoded(&missing, Some(&source), MAX_BYTES), nothing);
        assert_eq!(source.warnings().len(), 1);
    }

    #[test]
    fn hostile_code_stays_one_line_of_text() {
        let (_folder, path) = file("a\u{202e}b\x1b[31m</script>\rc\n\tint d;\n");
        let source = SourceLines::default();
        let (text, _) = encoded(&profile(&path, &[(1, 10)]), Some(&source), MAX_BYTES);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[1], "        int d;");
        assert!(!lines[0].contains(['\u{202e}', '\x1b', '\r']), "{text}");
    }
}
