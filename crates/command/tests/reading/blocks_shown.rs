//! `show --blocks`: single blocks of `programs/one_by_one.c`, whose comment has their number,
//! order, sizes and where each is freed.

use crate::support::{Ended, Recording, Text, allotrope, compiled, record};
use serde_json::Value;

fn recorded(options: &[&str]) -> Recording {
    let program = record(compiled("one_by_one.c"));
    let program = options
        .iter()
        .fold(program, |program, it| program.option(it));
    program.run().ok()
}

fn show(recording: &Recording, words: &[&str]) -> Ended {
    let trace = recording.trace.to_str().expect("UTF-8");
    let first = ["show", trace, "make_block", "--blocks"];
    allotrope(first.iter().chain(words).copied())
}

fn blocks(recording: &Recording, words: &[&str]) -> (Value, Vec<Value>) {
    let shown = show(recording, &[&["--format", "json"], words].concat());
    assert_eq!(shown.status.code(), Some(0), "{}", shown.errors());
    let json = shown.json();
    let blocks = json["blocks"].as_array().expect("a list").clone();
    (json, blocks)
}

fn sizes(blocks: &[Value]) -> Vec<u64> {
    let sizes = blocks.iter().map(|it| it["bytes"].as_u64());
    sizes.map(|it| it.expect("a number")).collect()
}

/// How often a function is in a stack of the document.
fn occurrences(json: &Value, stack: &Value, function: &str) -> usize {
    let number = stack.as_u64().expect("the number of a stack") as usize;
    let frames = json["stacks"][number].as_array().expect("frames");
    frames
        .iter()
        .filter(|it| it["function"] == function)
        .count()
}

#[test]
fn each_block_has_its_size_and_both_stacks_also_beyond_the_64_that_a_site_lists() {
    let recording = recorded(&["--free-stacks"]);
    let (json, blocks) = blocks(&recording, &["--top", "1000"]);
    assert_eq!(json["format"], "allotrope-blocks/1");
    assert_eq!(
        (&json["order"], &json["subject"]),
        (&"time".into(), &"make_block".into())
    );
    assert_eq!(json["blocks_in_range"], 101);
    // 1 + 2 + … + 100, and 5,000.
    assert_eq!(json["bytes_in_range"], 5050 + 5000);
    let expected: Vec<u64> = (1..=100).chain([5000]).collect();
    assert_eq!(sizes(&blocks), expected);
    for (block, n) in blocks.iter().zip(1..=100) {
        assert_eq!(occurrences(&json, &block["allocated_at"], "make_block"), 1);
        assert_eq!(occurrences(&json, &block["freed_at"], "deeper"), n);
        assert!(block["lifetime_us"].is_f64(), "{block}");
    }
    assert_eq!(blocks[100]["freed_at"], Value::Null);
    assert_eq!(blocks[100]["lifetime_us"], Value::Null);
    let times: Vec<f64> = blocks
        .iter()
        .filter_map(|it| it["allocated_us"].as_f64())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn orders_and_ranges_choose_blocks() {
    let recording = recorded(&[]);
    let (json, largest) = blocks(&recording, &["--order", "size", "--top", "3"]);
    assert_eq!(sizes(&largest), [5000, 100, 99]);
    assert_eq!(
        (&json["blocks_in_range"], &json["free_stacks"]),
        (&101.into(), &false.into())
    );
    // The one that is never freed lives longest.
    let (_, longest) = blocks(&recording, &["--order", "lifetime", "--top", "1"]);
    assert_eq!(sizes(&longest), [5000]);
    let (_, first) = blocks(&recording, &[]);
    assert_eq!(sizes(&first), (1..=10).collect::<Vec<u64>>());
    // The last block comes 50 ms after the others and more.
    let (all, _) = blocks(&recording, &["--top", "200"]);
    let at = |block: usize| all["blocks"][block]["allocated_us"].as_f64();
    let [last_but_one, last] = [99, 100].map(|it| at(it).expect("a time"));
    let before = format!("{}us", (last_but_one + last) / 2.0);
    let (json, late) = blocks(&recording, &["--from", &before]);
    assert_eq!(sizes(&late), [5000]);
    assert_eq!(json["blocks_in_range"], 1);
    let (json, early) = blocks(&recording, &["--to", &before, "--top", "200"]);
    assert_eq!(early.len(), 100);
    assert!(json["to_us"].is_f64());
}

#[test]
fn the_text_has_a_line_for_each_block_and_the_stacks_below() {
    let recording = recorded(&["--free-stacks"]);
    let text = show(&recording, &["--top", "2"]).text();
    text.has("101 blocks, 9.8 KiB; in order of time");
    text.has("… 99 more (--top N shows more)");
    text.has("F2");
    text.has("Freed at");
    text.lacks("F3");
    let without = recorded(&[]);
    show(&without, &["--top", "2"]).has("record with --free-stacks");
}

#[test]
fn what_cannot_be_listed_is_refused_in_a_sentence() {
    let recording = recorded(&[]);
    for (words, sentence) in [
        (&["--from", "1h"][..], "there is no such mark"),
        (&["--from", "100s"], "is after the end"),
        (&["--from", "2ms", "--to", "1ms"], "is not before --to"),
    ] {
        let refused = show(&recording, words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(refused.errors().contains(sentence), "{}", refused.errors());
    }
    let trace = recording.trace.to_str().expect("UTF-8");
    let refused = allotrope(["show", trace, "--blocks"]);
    assert_eq!(refused.status.code(), Some(2));
    let folded = recording.trace.with_extension("folded");
    std::fs::write(&folded, "main;f 5\n").expect("writable");
    let refused = allotrope(["show", folded.to_str().expect("UTF-8"), "f", "--blocks"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        refused.errors().contains("leave --blocks out"),
        "{}",
        refused.errors()
    );
}
