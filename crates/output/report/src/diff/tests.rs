//! The forms of a comparison for people, and that all forms have the same figures.

use allotrope_diff::{Diff, DiffOptions, Kind, compare};
use allotrope_profile::{
    CountedStack, Filter, Metric, MetricSet, MetricValues, StackFrame, StackSet,
};

use super::text_options::DiffTextOptions;
use super::{Selection, flame, json, sections, text};
use crate::Style;
use crate::numbers::count;

/// Stacks as `module`function+offset`, innermost first, separated by blanks.
fn set(stacks: &[(u64, &str)]) -> StackSet {
    let mut set = StackSet {
        known: MetricSet::of(&[Metric::Allocations]),
        ..StackSet::default()
    };
    for (allocations, stack) in stacks {
        let mut figures = MetricValues::default();
        figures[Metric::Allocations as usize] = *allocations;
        let frames = stack.split_whitespace().map(|word| {
            let (module, rest) = word.split_once('`').expect("a module");
            let (function, location) = rest.split_once('@').unwrap_or((rest, "0"));
            set.frames.push(StackFrame {
                function: function.into(),
                module: module.into(),
                file: if location == "0" {
                    "".into()
                } else {
                    "/src/app/server.cc".into()
                },
                line: location.parse().expect("a line"),
                offset: Some(0x10),
                ..StackFrame::default()
            });
            set.frames.len() as u32 - 1
        });
        let frames = frames.collect();
        set.stacks.push(CountedStack {
            frames,
            figures,
            maximum: None,
        });
    }
    set
}

const LOOP: &str = "app`Loop::run@40 app`main@9 libc.so.6`_start";

fn run(added: bool, jitter: u64) -> StackSet {
    let stack = |inner: &str| format!("libc.so.6`malloc {inner} {LOOP}");
    let mut stacks = vec![
        (5_000, stack("app`Buffer::grow@12 app`Server::read@20")),
        (
            if added { 1_001 } else { 999 },
            stack("app`Server::accept@31"),
        ),
        (
            jitter,
            "libc.so.6`malloc app`Pool::wait@77 app`Pool::thread@70 libc.so.6`start_thread".into(),
        ),
    ];
    let name = if added {
        "decodeHeaders"
    } else {
        "parseHeaders"
    };
    stacks.push((
        3_000,
        stack(&format!("app`Header::add@50 app`Server::{name}@55")),
    ));
    if added {
        stacks.push((4_000, stack("app`std::map<std::string,std::vector<std::pair<int,long>>>::insert app`Server::log@61 app`Server::read@22")));
        stacks.push((100, stack("app`Server::log@62 app`Server::read@22")));
    } else {
        stacks.push((250, stack("app`Server::legacy@90")));
    }
    let stacks: Vec<(u64, &str)> = stacks.iter().map(|(n, s)| (*n, s.as_str())).collect();
    set(&stacks)
}

fn runs(added: bool, jitter: &[u64]) -> Vec<StackSet> {
    jitter.iter().map(|&jitter| run(added, jitter)).collect()
}

fn compared(before: &[u64], after: &[u64]) -> (Diff, Vec<StackSet>) {
    let after = runs(true, after);
    let options = DiffOptions {
        per: Some(1000.0),
        ..DiffOptions::default()
    };
    let diff = compare(&runs(false, before), &after, &options).expect("they can be compared");
    (diff, after)
}

fn shown(diff: &Diff, width: usize, selection: Selection, all_frames: bool) -> String {
    let options = DiffTextOptions {
        style: Style {
            color: false,
            width,
        },
        selection,
        all_frames,
        titles: [
            vec!["before.allotrope".into()],
            vec!["after.allotrope".into()],
        ],
        ..DiffTextOptions::default()
    };
    let mut out = Vec::new();
    text::write(diff, &options, &mut out).expect("memory takes everything");
    let text = String::from_utf8(out).expect("text");
    for line in text.lines() {
        assert!(line.chars().count() <= width.max(40), "{line}");
        assert_eq!(line.trim_end(), line, "no blanks at the end");
    }
    text
}

#[test]
fn text_at_80_columns() {
    let (diff, _) = compared(&[20], &[20]);
    insta::assert_snapshot!(shown(&diff, 80, Selection::default(), false));
}

#[test]
fn text_of_several_runs_with_whole_stacks() {
    let (diff, _) = compared(&[10, 30, 20], &[25, 15, 35]);
    let selection = Selection {
        min: 3,
        expand: true,
        ..Selection::default()
    };
    insta::assert_snapshot!(shown(&diff, 80, selection, true));
}

#[test]
fn lines_fit_every_width() {
    let (diff, _) = compared(&[10, 30, 20], &[25, 15, 35]);
    for width in [0, 40, 50, 79, 200] {
        for all_frames in [false, true] {
            let selection = Selection {
                filter: Some(Filter::new("Server", false)),
                expand: all_frames,
                ..Selection::default()
            };
            shown(&diff, width, selection, all_frames);
        }
    }
}

#[test]
fn colour_changes_no_character() {
    let (diff, _) = compared(&[20], &[20]);
    let write = |color| {
        let options = DiffTextOptions {
            style: Style { color, width: 80 },
            ..DiffTextOptions::default()
        };
        let mut out = Vec::new();
        text::write(&diff, &options, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("text")
    };
    let mut plain = String::new();
    let mut parts = write(true);
    while let Some((text, rest)) = parts.split_once('\x1b') {
        plain.push_str(text);
        parts = rest.split_once('m').expect("a colour ends").1.to_owned();
    }
    plain.push_str(&parts);
    assert_eq!(plain, write(false));
}

#[test]
fn json_and_sections_of_the_same() {
    let (diff, _) = compared(&[20], &[20]);
    let mut out = Vec::new();
    json::write(&diff, &Selection::default(), &mut out).expect("memory takes everything");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let entries = value["entries"].as_array().expect("a list");
    let sum: i64 = entries
        .iter()
        .filter_map(|entry| entry["difference"].as_i64())
        .sum();
    assert_eq!(sum, diff.difference);
    assert_eq!(sum, 1_001 - 999 + 4_000 + 100 - 250);
    let mut out = Vec::new();
    let expand = Selection {
        expand: true,
        ..Selection::default()
    };
    sections::write(&diff, &expand, &mut out).expect("memory takes everything");
    insta::assert_snapshot!(String::from_utf8(out).expect("text"));
}

#[test]
fn the_flame_graph_is_as_wide_as_both_sides() {
    let (diff, after) = compared(&[20], &[20]);
    let mut out = Vec::new();
    flame::write(&diff, &after, None, &mut out).expect("memory takes everything");
    let drawn = String::from_utf8(out).expect("text");
    // Stacks are as wide as the larger side: 250 are gone, 1,001 were 999.
    let wide = 5_000 + 1_001 + 20 + 3_000 + 4_000 + 100 + 250;
    assert!(
        drawn.contains(&format!("<title>all ({} ", count(wide))),
        "{wide}"
    );
    for part in [
        "Server::legacy (250 → 0, -250)",
        "Buffer::grow (5,000, no change)",
    ] {
        assert!(drawn.contains(part), "{part}");
    }
    assert!(
        !drawn.contains("parseHeaders"),
        "renamed: under its new name only"
    );
}

#[test]
fn jitter_is_no_rise() {
    let (diff, after) = compared(&[10, 30, 20], &[25, 15, 35]);
    assert!(diff.entries.iter().any(|entry| entry.kind == Kind::Jitter));
    let all = Selection::default();
    assert_eq!(all.rise(&diff), 1_001 - 999 + 4_000 + 100 - 250);
    let accepts = Selection {
        filter: Some(Filter::new("accept", false)),
        ..Selection::default()
    };
    assert_eq!(accepts.rise(&diff), 1_001 - 999);
    assert_eq!(
        accepts.before(&diff, &after),
        0,
        "no run has the total of the diff"
    );
    assert_eq!(accepts.before(&diff, &runs(false, &[20])), 999);
}
