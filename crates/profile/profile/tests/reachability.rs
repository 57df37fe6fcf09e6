//! What a scan at the exit found of the live blocks (`Process::reachability`, `Site::lost`), also of
//! records that no recorder writes.

mod story;

use allotrope_profile::{Amount, Lost, Process};
use allotrope_trace::model::{
    EntryPoint, Event, LostBlock, LostClass, Reachability, Record, ScanOutcome,
};
use story::*;

const SITE: u32 = 8;
const OTHER: u32 = 9;
/// When the scan begins.
const SCAN: u64 = 5_000;

fn amount(allocations: u64, bytes: u64) -> Amount {
    Amount { allocations, bytes }
}

fn scan() -> Reachability {
    Reachability {
        tick: SCAN,
        blocks: 4,
        ..Reachability::default()
    }
}

/// Four blocks of 10, 20, 30 and 40 bytes that live at the end, the last one of another site, and one that
/// is allocated after the scan; then these lost blocks and the end of the scan.
fn process(lost: &[(u64, LostClass)], scan: Option<Reachability>) -> Process {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            timestamp(1_000),
            alloc(SITE, 0x100, 10),
            alloc(SITE, 0x200, 20),
            alloc(SITE, 0x300, 30),
            alloc(OTHER, 0x400, 40),
            timestamp(2_000),
            timestamp(SCAN + 1_000),
            alloc(SITE, 0x500, 50),
            timestamp(SCAN + 2_000),
        ],
    );
    let blocks = lost
        .iter()
        .map(|&(address, class)| LostBlock { address, class });
    story.push(Record::LostBlocks {
        image: 0,
        blocks: blocks.collect(),
    });
    if let Some(scan) = scan {
        story.push(Record::Reachability(scan));
    }
    story.process(1_000_000)
}

#[test]
fn lost_blocks_belong_to_their_sites() {
    use LostClass::{Definitely, Indirectly, Possibly};
    let lost = [(0x100, Definitely), (0x200, Indirectly), (0x400, Possibly)];
    let process = process(&lost, Some(scan()));
    let expected = Lost {
        definitely: amount(1, 10),
        indirectly: amount(1, 20),
        ..Lost::default()
    };
    assert_eq!(site(&process, SITE).lost.as_deref(), Some(&expected));
    let expected = Lost {
        possibly: amount(1, 40),
        ..Lost::default()
    };
    assert_eq!(site(&process, OTHER).lost.as_deref(), Some(&expected));
    let all = process.reachability.expect("there was a scan");
    assert_eq!(all.lost.total(), amount(3, 70));
    assert_eq!(all.reachable, amount(2, 80));
}

#[test]
fn with_other_threads_nothing_is_certain() {
    let lost = [
        (0x100, LostClass::Definitely),
        (0x200, LostClass::Indirectly),
    ];
    let with_threads = Reachability {
        other_threads: 1,
        ..scan()
    };
    let process = process(&lost, Some(with_threads));
    let all = process.reachability.expect("there was a scan");
    let possibly = Lost {
        possibly: amount(2, 30),
        ..Lost::default()
    };
    assert_eq!(all.lost, possibly);
}

#[test]
fn a_scan_that_did_not_finish_says_nothing_of_blocks() {
    let lost = [(0x100, LostClass::Definitely)];
    for outcome in ScanOutcome::ALL {
        let process = process(&lost, Some(Reachability { outcome, ..scan() }));
        let all = process.reachability.expect("there was a scan");
        let is_known = outcome == ScanOutcome::Finished;
        assert_eq!(all.is_finished(), is_known);
        assert_eq!(all.lost.total().allocations, u64::from(is_known));
        assert_eq!(site(&process, SITE).lost.is_some(), is_known);
    }
    let process = process(&lost, None);
    assert_eq!(process.reachability, None);
    assert_eq!(site(&process, SITE).lost, None);
}

#[test]
fn blocks_that_a_scan_cannot_have_seen_do_not_count() {
    use LostClass::Definitely;
    // Twice, out of order, never allocated, and allocated after the scan.
    let lost = [
        (0x200, Definitely),
        (0x200, Definitely),
        (0x100, Definitely),
    ];
    let lost = lost
        .into_iter()
        .chain([(0x480, Definitely), (0x500, Definitely)]);
    let process = process(&lost.collect::<Vec<_>>(), Some(scan()));
    let all = process.reachability.expect("there was a scan");
    assert_eq!(all.lost.total(), amount(1, 20));
    assert_eq!(all.reachable, amount(4, 130));
}

#[test]
fn blocks_of_allocators_that_the_program_reports_are_found() {
    let reported = Event {
        entry: EntryPoint::Reported,
        ..alloc(SITE, 0x100, 10)
    };
    let pool = Event {
        entry: EntryPoint::Pool,
        ..alloc(OTHER, 0x200, 20)
    };
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            timestamp(1_000),
            reported,
            pool,
            timestamp(2_000),
        ],
    );
    let class = LostClass::Definitely;
    let block = |address| LostBlock { address, class };
    story.push(Record::LostBlocks {
        image: 0,
        blocks: vec![block(0x100), block(0x200)],
    });
    story.push(Record::Reachability(scan()));
    let process = story.process(1_000_000);
    assert_eq!(
        site(&process, SITE).lost.as_ref().map(|it| it.total()),
        Some(amount(1, 10))
    );
    // A pool's block is not in the recorder's table.
    assert_eq!(site(&process, OTHER).lost, None);
}

#[test]
fn what_a_child_inherits_is_not_its_own() {
    let mut story = Story::one_image();
    let allocated = [
        thread(1),
        timestamp(1_000),
        alloc(SITE, 0x100, 10),
        timestamp(2_000),
    ];
    story.events(0, 0, &allocated);
    story.image(1, Some(0), &[(0, 1)]);
    let own = [
        thread(9),
        timestamp(3_000),
        alloc(SITE, 0x200, 20),
        timestamp(4_000),
    ];
    story.events(1, 1, &own);
    let class = LostClass::Definitely;
    let block = |address| LostBlock { address, class };
    story.push(Record::LostBlocks {
        image: 1,
        blocks: vec![block(0x100), block(0x200)],
    });
    story.push(Record::Reachability(Reachability { image: 1, ..scan() }));
    story.end(0, 9_000).end(1, 9_000);
    let profile = story.profile();
    let child = &profile.processes[1];
    let all = child.reachability.expect("there was a scan");
    assert_eq!(
        (all.lost.total(), all.reachable),
        (amount(1, 20), amount(0, 0))
    );
    assert_eq!(profile.processes[0].reachability, None);
}
