//! When events are missing: what the records of losses, of resident memory and of the end of
//! a process say about it.

mod story;

use allotrope_profile::Gap;
use allotrope_trace::model::{Exit, ImageEnd, Loss, LossReason, Record};
use story::*;

fn lost(reason: LossReason, events: u64, tick: u64) -> Record {
    Record::Loss(Loss {
        image: 0,
        reason,
        events,
        tick,
    })
}

fn resident(tick: u64) -> Record {
    Record::ResidentSet {
        image: 0,
        tick,
        bytes: 4096,
        recorder_bytes: None,
    }
}

fn gap(from_ns: u64, to_ns: Option<u64>, events: u64) -> Gap {
    Gap {
        from_ns,
        to_ns,
        events,
    }
}

/// A story with these records, and an event at tick 700.
fn with(records: Vec<Record>) -> Story {
    let mut story = Story::one_image();
    for record in records {
        story.push(record);
    }
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(700)]);
    story
}

#[test]
fn events_were_lost_after_the_sample_before_the_last_one() {
    // The losses at 350 were counted after the look at 200; that at 600 after the one at
    // 400. The first one is noticed at the second look.
    let story = with(vec![
        resident(100),
        lost(LossReason::RingFull, 3, 199),
        resident(200),
        resident(300),
        lost(LossReason::NoMemory, 5, 350),
        resident(400),
        resident(500),
        lost(LossReason::RingFull, 7, 600),
    ]);
    let process = story.process(1_000);
    assert_eq!(process.lost_events, 15);
    let expected = [
        gap(0, Some(199), 3),
        gap(200, Some(350), 5),
        gap(400, Some(600), 7),
    ];
    assert_eq!(process.gaps, expected);
}

#[test]
fn what_follows_damage_in_a_buffer_is_missing() {
    let story = with(vec![
        resident(100),
        resident(200),
        lost(LossReason::Corrupt, 1, 300),
    ]);
    assert_eq!(story.process(1_000).gaps, [gap(100, Some(1_000), 1)]);
}

#[test]
fn a_process_that_was_not_read_to_its_end_misses_what_follows_its_last_event() {
    let mut story = with(Vec::new());
    story.push(Record::ImageEnd(ImageEnd {
        image: 0,
        tick: 1_000,
        exit: Exit::Signal(9),
        complete: false,
    }));
    let profile = story.profile();
    assert_eq!(profile.processes[0].gaps, [gap(700, Some(1_000), 0)]);
}

#[test]
fn a_trace_that_is_cut_misses_what_follows() {
    let mut story = with(Vec::new());
    story.trace.cut = Some("it is cut".to_owned());
    assert_eq!(story.profile().processes[0].gaps, [gap(700, None, 0)]);
    assert_eq!(with(Vec::new()).process(1_000).gaps, []);
}
