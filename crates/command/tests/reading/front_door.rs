//! What a newcomer types: no command, no file, options before the command, a value that is none.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::{Ended, Recording, allotrope, command, compiled, record, run};

/// Runs the command in a folder.
fn within(folder: &Path, words: &[&str]) -> Ended {
    run(command().args(words).current_dir(folder), b"")
}

fn stream() -> Recording {
    record(compiled("stream.c")).arg("1000").run().ok()
}

/// A folder with two recordings: `old.allotrope` and `new.allotrope`.
fn folder_of_two() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = stream();
    for (name, age) in [("new.allotrope", 10), ("old.allotrope", 1000)] {
        let path = folder.path().join(name);
        std::fs::copy(&recording.trace, &path).expect("the folder is ours");
        let then = SystemTime::now() - Duration::from_secs(age);
        let file = std::fs::File::options().append(true).open(&path);
        file.and_then(|it| it.set_modified(then)).expect("ours");
    }
    folder
}

#[test]
fn the_command_alone_shows_three_examples() {
    let output = allotrope::<&str>([]).code(2);
    for example in ["allotrope ./prog", "allotrope report", "allotrope diff"] {
        output.clone().says(example);
    }
}

#[test]
fn help_has_four_groups_and_all_of_them_when_asked() {
    for words in [&["-h"][..], &["--help"], &["help"]] {
        let text = allotrope(words).ok().lacks("postmortem").text();
        let titles = text
            .lines()
            .filter(|it| it.ends_with(':') && !it.starts_with(' '));
        let is_of_statuses = |it: &&str| it.starts_with("Exit") || it.starts_with('`');
        let titles: Vec<&str> = titles.filter(|it| !is_of_statuses(it)).collect();
        assert_eq!(titles.len(), 5, "four groups and the options: {titles:?}");
    }
    allotrope(["help", "--all"]).ok().has("postmortem");
    allotrope(["help", "report"])
        .ok()
        .has("Usage: allotrope report");
}

#[test]
fn options_before_the_command_are_explained() {
    allotrope(["-q", "ls"])
        .fails(
            2,
            "options such as -q belong to record: allotrope record -q ls",
        )
        .error_lines(1);
}

#[test]
fn report_without_a_file_takes_the_newest_and_says_so_first() {
    let folder = folder_of_two();
    for words in [
        &["report"][..],
        &["report", "--lists"],
        &["report", "--tree"],
        &["report", "--tree", "top-down"],
        &["report", "--by", "function"],
    ] {
        let text = within(folder.path(), words).ok().text();
        let first = text.lines().next();
        assert_eq!(first, Some("new.allotrope, the newest recording here"));
    }
    // What is written for a program or to a file names the recording.
    for words in [
        &["report", "--format", "json"][..],
        &["report", "--html", "x.html"],
        &["report", "--flamegraph", "x.svg"],
    ] {
        within(folder.path(), words)
            .fails(
                2,
                "name the recording; the newest in this folder is new.allotrope",
            )
            .error_lines(1);
    }
    assert!(!folder.path().join("x.html").exists());
    let empty = tempfile::tempdir().expect("a temporary folder");
    within(empty.path(), &["report"]).fails(2, "you have none in this folder");
}

/// Nobody else's file is opened: in a folder such as /tmp it may be anything.
#[test]
fn the_newest_recording_is_one_of_this_user() {
    if !crate::support::is_root() {
        return crate::support::skip("only root can give a file away");
    }
    let folder = folder_of_two();
    let newest = folder.path().join("new.allotrope");
    std::os::unix::fs::chown(&newest, Some(12_345), None).expect("root can");
    let text = within(folder.path(), &["report"]).ok().text();
    assert!(text.starts_with("old.allotrope, the newest"), "{text}");
}

#[test]
fn a_recording_in_place_of_a_program_is_opened() {
    let folder = folder_of_two();
    let opened = within(folder.path(), &["old.allotrope"]).ok().text();
    assert_eq!(
        opened,
        within(folder.path(), &["report", "old.allotrope"]).text()
    );
    let options = within(folder.path(), &["./new.allotrope", "--lists"]).ok();
    options.has("Totals");
    within(folder.path(), &["gone.allotrope"])
        .fails(2, "cannot read gone.allotrope")
        .error_lines(1);
}

#[test]
fn a_number_that_is_none_is_answered_with_what_a_number_is() {
    for (words, sentence) in [
        (&["report", "x", "--top", "abc"][..], "at least 1"),
        (&["report", "x", "--top", "-3"], "at least 1"),
        (&["record", "--depth", "9999", "true"], "from 1 to 4,096"),
        (&["export", "x", "--process", "one"], "at least 0"),
    ] {
        let status = if words[0] == "record" { 125 } else { 2 };
        let output = allotrope(words).fails(status, "write a whole number");
        output.says(sentence);
    }
}

#[test]
fn a_test_without_a_configuration_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = within(folder.path(), &["test"]).code(2);
    assert_eq!(
        output.errors(),
        "allotrope: there is no allotrope.toml; `allotrope test --init` writes one to start from\n"
    );
}

#[test]
fn a_site_that_is_not_there_is_answered_in_the_words_of_show() {
    let recording = stream();
    let trace = recording.trace.to_str().expect("UTF-8");
    let report = allotrope(["report", trace, "--site", "99999"]).code(2);
    let show = allotrope(["show", trace, "site:99999"]).code(2);
    assert_eq!(report.errors(), show.errors());
    report.says("its sites are 1 to ");
}

#[test]
fn binary_formats_are_not_written_to_a_terminal() {
    let recording = stream();
    let trace = recording.trace.to_str().expect("UTF-8");
    if !crate::support::is_installed("script") {
        return crate::support::skip("script(1) is not installed");
    }
    let this = env!("CARGO_BIN_EXE_allotrope");
    for typed in [
        format!("{this} export {trace} --format pprof"),
        format!("{this} export {trace} --format heaptrack"),
        format!("{this} export {trace} --format perfetto"),
        format!("{this} recorder -o -"),
    ] {
        let mut script = Command::new("script");
        let output = run(script.args(["-qec", &typed, "/dev/null"]), b"").code(2);
        let shown = output.text();
        assert!(shown.contains("name a file with -o"), "{shown}");
        assert_eq!(shown.lines().count(), 1, "{shown}");
    }
    // A pipe takes it.
    let piped = allotrope(["export", trace, "--format", "pprof"]).ok();
    assert_eq!(piped.stdout[..2], [0x1f, 0x8b]);
}

#[test]
fn a_metric_that_a_moment_lacks_is_refused_before_the_files_are_read() {
    let recording = stream();
    let trace = recording.trace.to_str().expect("UTF-8");
    // Were it read, a trace that ends here would be warned about.
    let bytes = std::fs::read(trace).expect("it was written");
    let cut = recording.folder.path().join("cut.allotrope");
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).expect("the folder is ours");
    let moment = format!("{}@now", cut.display());
    for options in [&["--metric", "peak"][..], &["--fail-on", "peak>+0"]] {
        allotrope([&["diff", &moment, &moment], options].concat())
            .fails(
                2,
                "does not give bytes at the peak; choose with --metric what a moment gives",
            )
            .error_lines(1);
    }
}

#[test]
fn the_processes_of_a_cut_trace_are_cut_in_every_list() {
    let recording = record(compiled("stream.c")).arg("300000").run().ok();
    let bytes = std::fs::read(&recording.trace).expect("it was written");
    // Without the record of the process's end, which is among the last.
    let cut = recording.folder.path().join("cut.allotrope");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("the folder is ours");
    let cut = cut.to_str().expect("UTF-8");
    for options in [
        &[][..],
        &["--lists"],
        &["--by", "process"],
        &["--format", "markdown"],
    ] {
        let words = [&["report", cut], options].concat();
        let text = allotrope(words).ok().lacks("running").text();
        let is_said = text.split([' ', '\n', '·']).any(|word| word == "cut");
        assert!(is_said, "{text}");
    }
}
