use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use allotrope_trace::model::JitSymbols;
use allotrope_trace::{Entry, TraceReader};

use super::*;

/// The perf map of this test process; removes its file when dropped.
struct Map(fs::File, String);

impl Map {
    fn new() -> Self {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        Self(fs::File::create(&path).unwrap(), path)
    }

    fn add(&mut self, line: &str) {
        writeln!(self.0, "{line}").unwrap();
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.1);
    }
}

fn begin(image: ImageId, parent: Option<(ImageId, u32)>) -> Begin {
    Begin {
        image,
        pid: std::process::id(),
        map: None,
        tick: 1,
        parent,
    }
}

fn written(path: &Path) -> Vec<JitSymbols> {
    let trace = TraceReader::open(path).unwrap();
    let entries = trace.entries().map(|entry| entry.unwrap());
    entries
        .filter_map(|entry| match entry {
            Entry::Record(Record::JitSymbols(symbols)) => Some(symbols),
            _ => None,
        })
        .collect()
}

/// (image, address, function, whether valid from the beginning) of every name.
fn sent(records: &[JitSymbols]) -> Vec<(ImageId, u64, String, bool)> {
    let mut all = Vec::new();
    for record in records {
        for location in &record.locations {
            let frame = &record.frames[location.frames[0] as usize];
            let function = frame.function.to_string();
            all.push((record.image, location.address, function, record.tick == 0));
        }
    }
    all.sort();
    all
}

/// All of this is one test, since a process has only one map.
#[test]
fn names_are_sent_once_and_again_when_other_code_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut trace = TraceFile::create(&path, None).unwrap();
    let mut names = JitSymbolizer::default();
    names.round(&mut trace);
    assert!(names.thread.is_none(), "no request yet");

    let mut map = Map::new();
    map.add("1000 100 first");
    names.begin(begin(0, None));
    names.request(0, 0x1010, false);
    names.request(0, 0x9001, false);
    // A child has its parent's code.
    names.begin(begin(1, Some((0, std::process::id()))));
    names.request(1, 0x1020, true);
    let mut records = 0;
    let mut wait_for = |names: &mut JitSymbolizer, count| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while records < count {
            assert!(Instant::now() < deadline, "no record");
            let thread = names.thread.as_ref().unwrap();
            if let Ok(record) = thread.records.try_recv() {
                records += 1;
                trace.write(&record);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(&mut names, 2);
    map.add("1000 80 second");
    wait_for(&mut names, 4);
    // Only the last read at the image's end finds this line.
    map.add("9000 10 at the end");
    names.end(0);
    names.end(1);
    names.finish(&mut trace);
    trace.finish().unwrap();
    let of = |image, address, function: &str, first| (image, address, function.to_owned(), first);
    assert_eq!(
        sent(&written(&path)),
        [
            of(0, 0x1010, "first", true),
            of(0, 0x1010, "second", false),
            of(0, 0x9001, "at the end", true),
            of(1, 0x1020, "first", true),
            of(1, 0x1020, "second", false),
        ]
    );
}

#[test]
fn requests_that_do_not_fit_the_queue_wait_and_stay_in_order() {
    let (requests, asked) = sync_channel(2);
    let (_record, records) = sync_channel(1);
    let mut names = JitSymbolizer {
        thread: Some(Thread { requests, records }),
        ..JitSymbolizer::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let mut trace = TraceFile::create(&folder.path().join("trace"), None).unwrap();
    for address in 0..5 {
        names.request(0, address, true);
    }
    assert_eq!(names.unsent.len(), 3);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(asked.try_iter().map(|request| match request {
            Request::Address { address, .. } => address,
            other => panic!("{other:?}"),
        }));
        names.round(&mut trace);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}
