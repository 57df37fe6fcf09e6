//! The programs that the tools record, and constants for what they allocate. The
//! three digits that heaptrack_print prints suffice for all sizes.

use std::fs;
use std::path::{Path, PathBuf};

use allotrope_profile::{
    CountedStack, Metric, MetricSet, MetricValues, RunInfo, StackFrame, StackSet,
};

use super::tool::{output, tool};

pub const TEMPORARY: u64 = 100;
pub const TEMPORARY_SIZE: u64 = 16;
pub const LEAKS: u64 = 7;
pub const LEAK_SIZE: u64 = 1000;
pub const PEAKS: u64 = 10;
/// Large, so that these blocks determine the peak, not those of a runtime.
pub const PEAK_SIZE: u64 = 500_000;

pub const NAME: &str = "truth";
pub const SOURCE: &str = "truth.c";

/// Most functions are on one line, so that the lines of frames can be checked.
fn c_source() -> String {
    format!(
        "#include <stdlib.h>
#define NOINLINE static __attribute__((noinline))
NOINLINE void *allocate(size_t size) {{ void *volatile block = malloc(size); return block; }}
NOINLINE void make_temporary(void) {{ for (int i = 0; i < {TEMPORARY}; i++) free(allocate({TEMPORARY_SIZE})); }}
NOINLINE void leak(void) {{ for (int i = 0; i < {LEAKS}; i++) allocate({LEAK_SIZE}); }}
NOINLINE void hold(void) {{
  void *blocks[{PEAKS}];
  for (int i = 0; i < {PEAKS}; i++) blocks[i] = allocate({PEAK_SIZE});
  for (int i = 0; i < {PEAKS}; i++) free(blocks[i]);
}}
static inline __attribute__((always_inline)) void inlined_one(void) {{ void *volatile block = malloc(33); (void)block; }}
int main(void) {{ make_temporary(); leak(); hold(); inlined_one(); return 0; }}
"
    )
}

/// The line that contains a text, from 1.
pub fn line_of(text: &str) -> u32 {
    let line = c_source()
        .lines()
        .position(|line| line.contains(text))
        .unwrap();
    u32::try_from(line).unwrap() + 1
}

/// The C program, compiled; `None` without a compiler.
pub fn compiled(folder: &Path) -> Option<PathBuf> {
    let mut cc = tool("cc")?;
    let (source, program) = (folder.join(SOURCE), folder.join(NAME));
    fs::write(&source, c_source()).unwrap();
    let flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-o"];
    output(cc.args(flags).arg(&program).arg(&source))?;
    Some(program)
}

pub const GO_KEPT: u64 = 50;
pub const GO_SIZE: u64 = 4096;

/// A Go program that writes its own heap profile, with every allocation sampled: as
/// protobuf or, with 1 as second argument, as text.
pub const GO: &str = r#"package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
)

var kept [][]byte

//go:noinline
func keep() {
	for i := 0; i < 50; i++ {
		block := make([]byte, 4096)
		kept[i] = block
	}
}

func main() {
	runtime.MemProfileRate = 1
	kept = make([][]byte, 50)
	keep()
	runtime.GC()
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	debug, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := pprof.Lookup("heap").WriteTo(file, debug); err != nil {
		panic(err)
	}
	file.Close()
	runtime.KeepAlive(kept)
}
"#;

/// The C program's stacks, written by hand.
pub fn as_set() -> StackSet {
    let mut set = StackSet {
        title: format!("./{NAME}"),
        known: MetricSet::OF_STACKS,
        run: RunInfo {
            images: 1,
            pid: Some(4711),
            duration_us: Some(2_000_000),
            peak_time_us: Some(500_000),
            ..RunInfo::default()
        },
        ..StackSet::default()
    };
    for function in ["allocate", "main", "make_temporary", "leak", "hold"] {
        set.frames.push(StackFrame {
            function: function.into(),
            module: NAME.into(),
            file: SOURCE.into(),
            line: 3,
            ..StackFrame::default()
        });
    }
    let held = (PEAKS, PEAKS * PEAK_SIZE);
    let leaked = (LEAKS, LEAKS * LEAK_SIZE);
    let none = (0, 0);
    for (frame, allocated, temporary, end, peak) in [
        (
            2,
            (TEMPORARY, TEMPORARY * TEMPORARY_SIZE),
            TEMPORARY,
            none,
            none,
        ),
        (3, leaked, 0, leaked, leaked),
        (4, held, 0, none, held),
    ] {
        let mut figures = MetricValues::default();
        figures[Metric::Allocations as usize] = allocated.0;
        figures[Metric::Bytes as usize] = allocated.1;
        figures[Metric::Temporary as usize] = temporary;
        figures[Metric::LeakedAllocations as usize] = end.0;
        figures[Metric::LeakedBytes as usize] = end.1;
        figures[Metric::PeakAllocations as usize] = peak.0;
        figures[Metric::PeakBytes as usize] = peak.1;
        figures[Metric::Lifetime as usize] = allocated.0 * 3;
        set.stacks.push(CountedStack {
            frames: [0, frame, 1].into(),
            figures,
            maximum: None,
        });
    }
    set
}

/// Returns [`as_set`] with only the numbers of allocations.
pub fn counted_set() -> StackSet {
    let mut set = as_set();
    set.known = MetricSet::of(&[Metric::Allocations]);
    set.run = RunInfo::default();
    for stack in &mut set.stacks {
        stack.figures[1..].fill(0);
    }
    set
}

/// A page with DHAT's viewer that loads `data` as if a user had opened it.
pub fn viewer_page(viewer: &Path, data: &str) -> String {
    let script = fs::read_to_string(viewer.join("dh_view.js")).unwrap();
    // In a script element only `</` could end the text.
    let data = serde_json::to_string(data).unwrap().replace("</", "<\\/");
    format!(
        "<!DOCTYPE html><html><head><meta charset=\"UTF-8\"><script>{script}</script></head><body><script>
onLoad();
tryFunc(() => {{ gFilename = 'ours'; gData = JSON.parse({data}); buildTree(); displayTree(0, 0, 0); }});
</script></body></html>"
    )
}
