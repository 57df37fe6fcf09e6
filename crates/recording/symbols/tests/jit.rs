//! Names of JIT code: reads the perf map and the jitdump that Node writes while it runs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use allotrope_symbols::{JitDump, PerfMap};

const SCRIPT: &str = "
function hotLoop(n) { let sum = 0; for (let i = 0; i < n; i++) sum += i % 7; return sum; }
let total = 0;
for (let i = 0; i < 3000; i++) total += hotLoop(1000);
console.log('ready', total > 0);
process.stdin.on('end', () => process.exit(0)).resume();
";

/// A running Node and the path of its perf map. Both end when this is dropped.
struct Node(Child, PathBuf);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

fn node(folder: &Path) -> Option<Node> {
    let script = folder.join("script.js");
    std::fs::write(&script, SCRIPT).unwrap();
    let child = Command::new("node")
        .args(["--perf-basic-prof", "--perf-prof", "script.js"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: cannot run node (package nodejs): {error}");
            return None;
        }
    };
    let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
    let mut node = Node(child, map);
    let output = node.0.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    if !line.starts_with("ready") {
        println!("skipped: this node has no --perf-prof");
        return None;
    }
    Some(node)
}

/// The start of the newest code whose line in the map contains `text`.
fn start_of(map: &Path, text: &str) -> Option<u64> {
    let lines = std::fs::read_to_string(map).ok()?;
    let line = lines.lines().rfind(|line| line.contains(text))?;
    u64::from_str_radix(line.split(' ').next()?.trim_start_matches("0x"), 16).ok()
}

#[test]
fn functions_of_a_running_node_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut node) = node(folder.path()) else {
        return;
    };
    let mut map = PerfMap::of_process(node.0.id());
    let began = Instant::now();
    // Node writes its buffer at any time, possibly in the middle of a line.
    let (start, code) = loop {
        map.refresh().unwrap();
        let start = start_of(&node.1, "hotLoop");
        if let Some(found) = start.and_then(|start| Some((start, map.code(start + 1)?))) {
            break found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{}",
            node.1.display()
        );
        std::thread::sleep(Duration::from_millis(50));
    };
    let frame = code.frame(start + 1);
    assert_eq!(
        (&*frame.function, frame.offset, frame.line),
        ("hotLoop", Some(1), 2)
    );
    assert!(frame.file.ends_with("script.js"), "{frame:?}");

    // Node writes the dump in large pieces, the last when it exits.
    let start = start_of(&node.1, "hotLoop").unwrap();
    drop(node.0.stdin.take());
    assert!(node.0.wait().unwrap().success());
    let dump = folder.path().join(format!("jit-{}.dump", node.0.id()));
    if !dump.exists() {
        println!("skipped: this node wrote no {}", dump.display());
        return;
    }
    assert!(JitDump::is_marker(dump.to_str().unwrap()));
    let dump = JitDump::open(&dump).unwrap();
    let code = dump.code(start + 1, u64::MAX).unwrap();
    assert!(code.name.contains("hotLoop"), "{code:?}");
    assert_eq!(dump.code(start + 1, 0), None, "before the code existed");
}
