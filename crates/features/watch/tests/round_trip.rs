//! From the memory of a process through a file to the profile.

mod support;

use allotrope_profile::sampled::{Estimate, SampledFigures, SampledProfile};
use allotrope_sampling::Period;
use allotrope_trace::TraceReader;
use allotrope_trace::model::Exit;
use allotrope_watch::sampled;
use support::{HUGE, Story, huge_blocks, saved, snapshots};

fn read(bytes: &[u8]) -> Result<SampledProfile, String> {
    let trace = TraceReader::sampled(bytes).map_err(|error| error.to_string())?;
    SampledProfile::read(&trace).map_err(|error| error.to_string())
}

#[test]
fn huge_blocks_come_back_exactly() {
    let story = huge_blocks();
    let profile = read(&saved(&[&story])).expect("a profile");
    assert!(profile.warnings().is_empty());
    let tables = &profile.profile;
    assert_eq!(tables.recording.command, ["server", "--quiet"]);
    let ([process], [samples]) = (&tables.processes[..], &profile.processes[..]) else {
        panic!("one process");
    };
    assert_eq!((process.pid, process.parent_pid), (101, 1));
    assert_eq!(process.exit, Exit::Running);
    assert_eq!(process.duration_us, 3_000_000);
    assert_eq!(samples.sampling.period, 512 << 10);
    let totals = profile.totals().expect("totals");
    let values = |set| (totals.blocks(set).value, set.bytes().value);
    assert_eq!(values(&totals.live), (13.0, (13 * HUGE) as f64));
    assert_eq!(values(&totals.allocated), (15.0, (15 * HUGE) as f64));
    assert_eq!(values(&totals.freed), (2.0, (2 * HUGE) as f64));
    let [first, second] = &process.sites[..] else {
        panic!("two sites");
    };
    assert_eq!((first.number, second.number), (1, 2));
    let blocks = |figures: &SampledFigures| {
        let blocks = [&figures.live, &figures.allocated].map(|it| figures.blocks(it).value);
        (blocks[0], blocks[1])
    };
    let figures: Vec<_> = samples.sites.iter().map(blocks).collect();
    assert_eq!(figures, [(10.0, 12.0), (3.0, 3.0)]);
    assert_eq!((first.leaked_bytes, first.allocations), (10 * HUGE, 12));
    let names = first.stack.iter();
    let names = names.map(|&it| &*tables.frames[it as usize].function);
    assert_eq!(names.collect::<Vec<_>>(), ["server+0x1000", "server+0x20"]);
}

#[test]
fn a_profile_in_memory_is_that_of_the_file() {
    let (one, other) = (huge_blocks(), huge_blocks());
    let in_file = read(&saved(&[&one, &other])).expect("a profile");
    let in_memory = sampled::profile(&snapshots(&[&one, &other]), None).expect("a profile");
    assert_eq!(in_memory.profile, in_file.profile);
    assert_eq!(format!("{in_memory:?}"), format!("{in_file:?}"));
}

#[test]
fn processes_add_up() {
    let (one, other) = (huge_blocks(), huge_blocks());
    let profile = read(&saved(&[&one, &other])).expect("a profile");
    assert_eq!(profile.processes.len(), 2);
    // The same executable is one module.
    assert_eq!(profile.profile.modules.len(), 1);
    let totals = profile.totals().expect("totals");
    assert_eq!(totals.live.bytes().value, (26 * HUGE) as f64);
    let part = profile.processes[0].totals.expect("totals");
    let width = |it: Estimate| it.high - it.low;
    assert!(width(totals.live.bytes()) < 2.0 * width(part.live.bytes()));
}

#[test]
fn without_sampling_nothing_is_known() {
    let mut story = Story::new(1, None);
    story.allocate(0, HUGE);
    let profile = read(&saved(&[&story])).expect("a profile");
    assert!(profile.totals().is_none());
    assert!(profile.warnings()[0].contains("never sampled"));
}

#[test]
fn without_a_sample_there_is_an_upper_end() {
    let story = Story::new(1, Some(Period::DEFAULT));
    let profile = read(&saved(&[&story])).expect("a profile");
    let bytes = profile.totals().expect("totals").live.bytes();
    assert_eq!((bytes.value, bytes.low), (0.0, 0.0));
    let expected = (512 << 10) as f64 * 40_f64.ln();
    assert!((bytes.high / expected - 1.0).abs() < 1e-3, "{}", bytes.high);
}

#[test]
fn every_truncation_is_refused() {
    let whole = saved(&[&huge_blocks()]);
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn every_changed_byte_is_refused_or_changes_nothing() {
    let whole = saved(&[&huge_blocks()]);
    let expected = read(&whole).expect("a profile").totals().expect("totals");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        if let Ok(profile) = read(&damaged) {
            let totals = profile.totals().expect("totals");
            assert_eq!(totals.live.bytes(), expected.live.bytes(), "{at}");
        }
    }
}

/// 200 programs with blocks of mixed sizes.
#[test]
fn the_interval_holds_after_saving() {
    let mut held = [0; 4];
    for run in 0..200 {
        let mut story = Story::new(run, Some(Period::DEFAULT));
        let mut addresses = Vec::new();
        for number in 0..20_000_u64 {
            let site = number % 4;
            addresses.push(story.allocate(site, 48 << (3 * site)));
        }
        addresses.iter().step_by(3).for_each(|&it| story.free(it));
        let profile = read(&saved(&[&story])).expect("a profile");
        let totals = profile.totals().expect("totals");
        let checked = [
            (totals.live.bytes(), story.live_bytes()),
            (totals.blocks(&totals.live), story.live.len() as u64),
            (totals.allocated.bytes(), story.allocated[1]),
            (totals.freed.bytes(), story.freed[1]),
        ];
        for (held, (estimate, truth)) in held.iter_mut().zip(checked) {
            *held += u32::from((estimate.low..=estimate.high).contains(&(truth as f64)));
        }
    }
    assert!(held.iter().all(|&held| held >= 186), "{held:?}");
}
