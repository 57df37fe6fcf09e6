//! Reads a recording as a program that is not Allotrope would.

#[path = "../../profile/tests/story/mod.rs"]
mod story;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allotrope_formats::Limits;
use allotrope_profile::Metric;
use allotrope_reading::{Observer, Reader, ReadingError};
use allotrope_trace::TraceWriter;
use story::*;
use tempfile::TempDir;

/// A process that allocates 100 to 119 bytes at stack 8, frees all of them, and allocates 20 times
/// 7 bytes at stack 9.
fn recorded() -> (TempDir, PathBuf) {
    let mut story = Story::one_image();
    for round in 0..20_u64 {
        let at = 0x1000 + round * 0x100;
        let events = [
            thread(1),
            alloc(8, at, 100 + round),
            alloc(9, at + 0x80, 7),
            free(at),
            timestamp(1_000 + round * 1_000),
        ];
        story.events(0, 0, &events);
    }
    story.end(0, 50_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.allotrope");
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer = TraceWriter::new(file).expect("a trace");
    for record in &story.trace.records {
        writer.write(record).expect("a record");
    }
    writer.finish().expect("the end");
    (folder, path)
}

/// 100 + 101 + … + 119.
const TOP_BYTES: u64 = 2190;

#[test]
fn the_top_site_is_the_one_that_allocated_most() -> Result<(), Box<dyn Error>> {
    let (_folder, path) = recorded();
    let mut recording = Reader::default().open(&path)?;
    let profile = recording.profile()?;
    let sites = profile.processes.iter().flat_map(|it| &it.sites);
    let top = sites.max_by_key(|it| it.allocated_bytes).expect("a site");
    assert_eq!((top.allocated_bytes, top.allocations), (TOP_BYTES, 20));
    assert_eq!(top.leaked_bytes, 0);
    assert!(recording.notes().is_empty());
    Ok(())
}

#[test]
fn the_stacks_of_a_recording_have_its_sums() -> Result<(), Box<dyn Error>> {
    let (_folder, path) = recorded();
    let source = Reader::default().stacks(&path)?;
    let bytes = |metric: Metric| -> u64 {
        let stacks = source.set.stacks.iter();
        stacks.map(|it| it.figures[metric as usize]).sum()
    };
    assert_eq!(bytes(Metric::Bytes), TOP_BYTES + 20 * 7);
    assert_eq!(bytes(Metric::LeakedBytes), 20 * 7);
    Ok(())
}

#[test]
fn what_cannot_be_read_is_refused_with_a_sentence() {
    let (folder, path) = recorded();
    let missing = folder.path().join("none");
    let other = folder.path().join("other");
    std::fs::write(&other, "no trace at all").expect("a file");
    let mut moment = path.clone().into_os_string();
    moment.push("@nowhere");
    let reader = Reader::default();
    let opened = |path| reader.open(path).map(drop);
    let stacks = |path| reader.stacks(path).map(drop);
    let refusals = [
        (opened(&missing), "cannot read"),
        (opened(folder.path()), "it is a folder"),
        (opened(&other), "other"),
        (stacks(&missing), "cannot read"),
        (stacks(moment.as_ref()), "there is no such mark"),
        (reader.window_runs(&path, "encode").map(drop), "it has none"),
    ];
    for (result, sentence) in refusals {
        let error = result.expect_err(sentence);
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(error.is_of_input(), "{error}");
    }
}

/// Counts bytes of files and works that have ended.
#[derive(Default)]
struct Counter {
    bytes: AtomicU64,
    finished: AtomicU64,
}

impl Observer for Counter {
    fn opens(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finished(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_observer_sees_files_and_the_end_of_work() -> Result<(), ReadingError> {
    let (_folder, path) = recorded();
    let length = std::fs::metadata(&path).expect("the file").len();
    let counter = Arc::new(Counter::default());
    let reader = Reader::new(Limits::default(), Arc::<Counter>::clone(&counter));
    let mut recording = reader.open(&path)?;
    assert_eq!(counter.bytes.load(Ordering::Relaxed), length);
    recording.profile()?;
    assert_eq!(counter.finished.load(Ordering::Relaxed), 1);
    Ok(())
}
