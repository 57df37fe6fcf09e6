//! `diff --html`: the page has the entries of `diff --format json`, with the same figures in
//! the same order, for each metric. What the page looks like is tested in a browser, in
//! `ui/tests`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::{Ended, Recording, Text, allotrope, compiled, compiled_with, record};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Stated at the head of `changed.c`.
const STEADY: u64 = 500;
const GROWN: [u64; 2] = [999, 1001];
const PLANTED: u64 = 700;

static BEFORE: LazyLock<Recording> = LazyLock::new(|| record(compiled("changed.c")).run().ok());
static AFTER: LazyLock<Recording> = LazyLock::new(|| {
    let program = compiled_with("changed.c", &["-DAFTER"]);
    record(program).run().ok()
});

fn diff(before: &Path, after: &Path, more: &[&OsStr]) -> Ended {
    let words = [OsStr::new("diff"), before.as_os_str(), after.as_os_str()];
    allotrope(words.into_iter().chain(more.iter().copied()))
}

#[track_caller]
fn diff_json(before: &Path, after: &Path, more: &[&str]) -> Value {
    let words = ["--format", "json"].iter().chain(more);
    diff(before, after, &words.map(OsStr::new).collect::<Vec<_>>())
        .ok()
        .json()
}

/// A page that was written, and its data.
struct Page {
    text: String,
    said: String,
    /// Data by part, then by column.
    parts: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    names: Vec<String>,
    meta: Value,
}

#[track_caller]
fn page(before: &Path, after: &Path, more: &[&str]) -> Page {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let mut words = vec![OsStr::new("--html"), out.as_os_str()];
    words.extend(more.iter().map(OsStr::new));
    let output = diff(before, after, &words).ok();
    read(&out, output.errors())
}

/// Reads a page; `said` is what the command said on stderr.
fn read(out: &Path, said: String) -> Page {
    let text = std::fs::read_to_string(out).expect("it was written");
    let mut parts = BTreeMap::new();
    for element in text.split("<script type=\"text/plain\" id=\"data-").skip(1) {
        let (name, rest) = element.split_once("\">").expect("an element");
        let (data, _) = rest.split_once("</script>").expect("its end");
        parts.insert(name.to_owned(), columns(data));
    }
    let text_of = |part: &str, column: &str| {
        let bytes: &Vec<u8> = &parts[part][column];
        String::from_utf8(bytes.clone()).expect("text")
    };
    let names = text_of("names", "names");
    Page {
        names: names.split('\n').map(str::to_owned).collect(),
        meta: serde_json::from_str(&text_of("comparison", "meta")).expect("JSON"),
        said,
        parts,
        text,
    }
}

/// The columns of a part, as `docs/page-data.md` describes them.
fn columns(data: &str) -> BTreeMap<String, Vec<u8>> {
    let deflated = STANDARD.decode(data).expect("base64");
    let mut bytes = Vec::new();
    let mut inflated = flate2::read::DeflateDecoder::new(&deflated[..]);
    inflated.read_to_end(&mut bytes).expect("deflate");
    let mut columns = BTreeMap::new();
    let (version, mut rest) = bytes.split_first().expect("a version");
    assert_eq!(*version, 5);
    while let Some((&length, after)) = rest.split_first() {
        let (name, after) = after.split_at(length.into());
        rest = after;
        let length = number(&mut rest) as usize;
        let (column, after) = rest.split_at(length);
        rest = after;
        let name = String::from_utf8(name.to_vec()).expect("a name");
        columns.insert(name, column.to_vec());
    }
    columns
}

/// Takes a LEB128 number.
fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

impl Page {
    fn numbers(&self, part: &str, column: &str) -> Vec<u64> {
        let Some(mut bytes) = self.parts[part].get(column).map(Vec::as_slice) else {
            return Vec::new();
        };
        let mut numbers = Vec::new();
        while !bytes.is_empty() {
            numbers.push(number(&mut bytes));
        }
        numbers
    }

    /// A column of differences.
    fn sums(&self, part: &str, column: &str) -> Vec<u64> {
        let mut sum = 0_i64;
        let numbers = self.numbers(part, column).into_iter();
        let sums = numbers.map(|zigzag| {
            sum += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            sum as u64
        });
        sums.collect()
    }

    /// Frames of each stack: function, file, line, innermost first.
    fn stacks(&self) -> Vec<Value> {
        let column = |name: &str| self.numbers("names", &format!("frame.{name}"));
        let (functions, files, lines) = (column("function"), column("file"), column("line"));
        let frame = |frame: u64| {
            let name = |of: &[u64]| &self.names[of[frame as usize] as usize];
            json!([name(&functions), name(&files), lines[frame as usize]])
        };
        // Of each node the path from the root.
        let mut paths: Vec<Vec<u64>> = vec![Vec::new()];
        let ups = self.numbers("stacks", "node.up");
        for (up, node) in ups.iter().zip(self.numbers("stacks", "node.frame")) {
            let last = paths.last().expect("the root");
            let mut path = last[..last.len() - *up as usize].to_vec();
            path.push(node);
            paths.push(path);
        }
        let nodes = self.sums("stacks", "stack.node").into_iter();
        let stacks = nodes.map(|node| {
            let frames = paths[node as usize].iter().rev();
            frames.map(|&it| frame(it)).collect::<Value>()
        });
        stacks.collect()
    }

    /// The comparisons in the form of [`form_of_json`], by metric.
    fn comparisons(&self) -> BTreeMap<String, Value> {
        let entry = |name: &str| self.numbers("entries", &format!("entry.{name}"));
        let part = |name: &str| self.numbers("entries", &format!("part.{name}"));
        let (kinds, befores, afters) = (entry("kind"), entry("before"), entry("after"));
        let (confidences, blames) = (entry("confidence"), entry("blame"));
        let (counts, wholes) = (entry("stacks"), entry("all_stacks"));
        let (were, are) = (part("before"), part("after"));
        let (numbers, numbers_before) = (part("stack"), part("was"));
        let stacks = self.stacks();
        let functions = self.numbers("names", "frame.function");
        let (mut at, mut first) = (0, 0);
        let mut all = BTreeMap::new();
        let lengths = self.numbers("entries", "comparison.entries");
        let metas = self.meta["comparisons"].as_array().expect("a list");
        assert_eq!(metas.len(), lengths.len());
        for (meta, length) in metas.iter().zip(lengths) {
            let mut entries = Vec::new();
            for i in at..at + length as usize {
                let mut rows = Vec::new();
                assert_eq!(counts[i], wholes[i], "all stacks are in a small page");
                for of in first..first + counts[i] as usize {
                    let now = &stacks[numbers[of] as usize];
                    // `diff --format json` writes such a stack once for each side.
                    match numbers_before[of] {
                        0 => rows.push(json!([were[of], are[of], now])),
                        was => {
                            rows.push(json!([were[of], 0, stacks[was as usize - 1]]));
                            rows.push(json!([0, are[of], now]));
                        }
                    }
                }
                first += counts[i] as usize;
                let kind = ["new", "gone", "changed", "moved", "jitter"][kinds[i] as usize];
                entries.push(json!({
                    "kind": kind,
                    "before": befores[i],
                    "after": afters[i],
                    "difference": afters[i] as i64 - befores[i] as i64,
                    "confidence": confidences[i],
                    "blame": self.names[functions[blames[i] as usize] as usize],
                    "stacks": rows,
                }));
            }
            at += length as usize;
            let form =
                json!({"before": meta["before"], "after": meta["after"], "entries": entries});
            let metric = meta["metric"].as_str().expect("a name").to_owned();
            all.insert(metric, form);
        }
        assert_eq!(at, kinds.len());
        all
    }
}

/// What the page has of a comparison, made of the JSON.
fn form_of_json(diff: &Value) -> Value {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let frames = list(&diff["frames"]);
    let frame = |index: &Value| &frames[index.as_u64().expect("an index") as usize];
    let entries = list(&diff["entries"]).into_iter().map(|entry| {
        let stacks = list(&entry["stacks"]).into_iter().map(|stack| {
            let frames = list(&stack["stack"]).into_iter().map(|index| {
                let frame = frame(&index);
                json!([frame["function"], frame["file"], frame["line"]])
            });
            let frames: Value = frames.collect();
            json!([stack["before"], stack["after"], frames])
        });
        let confidence = entry["confidence"].as_f64().expect("a number");
        json!({
            "kind": entry["kind"],
            "before": entry["before"],
            "after": entry["after"],
            "difference": entry["difference"],
            "confidence": (confidence * 1e6).round() as u64,
            "blame": frame(&entry["blame"])["function"],
            "stacks": stacks.collect::<Value>(),
        })
    });
    json!({"before": diff["before"], "after": diff["after"], "entries": entries.collect::<Value>()})
}

#[test]
fn the_page_has_the_entries_of_json_for_each_metric() {
    let page = page(&BEFORE.trace, &AFTER.trace, &["--metric", "bytes"]);
    let comparisons = page.comparisons();
    let metrics: Vec<&str> = comparisons.keys().map(String::as_str).collect();
    assert_eq!(
        metrics,
        [
            "allocations",
            "bytes",
            "leaked",
            "leaked-allocations",
            "peak",
            "peak-allocations",
            "temporary"
        ]
    );
    // The page opens with what was asked for.
    assert_eq!(page.meta["comparisons"][0]["metric"], "bytes");
    for (metric, form) in &comparisons {
        let expected = diff_json(&BEFORE.trace, &AFTER.trace, &["--metric", metric]);
        assert_eq!(*form, form_of_json(&expected), "{metric}");
    }
    // And these are what the program does.
    let entries = comparisons["allocations"]["entries"].as_array();
    let figures: Vec<Value> = entries
        .expect("a list")
        .iter()
        .filter(|it| it["difference"] != 0)
        .map(|it| json!([it["blame"], it["kind"], it["before"], it["after"]]))
        .collect();
    let planted = json!(["planted", "new", 0, PLANTED]);
    assert_eq!(
        figures,
        [planted, json!(["grown", "changed", GROWN[0], GROWN[1]])]
    );
}

#[test]
fn entries_and_what_is_the_same_add_up_to_the_totals() {
    let page = page(&BEFORE.trace, &AFTER.trace, &[]);
    let figures = page.numbers("entries", "same.figure");
    let mut first = 0;
    let counts = page.numbers("entries", "comparison.same");
    for (meta, count) in page.meta["comparisons"]
        .as_array()
        .iter()
        .flat_map(|it| it.iter())
        .zip(counts)
    {
        let metric = meta["metric"].as_str().expect("a name");
        let same: u64 = figures[first..first + count as usize].iter().sum();
        first += count as usize;
        let entries = &page.comparisons()[metric]["entries"];
        for side in ["before", "after"] {
            let entries = entries.as_array().expect("a list").iter();
            let changed: u64 = entries.map(|it| it[side].as_u64().expect("a number")).sum();
            assert_eq!(meta[side], changed + same, "{metric} {side}");
        }
        if metric == "allocations" {
            assert!(same == STEADY || same == 0, "{same}");
        }
    }
}

#[test]
fn both_curves_begin_at_zero_and_have_the_peaks() {
    let page = page(&BEFORE.trace, &AFTER.trace, &[]);
    assert_eq!(page.numbers("comparison", "curve.processes"), [1, 1]);
    // One block at a time: of 24 and 16 bytes before, of 40 too after.
    assert_eq!(page.numbers("comparison", "curve.peak_bytes"), [24, 40]);
    let counts = page.numbers("comparison", "curve.count");
    let bytes = page.sums("comparison", "curve.bytes");
    assert_eq!(counts.iter().sum::<u64>(), bytes.len() as u64);
    let (before, after) = bytes.split_at(counts[0] as usize);
    assert_eq!(before.iter().max(), Some(&24));
    assert_eq!(after.iter().max(), Some(&40));
    let ends = page.numbers("comparison", "curve.ended_ns");
    for (from, end) in page.numbers("comparison", "curve.from_ns").iter().zip(ends) {
        assert!(*from <= end, "{from} {end}");
    }
}

#[test]
fn the_page_is_one_file_without_addresses_and_the_text_is_printed_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let words = [OsStr::new("--html"), out.as_os_str()];
    let output = diff(&BEFORE.trace, &AFTER.trace, &words);
    let printed = diff(&BEFORE.trace, &AFTER.trace, &[]);
    assert_eq!(output.stdout, printed.stdout);
    assert!(output.errors().contains("wrote the page"));
    let page = page(&BEFORE.trace, &AFTER.trace, &[]);
    page.said.has("wrote the page");
    assert!(page.text.len() <= 5_000_000);
    let parts: Vec<&str> = page.parts.keys().map(String::as_str).collect();
    assert_eq!(parts, ["comparison", "entries", "names", "stacks"]);
    assert!(!page.text.contains("planted"));
    for address in ["src=\"", "href=\"http", "url(http", "@import"] {
        assert!(!page.text.contains(address), "{address}");
    }
}

#[test]
fn a_filter_selects_the_entries_as_in_json() {
    let filter = ["--filter", "grown"];
    let page = page(&BEFORE.trace, &AFTER.trace, &filter);
    let expected = diff_json(&BEFORE.trace, &AFTER.trace, &filter);
    assert_eq!(page.comparisons()["allocations"], form_of_json(&expected));
    assert_eq!(page.meta["filter"], "grown");
    assert_eq!(page.meta["comparisons"][0]["before"], GROWN[0]);
}

/// Folded stacks as a file.
fn folded(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("it can be written");
    path
}

#[test]
fn files_of_other_tools_have_their_metric_and_no_curve() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = folded(folder.path(), "a", "main;</script>;old 5\nmain;kept 3\n");
    let after = folded(
        folder.path(),
        "b",
        "main;</script>;new\u{202e} 7\nmain;kept 3\n",
    );
    let page = page(&before, &after, &[]);
    assert_eq!(page.comparisons().len(), 1);
    let expected = diff_json(&before, &after, &[]);
    assert_eq!(
        page.comparisons()["allocations"]["entries"]
            .as_array()
            .map(Vec::len),
        expected["entries"].as_array().map(Vec::len)
    );
    assert_eq!(page.numbers("comparison", "curve.count"), [0, 0]);
    // Names are escaped like everywhere else.
    assert!(page.names.iter().any(|it| it == "new\\u{202e}"));
}

#[test]
fn several_runs_have_the_figures_of_the_one_in_the_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let mut words: Vec<&OsStr> = ["diff", "--format", "json", "--before"]
        .map(OsStr::new)
        .into();
    words.extend([
        BEFORE.trace.as_os_str(),
        BEFORE.trace.as_os_str(),
        OsStr::new("--after"),
    ]);
    words.extend([
        AFTER.trace.as_os_str(),
        OsStr::new("--html"),
        out.as_os_str(),
    ]);
    let output = allotrope(words).ok();
    let printed: Value = output.json();
    let page = read(&out, output.errors());
    assert_eq!(page.comparisons()["allocations"], form_of_json(&printed));
    assert_eq!(page.meta["sides"][0]["runs"], 2);
    assert_eq!(page.meta["comparisons"][0]["before"], STEADY + GROWN[0]);
    let noise = page.meta["comparisons"][0]["noise"].as_str();
    assert!(noise.is_some_and(|it| it.starts_with("Noise: 2 runs before of 1,499")));
}

#[test]
fn sampled_profiles_have_their_intervals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut more = crate::story::huge_blocks();
    (0..5).for_each(|_| _ = more.allocate(1, crate::story::HUGE));
    crate::story::save_all(&path("huge.allotrope"), &[&crate::story::huge_blocks()]);
    crate::story::save_all(&path("more.allotrope"), &[&more]);
    let metric = ["--metric", "leaked"];
    let page = page(&path("huge.allotrope"), &path("more.allotrope"), &metric);
    let expected = diff_json(&path("huge.allotrope"), &path("more.allotrope"), &metric);
    let meta = &page.meta["comparisons"][0];
    let interval = |of: &Value| {
        json!({
            "low": of["difference_low"],
            "high": of["difference_high"],
            "may_be_chance": of["may_be_chance"],
            "before": [of["before_low"], of["before_high"]],
            "after": [of["after_low"], of["after_high"]],
        })
    };
    assert_eq!(meta["interval"], interval(&expected));
    let entries = expected["entries"].as_array().expect("a list");
    let intervals: Value = entries.iter().map(interval).collect();
    assert_eq!(meta["intervals"], intervals);
    assert_eq!(page.numbers("comparison", "curve.count"), [0, 0]);
    // The same file twice: what the text says is on the page.
    let same = page_of_same(&path("huge.allotrope"), &metric);
    let chance = same.meta["comparisons"][0]["chance"].as_str();
    let chance = chance.expect("a sentence");
    assert!(
        chance.starts_with("not distinguishable from chance"),
        "{chance}"
    );
}

fn page_of_same(path: &Path, more: &[&str]) -> Page {
    page(path, path, more)
}

#[test]
fn what_cannot_be_compared_gets_the_same_sentence_and_no_page() {
    let counted = record(compiled("changed.c"))
        .option("--counts-only")
        .run()
        .ok();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let html = [OsStr::new("--html"), out.as_os_str()];
    for before in [counted.trace.as_path(), Path::new("/none.allotrope")] {
        let without = diff(before, &AFTER.trace, &[]);
        let output = diff(before, &AFTER.trace, &html).code(2);
        assert_eq!(output.errors(), without.errors());
        assert!(!out.exists());
    }
    // A recording is not overwritten.
    let html = [OsStr::new("--html"), AFTER.trace.as_os_str()];
    diff(&BEFORE.trace, &AFTER.trace, &html).code(2);
    // A folder that does not exist.
    let html = ["--html", "/no/such/folder/out.html"].map(OsStr::new);
    diff(&BEFORE.trace, &AFTER.trace, &html).code(1);
}

#[test]
fn nothing_on_either_side_is_a_page_too() {
    let nothing = record(compiled("nothing.c")).run().ok();
    let nothing = nothing.trace.as_path();
    let page = page_of_same(nothing, &[]);
    for (metric, form) in page.comparisons() {
        assert_eq!(form["entries"], json!([]), "{metric}");
        assert_eq!(form["before"], form["after"], "{metric}");
    }
    // One side only: everything is new.
    let page = self::page(nothing, &BEFORE.trace, &[]);
    let expected = diff_json(nothing, &BEFORE.trace, &[]);
    assert_eq!(page.comparisons()["allocations"], form_of_json(&expected));
}
