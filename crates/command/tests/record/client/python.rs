//! The example for Python in the client's README, recorded.

use std::path::Path;

use crate::support::windows::windows;
use crate::support::{record, skip};

/// The system's Python: one that starts another program would be several images.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn the_readmes_example_opens_a_window() {
    if !Path::new(PYTHON).exists() {
        return skip("Python is not here (Debian package python3)");
    }
    let readme = include_str!("../../../../target/client/README.md");
    let (_, block) = readme.split_once("```python\n").expect("it is there");
    let (block, _) = block.split_once("```").expect("it ends");
    // Python allocates each object of this size with malloc.
    let parse = "kept = []\ndef parse():\n    for _ in range(7):\n        kept.append(bytearray(100_000))\n";
    let recording = record(PYTHON);
    let program = recording.folder().join("example.py");
    std::fs::write(&program, format!("{parse}{block}")).expect("the folder is ours");
    let recording = recording.arg(&program).run().ok();
    let found = windows(&recording);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].name.as_str(), found[0].iterations),
        ("parse", 1000)
    );
    assert!(found[0].allocations >= 7, "{found:?}");
}
