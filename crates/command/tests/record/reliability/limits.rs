//! Less address space than a recording needs, or more processes or threads at once than
//! the shared memory has slots for: what is missing is counted and reported, and the
//! program runs as always. `programs/crowd.c`.

use std::process::Command;

use serde_json::json;

use super::matrix::{Outcome, case};
use super::targets::{expect_work, target};
use crate::support::{Text, record, run};

const GROUP: &str = "Failures of Allotrope";

#[test]
fn no_address_space() {
    let expected = "recorded exactly, with fewer buffers";
    case(GROUP, "ulimit -v around the recording", expected, || {
        let described = record(target("own_failures.c")).arg("1");
        let plain = described.command();
        let line = "ulimit -v 500000; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(described.folder());
        let output = run(&mut command, b"g");
        let recording = described.recorded(output).code(7);
        let report = recording.report();
        let process = report.only();
        expect_work(&process, "before", 1000, 20_000);
        assert_eq!(process.under("after").allocations, 1);
        assert_eq!(process.number("lost_events"), 0);
        Outcome::Seen("1,001 of 1,001".to_owned())
    });
}

/// Slots for process images in the shared memory (docs/architecture.md).
const IMAGES: usize = 1_024;

#[test]
fn more_processes_than_slots() {
    let children = 1_100;
    let expected = "1,024 images are recorded exactly: the first and 1,023 of its children. All children run; the others are counted as missing";
    case(GROUP, "1,100 children at once", expected, || {
        let recording = record(target("crowd.c"))
            .args(["children", &children.to_string()])
            .run();
        if recording.status.code() == Some(96) {
            return Outcome::Skipped("so many processes are not allowed here".to_owned());
        }
        // The program itself checks that each child ends well.
        let recording = recording.code(7);
        let report = recording.report();
        let images = report.processes();
        assert_eq!(images.len(), IMAGES, "images");
        let children_kept = images.iter().filter(|image| {
            let is_child = *image.exit() == json!({"status": 3});
            if is_child {
                expect_work(image, "crowded", 10, 160);
                assert_eq!(image.total("allocations"), 10);
            }
            is_child
        });
        // The parent has an image too.
        assert_eq!(children_kept.count(), IMAGES - 1);
        let missing = children + 1 - IMAGES;
        let printed = &recording.stderr;
        printed.has(format!("{missing} process images could not be recorded"));
        Outcome::Seen(format!(
            "{} images, {missing} reported as missing",
            images.len()
        ))
    });
}

/// Rings in the shared memory, one for each thread (docs/architecture.md).
const RINGS: u64 = 2_048;

#[test]
fn more_threads_than_rings() {
    let threads = 2_100;
    let expected = "2,047 threads and the main thread are recorded exactly; the allocations of the others are counted as lost";
    case(GROUP, "2,100 threads at once", expected, || {
        let recording = record(target("crowd.c"))
            .args(["threads", &threads.to_string()])
            .run();
        if recording.status.code() == Some(96) {
            return Outcome::Skipped("so many threads are not allowed here".to_owned());
        }
        let recording = recording.code(7);
        let report = recording.report();
        let process = report.only();
        // Main has a ring, too; no thread ends before all have started.
        let missing = threads + 1 - RINGS;
        expect_work(&process, "crowded", 10 * (RINGS - 1), 160 * (RINGS - 1));
        assert_eq!(process.number("lost_events"), 10 * missing);
        let printed = format!("lost {} events", 10 * missing);
        recording.stderr.has(&printed);
        Outcome::Seen(format!(
            "{} threads, {} events lost, reported",
            RINGS - 1,
            10 * missing
        ))
    });
}
