//! Small recordings that are large once they are read, given to every command and output:
//! each ends within a bounded time and memory, or with a sentence that says why not.
//!
//! The kernel limits each command: its address space, and its processor time, which other work on
//! the machine does not take. `ALLOTROPE_SLOW=1` runs larger recordings, and every command on each;
//! `ALLOTROPE_BOUNDS_KEEP` names a folder in which the recordings are left.

mod bombs;
mod limited;
mod signals;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Text;
use limited::{Limits, Recording};

/// Every command that reads a recording, in its outputs. FILE is the recording, OTHER another one of
/// the same form whose functions have other names, OUT a file to write.
const ALL: &[&str] = &[
    "report FILE",
    "report --lists FILE",
    "report --by function FILE",
    "report --by module FILE",
    "report --by stack FILE",
    "report --by thread FILE",
    "report --by size FILE",
    "report --by process FILE",
    "report --tree FILE",
    "report --tree top-down --all-frames FILE",
    "report --tree top-down --filter f1 --metric leaked FILE",
    "report --metric peak --all-frames FILE",
    "report --site 1 FILE",
    "report --site 1 --events --format csv FILE",
    "report --window w1 FILE",
    "report --from 0s --to 1ms --lists FILE",
    "report --format json FILE",
    "report --format markdown FILE",
    "report --html OUT FILE",
    "report --flamegraph OUT FILE",
    "show FILE 1",
    "show FILE site:1",
    "show FILE f1",
    "diff FILE OTHER",
    "diff --all-frames --expand FILE OTHER",
    "diff --format json FILE OTHER",
    "diff --format sections FILE OTHER",
    "diff --flamegraph OUT FILE OTHER",
    "diff --html OUT FILE OTHER",
    "diff --window w1 FILE OTHER",
    "export --format folded -o OUT FILE",
    "export --format json -o OUT FILE",
    "export --format pprof -o OUT FILE",
    "export --format dhat -o OUT FILE",
    "export --format stacks -o OUT FILE",
    "export --format perfetto -o OUT FILE",
    "export --format firefox -o OUT FILE",
    "export --format heaptrack -o OUT FILE",
    "symbolize -o OUT FILE",
];

/// The commands that run among the ordinary tests.
const SOME: &[&str] = &[
    "report FILE",
    "report --tree FILE",
    "report --format json FILE",
    "report --html OUT FILE",
    "report --flamegraph OUT FILE",
    "diff FILE OTHER",
    "export --format folded -o OUT FILE",
];

fn is_slow() -> bool {
    std::env::var_os("ALLOTROPE_SLOW").is_some()
}

/// A name, a recording, and one whose functions have other names.
fn check(name: &str, few: impl Fn(&str) -> Vec<u8>, many: impl Fn(&str) -> Vec<u8>) {
    let make: &dyn Fn(&str) -> Vec<u8> = match is_slow() {
        true => &many,
        false => &few,
    };
    let recording = Recording::new(make("f"), make("g"));
    if let Some(folder) = std::env::var_os("ALLOTROPE_BOUNDS_KEEP") {
        let folder = PathBuf::from(folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::copy(recording.file(), folder.join(name)).expect("the folder is ours");
        fs::copy(recording.other(), folder.join(format!("{name}-other"))).expect("so it is");
    }
    let size = fs::metadata(recording.file())
        .expect("it was written")
        .len();
    assert!(size <= 1 << 20, "{name}: {size} bytes");
    let commands = if is_slow() { ALL } else { SOME };
    let mut findings = Vec::new();
    for line in commands {
        if let Err(how) = recording.run(line, Limits::OF_TESTS).ends() {
            findings.push(format!("{name}: `allotrope {line}`: {how}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// A test for each form of recording: a small one for the ordinary tests, and a large one.
macro_rules! bounded {
    ($($name:ident: $bomb:ident, $few:tt, $many:tt;)*) => {$(
        #[test]
        fn $name() {
            check(
                stringify!($name),
                |_name| bounded!(@ $bomb _name $few),
                |_name| bounded!(@ $bomb _name $many),
            );
        }
    )*};
    (@ $bomb:ident $name:ident ($($argument:expr),*)) => { bombs::$bomb($($argument,)* $name) };
}

bounded! {
    a_wide_tree_below_a_deep_chain: wide_below_deep, (2_000, 10), (4_000, 13);
    a_chain_in_which_each_call_allocates: comb, (4_000, 100), (20_000, 10_000);
    deep_stacks_that_share_nothing: separate, (4, 30_000), (20, 65_000);
    deep_stacks_of_the_same_functions: broad, (1_000, 100), (4_000, 200);
    many_stacks: many_stacks, (100_000, 30), (450_000, 30);
    many_threads: many_threads, (1_000), (5_000);
    many_processes: many_processes, (200, 5_000), (3_000, 20_000);
    forks_of_forks: nested_forks, (100, 500), (300, 2_000);
    many_modules: many_modules, (5_000), (30_000);
    many_windows: many_windows, (200, 20_000), (2_000, 100_000);
    many_blocks: many_blocks, (1_000_000), (20_000_000);
    many_lost_blocks: many_lost_blocks, (500_000), (40_000_000);
    long_names: long_names, (500, 20_000), (1_500, 100_000);
    many_stacks_that_free: many_free_stacks, (200, 200), (600, 600);
}

/// The tree shows some lines of 4,096 stacks of 4,000 frames. All nodes take 2.8 GB.
#[test]
fn a_tree_is_made_of_what_is_shown() {
    let recording = Recording::new(bombs::wide_below_deep(4_000, 12, "f"), Vec::new());
    let limits = Limits {
        memory: 700 << 20,
        ..Limits::OF_TESTS
    };
    for line in ["report --tree FILE", "report --tree top-down FILE"] {
        let ended = recording.run(line, limits);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        // 512 of the leaves are `f2` called by `f2` called by `f2`, and so on.
        assert!(ended.stdout.contains("f2"), "{line}: {}", ended.stdout);
    }
}

/// `main` calls 50 functions, and each of them is the start of a chain of 3,000 calls.
#[test]
fn a_tree_has_a_bounded_number_of_lines() {
    let recording = Recording::new(bombs::broad(50, 3_000, "f"), Vec::new());
    let line = "report --tree top-down --top 100 FILE";
    let ended = recording.run(line, Limits::OF_TESTS);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let tree = fs::read_to_string(recording.stdout()).expect("it is text");
    let cut = "the tree has more than 100,000 lines; --filter selects stacks";
    assert!(tree.contains(cut));
    // Besides them, the head of the report.
    assert!((100_000..100_100).contains(&tree.lines().count()));
}

/// 2,000 stacks of 200 frames, each wide enough to be drawn: 400,000 frames.
#[test]
fn a_flame_graph_has_a_bounded_size() {
    let recording = Recording::new(bombs::broad(2_000, 200, "f"), bombs::broad(2_000, 200, "g"));
    for line in [
        "report --flamegraph OUT FILE",
        "diff --flamegraph OUT FILE OTHER",
    ] {
        let ended = recording.run(line, Limits::OF_TESTS);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        let svg = fs::read_to_string(recording.out()).expect("it was written");
        // What a frame takes, with its name three times.
        assert!(svg.len() < 100_000 * 700, "{line}: {} bytes", svg.len());
        assert!(svg.contains("are left out"), "{line}");
        // What is renamed has its name after the change.
        let is_drawn = svg.contains("f0 (") || svg.contains("g0 (");
        assert!(is_drawn, "{line}: main is missing");
    }
}

/// 50 million frames take 200 MB, and cannot take less.
#[test]
fn what_takes_more_memory_than_allowed_is_refused_in_one_sentence() {
    let recording = Recording::new(bombs::comb(10_000, 100, "f"), bombs::comb(10_000, 100, "g"));
    for line in [
        "report --input-limit 64MiB FILE",
        "report --input-limit 64MiB --html OUT FILE",
        "show --input-limit 64MiB FILE site:1",
        "diff --input-limit 64MiB FILE OTHER",
        "export --input-limit 64MiB --format pprof -o OUT FILE",
        "view --input-limit 64MiB --no-open FILE",
    ] {
        let ended = recording.run(line, Limits::OF_TESTS);
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        let sentence =
            "the input needs more than 64.0 MiB of memory; --input-limit SIZE allows more";
        assert!(ended.stderr.contains(sentence), "{line}: {}", ended.stderr);
        assert_eq!(recording.written(), Vec::<PathBuf>::new(), "{line}");
    }
    let ended = recording.run("report --input-limit 2GiB FILE", Limits::OF_TESTS);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Four and a half million frames with names of two hundred characters, spelled out.
#[test]
fn an_output_larger_than_allowed_is_refused_in_one_sentence() {
    let name = "f".repeat(200);
    let recording = Recording::new(bombs::comb(3_000, 100, &name), Vec::new());
    let line = "export --input-limit 256MiB --format folded -o OUT FILE";
    let ended = recording.run(line, Limits::OF_TESTS);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let sentence = "the output would have more than 256.0 MiB; --input-limit SIZE allows more";
    ended.stderr.has(sentence);
    assert_eq!(recording.written(), Vec::<PathBuf>::new());
}

/// The frames in which stacks differ are looked for among all frames of the others.
#[test]
fn stacks_of_65_000_frames_are_compared() {
    let of = |name| bombs::separate(6, 65_000, name);
    let recording = Recording::new(of("f"), of("g"));
    let ended = recording.run("diff FILE OTHER", Limits::OF_TESTS);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_recordings_are_whole() {
    let recording = Recording::new(bombs::wide_below_deep(10, 3, "f"), Vec::new());
    let ended = recording.run("report --format json FILE", Limits::OF_TESTS);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // 2^3 stacks.
    assert_eq!(ended.stdout.matches("\"stack\":[").count(), 8);
    ended.stderr.lacks("not whole");
    assert!(Path::new(recording.file()).is_file());
}
