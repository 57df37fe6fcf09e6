//! `show --why`: the conditions of rules with the numbers of a run. The programs' sources say what these
//! are.

use std::fs;

use crate::findings::in_some_run;
use crate::support::{Ended, Recording, Text, allotrope, compiled, record};
use serde_json::Value;

const WHY: &str = "findings/why.c";
const LEAKS: &str = "findings/leaks.c";
const SHAPES: &str = "findings/shapes.c";

fn recorded(source: &str, case: &str) -> Recording {
    record(compiled(source)).arg(case).run().ok()
}

/// `show FILE` with these words.
fn show(recording: &Recording, words: &[&str]) -> Ended {
    let trace = recording.trace.to_str().expect("UTF-8");
    allotrope(["show", trace].iter().chain(words).copied())
}

/// The candidates of the only rule.
fn candidates(recording: &Recording, words: &[&str]) -> Vec<Value> {
    let json = show(recording, &[words, &["--format", "json"]].concat());
    let json = json.ok().json();
    assert_eq!(json["format"], "allotrope-why/1");
    let rules = json["rules"].as_array().expect("a list");
    assert_eq!(rules.len(), 1, "{json}");
    rules[0]["candidates"].as_array().expect("a list").clone()
}

/// All conditions with this name, also those in groups, of the process and the candidate.
fn conditions<'a>(candidate: &'a Value, name: &str) -> Vec<&'a Value> {
    fn add<'a>(list: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
        for check in list.as_array().into_iter().flatten() {
            if check["name"] == name {
                found.push(check);
            }
            for group in ["any_of", "all_of"] {
                add(&check[group], name, found);
            }
        }
    }
    let mut found = Vec::new();
    for list in ["process_conditions", "conditions"] {
        add(&candidate[list], name, &mut found);
    }
    found
}

#[track_caller]
fn condition<'a>(candidate: &'a Value, name: &str) -> &'a Value {
    let found = conditions(candidate, name);
    found
        .first()
        .unwrap_or_else(|| panic!("no {name} in {candidate}"))
}

/// The names of the conditions that are not met, without those in groups.
fn unmet(candidate: &Value) -> Vec<&str> {
    let lists = ["process_conditions", "conditions"].map(|list| candidate[list].as_array());
    let checks = lists.into_iter().flatten().flatten();
    let unmet = checks.filter(|check| check["met"] == false);
    unmet
        .map(|check| check["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn a_rule_that_fired_shows_its_numbers_beside_the_floors() {
    in_some_run(|| {
        let recording = recorded(LEAKS, "path");
        let found = candidates(&recording, &["--why", "leak"]);
        assert_eq!(found.len(), 1, "{found:?}");
        let leak = &found[0];
        assert_eq!(leak["outcome"]["kind"], "shown", "{leak}");
        assert_eq!(leak["outcome"]["finding"], 1);
        assert_eq!(leak["frame"]["function"], "refuse");
        assert_eq!(unmet(leak), [""; 0]);
        // 200 replies of 120 bytes; 1,800 others and the 50 from the start were freed.
        let blocks = condition(leak, "path_leaked_blocks");
        assert_eq!(
            (&blocks["measured"], &blocks["at_least"]),
            (&200.into(), &3.into())
        );
        assert_eq!(blocks["unit"], "count");
        assert_eq!(condition(leak, "family_freed_blocks")["measured"], 1850);
        let bytes = condition(leak, "leaked_bytes");
        assert_eq!(
            (&bytes["measured"], &bytes["at_least"]),
            (&24000.into(), &4096.into())
        );
        assert_eq!(condition(leak, "kinds")["measured"], 1);
        let text = show(&recording, &["--why", "leak"]).ok().text();
        text.has_all([
            "leak: 1 finding",
            "refuse",
            "It is finding 1",
            "1,850  at least 30",
        ]);
        text.lacks("not met");
    });
}

#[test]
fn a_number_just_under_its_floor_is_what_is_not_met() {
    let under = recorded(WHY, "under");
    let found = candidates(&under, &["--why", "small-blocks"]);
    let letters = &found[0];
    assert_eq!(letters["frame"]["function"], "add_letter");
    assert_eq!(letters["outcome"]["kind"], "not_met");
    assert_eq!(unmet(letters), ["rounding_bytes"]);
    let rounding = condition(letters, "rounding_bytes");
    assert_eq!(rounding["measured"], 65_534);
    assert_eq!(rounding["at_least"], 65_536);
    assert_eq!(condition(letters, "peak_blocks")["measured"], 2114);
    let text = show(&under, &["--why", "small-blocks"]).ok().text();
    text.has_all(["no finding", "1 condition is not met, of 7"]);
    // In KiB both are 64.0.
    text.has("65,534 B  at least 65,536 B");

    let over = recorded(WHY, "over");
    let found = candidates(&over, &["--why", "small-blocks"]);
    assert_eq!(found[0]["outcome"]["kind"], "shown");
    assert_eq!(condition(&found[0], "rounding_bytes")["measured"], 65_565);
}

#[test]
fn a_better_finding_silences_one_that_meets_all() {
    let recording = recorded(SHAPES, "nodes");
    let json = show(&recording, &["--why", "all", "--format", "json"])
        .ok()
        .json();
    let rules = json["rules"].as_array().expect("a list");
    assert_eq!(rules.len(), 12);
    let of_rule = |name: &str| {
        let rule = rules.iter().find(|it| it["rule"] == name).expect("a rule");
        rule["candidates"][0].clone()
    };
    let [small, peak] = ["small-blocks", "peak"].map(of_rule);
    assert_eq!(small["outcome"]["kind"], "shown");
    assert_eq!(peak["outcome"]["kind"], "said_better");
    assert_eq!(peak["outcome"]["rule"], "small-blocks");
    assert_eq!(peak["outcome"]["finding"], small["outcome"]["finding"]);
    assert_eq!(unmet(&peak), [""; 0]);
    assert_eq!(condition(&peak, "peak_bytes")["measured"], 20_000 * 16);
    let text = show(&recording, &["--why", "peak"]).ok().text();
    text.has_all([
        "peak: no finding",
        "add_node",
        "(small-blocks) says the same",
    ]);
    // No signal interrupts anything: it says what would be needed.
    let handler = of_rule("signal-handler");
    assert!(handler["frame"].is_null(), "{handler}");
    assert_eq!(unmet(&handler), ["interrupted", "allocations"]);
}

#[test]
fn a_suppression_and_a_switch_are_named() {
    in_some_run(|| {
        let recording = recorded(LEAKS, "path");
        let list = recording.folder.path().join("expected.txt");
        fs::write(&list, "leak:refuse\n").expect("a writable folder");
        let list = list.to_str().expect("UTF-8");
        let words = ["--why", "leak", "--suppressions", list];
        let found = candidates(&recording, &words);
        let outcome = &found[0]["outcome"];
        assert_eq!(outcome["kind"], "suppressed", "{outcome}");
        assert_eq!(outcome["suppression"], "leak:refuse");
        assert_eq!(outcome["blocks"], 200);
        let text = show(&recording, &words).ok().text();
        text.has_all([
            "200 blocks are expected to leak, by leak:refuse of",
            "expected.txt",
        ]);

        let found = candidates(&recording, &["--why", "leak", "--no-finding", "leak"]);
        assert_eq!(found[0]["outcome"]["kind"], "switched_off");
        assert_eq!(unmet(&found[0]), [""; 0]);
    });
}

#[test]
fn more_than_five_kinds_of_leaks_are_silent_together() {
    in_some_run(|| {
        let recording = recorded(WHY, "kinds");
        let found = candidates(&recording, &["--why", "leak"]);
        assert_eq!(found.len(), 3, "the best three");
        for leak in &found {
            assert_eq!(unmet(leak), ["kinds"], "{leak}");
            let kinds = condition(leak, "kinds");
            assert_eq!(
                (&kinds["measured"], &kinds["at_most"]),
                (&6.into(), &5.into())
            );
            assert_eq!(condition(leak, "leaked_blocks")["measured"], 30);
        }
    });
}

#[test]
fn a_function_is_explained_although_others_come_nearer() {
    in_some_run(|| {
        let recording = recorded(LEAKS, "all");
        let found = candidates(&recording, &["make_reply", "--why", "leak"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["outcome"]["kind"], "not_met");
        // All replies are freed.
        assert_eq!(condition(&found[0], "family_leaked_bytes")["measured"], 0);
        let text = show(&recording, &["make_reply", "--why", "leak"])
            .ok()
            .text();
        text.has("leak: no finding about make_reply");
        // The finding about 100 events.
        let found = candidates(&recording, &["1", "--why", "leak"]);
        assert_eq!(found[0]["frame"]["function"], "note_event");
        assert_eq!(condition(&found[0], "leaked_blocks")["measured"], 100);
    });
}

#[test]
fn lines_of_conditions_fit_a_terminal() {
    let recording = recorded(SHAPES, "nodes");
    let text = show(&recording, &["--why", "all"]).ok().text();
    for line in text.lines() {
        // 100 columns without a terminal.
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn an_unknown_rule_is_refused_with_the_list() {
    let recording = recorded(WHY, "under");
    let said = show(&recording, &["--why", "leaks"]).code(2).errors();
    said.has_all([
        "no finding \"leaks\"",
        "small-blocks",
        "not-given-back",
        "all",
    ]);
    let said = show(&recording, &["--format", "json"]).code(2).errors();
    said.has("--why");
    let said = show(&recording, &["1", "--blocks", "--why", "leak"])
        .code(2)
        .errors();
    said.has("cannot be used with");
}
