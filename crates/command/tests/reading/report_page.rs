//! `report --html`: what it writes, and what it refuses. What the page shows is tested in a
//! browser, in `ui/tests`.

use std::ffi::OsStr;
use std::path::Path;

use crate::support::{Ended, Text, allotrope, compiled, record};

fn page(trace: &Path, out: &Path, more: &[&str]) -> Ended {
    let words = ["report", "--html"].map(OsStr::new);
    let files = [out.as_os_str(), trace.as_os_str()];
    let more = more.iter().map(OsStr::new);
    allotrope(words.into_iter().chain(files).chain(more))
}

#[test]
fn the_page_is_one_file_without_addresses() {
    let recording = record(compiled("phases.c")).run().ok();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let output = page(&recording.trace, &out, &[]).ok();
    assert!(output.stdout.is_empty());
    let text = std::fs::read_to_string(&out).expect("it was written");
    assert!(text.len() <= 5_000_000);
    for part in [
        "run", "names", "stacks", "sites", "details", "cells", "source",
    ] {
        let element = format!("<script type=\"text/plain\" id=\"data-{part}\">");
        assert_eq!(text.matches(&element).count(), 1, "{part}");
    }
    // The function's name is compressed.
    assert!(!text.contains("first_phase"));
    for address in ["src=\"", "href=\"http", "url(http", "@import"] {
        assert!(!text.contains(address), "{address}");
    }
}

#[test]
fn options_that_select_and_files_that_cannot_be_written_are_refused() {
    let recording = record(compiled("phases.c")).run().ok();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let options: [&[&str]; 6] = [
        &["--format", "json"],
        &["--from", "1ms"],
        &["--process", "0"],
        &["--by", "thread"],
        &["--top", "3"],
        &["--lists"],
    ];
    for more in options {
        let said = page(&recording.trace, &out, more).code(2).errors();
        said.has("--html: the page has the whole");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert!(!out.exists());
    }
    // A folder that does not exist, and the recording itself.
    page(&recording.trace, &folder.path().join("none/out.html"), &[]).fails(1, "none/out.html");
    page(&recording.trace, &recording.trace, &[]).code(2);
    page(Path::new("/none.allotrope"), &out, &[]).code(2);
    assert!(!out.exists());
}

/// What the page shows of it is tested in a browser.
#[test]
fn source_is_on_the_page_if_it_is_wanted_and_there() {
    let recording = record(compiled("phases.c")).run().ok();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.html");
    let size = |more: &[&str]| {
        let output = page(&recording.trace, &out, more).ok();
        let text = std::fs::read_to_string(&out).expect("it was written");
        let (_, part) = text.split_once("id=\"data-source\">").expect("the part");
        let (data, _) = part.split_once('<').expect("its end");
        (data.len(), output.errors())
    };
    let (without, _) = size(&[]);
    let (with, _) = size(&["--source"]);
    assert!(with > without + 100, "{with} {without}");
    // The folder of the source is replaced by an empty one.
    let source = crate::support::source_path("phases.c");
    let built = source.parent().expect("a folder").display();
    let moved = format!("{built}={}", folder.path().display());
    let (missing, said) = size(&["--source", "--source-path", &moved]);
    assert_eq!(missing, without);
    said.has("phases.c was not found; --source-path");
}
