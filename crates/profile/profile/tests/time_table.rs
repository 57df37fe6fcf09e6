//! The time table of an aggregation has the figures that the single blocks give.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{
    Block, BlockEvent, BlockSum, Filter, Helpers, Options, RangeFigures, TimeTable, aggregate,
    aggregate_range, block_events, blocks_of_sites, peaks,
};
use allotrope_trace::model::Event;
use proptest::prelude::*;
use story::*;

/// The end of the image, in nanoseconds.
const END: u64 = 1_000_000;

/// When a block was allocated and freed, its bytes.
type Lived = (u64, Option<u64>, u64);

/// What happens next: a number that chooses a block or a stack, a size, and how many
/// nanoseconds passed.
fn operations() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((any::<usize>(), 0..1000_u64, 1..5_000_u64), 1..200)
}

/// A program whose threads take turns. A third of the operations free a block, a ninth
/// reallocate one.
fn story(operations: &[(usize, u64, u64)], threads: usize) -> Story {
    let mut streams: Vec<Vec<Event>> = (1..=threads).map(|n| vec![thread(n as u32)]).collect();
    let mut live: Vec<u64> = Vec::new();
    let mut tick = 0;
    for (number, &(choice, size, passed)) in operations.iter().enumerate() {
        tick += passed;
        let stream = &mut streams[choice % threads];
        stream.push(timestamp(tick));
        let stack = 8 + (choice % 7) as u32;
        let address = 0x1000 * (1 + number as u64);
        match choice % 9 {
            0..3 if !live.is_empty() => {
                let freed = live.swap_remove(choice % live.len());
                if choice % 9 == 0 {
                    stream.extend([realloc_start(freed), realloc_end(stack, address, size)]);
                    live.push(address);
                } else {
                    stream.push(free(freed));
                }
            }
            _ => {
                stream.push(alloc(stack, address, size));
                live.push(address);
            }
        }
    }
    let mut story = Story::one_image();
    for (number, events) in (0..).zip(&streams) {
        story.events(0, number, events);
    }
    story.end(0, END);
    story
}

/// The blocks of each stack.
fn blocks(story: &Story, stacks: &[u32]) -> BTreeMap<u32, Vec<Lived>> {
    blocks_by(story, stacks, |block| block.stack)
}

/// The blocks of these stacks, by what a function says of them.
fn blocks_by(
    story: &Story,
    stacks: &[u32],
    key: impl Fn(&Block) -> u32,
) -> BTreeMap<u32, Vec<Lived>> {
    let mut blocks: BTreeMap<u32, Vec<Lived>> = BTreeMap::new();
    let wanted: Vec<_> = stacks.iter().map(|&stack| (0, stack)).collect();
    blocks_of_sites(&story.trace, &Options::default(), &wanted, &mut |block| {
        let freed = block.lifetime_ns.map(|lived| block.allocated_ns + lived);
        let of_stack = blocks.entry(key(block)).or_default();
        of_stack.push((block.allocated_ns, freed, block.size));
    })
    .expect("a story can be aggregated");
    blocks
}

/// The figures from their definitions.
fn figures(blocks: &[Lived], [from, to]: [u64; 2]) -> RangeFigures {
    let of = |wanted: &dyn Fn(u64, u64) -> bool| {
        let mut sum = BlockSum::default();
        for &(allocated, freed, bytes) in blocks {
            if wanted(allocated, freed.unwrap_or(u64::MAX)) {
                sum.blocks += 1;
                sum.bytes += bytes;
            }
        }
        sum
    };
    let range = from..to;
    RangeFigures {
        allocated: of(&|allocated, _| range.contains(&allocated)),
        kept: of(&|allocated, freed| range.contains(&allocated) && freed >= to),
        freed: of(&|_, freed| range.contains(&freed)),
        live_at_start: of(&|allocated, freed| allocated < from && freed >= from),
        live_at_end: of(&|allocated, freed| allocated < to && freed >= to),
    }
}

proptest! {
    #[test]
    fn a_range_has_the_figures_of_its_blocks(
        operations in operations(),
        threads in 1..4_usize,
        from in 0..END,
        length in 0..END,
    ) {
        let story = story(&operations, threads);
        let range = [from, (from + length).min(END)];
        for helpers in [Helpers::Never, Helpers::Always] {
            let options = Options {
                time_table: Some(&range),
                thread_times: true,
                helpers,
                ..Options::default()
            };
            let profile = aggregate(&story.trace, &options).expect("a story can be aggregated");
            let process = &profile.processes[0];
            let table = process.times.as_ref().expect("it was asked for");
            let stacks: Vec<u32> = process.sites.iter().map(|site| site.stack_id).collect();
            let blocks = blocks(&story, &stacks);
            let buckets = table.buckets_in(range);
            for (site, stack) in (0..).zip(&stacks) {
                prop_assert_eq!(table.of_site(site, buckets), figures(&blocks[stack], range));
            }
            let all: Vec<Lived> = blocks.into_values().flatten().collect();
            prop_assert_eq!(table.total(buckets), figures(&all, range));
            prop_assert_eq!(table.end_ns, END);
            let by_thread = process.thread_times.as_ref().expect("it was asked for");
            let blocks = blocks_by(&story, &stacks, |block| block.thread);
            for (thread, blocks) in &blocks {
                prop_assert_eq!(by_thread.of_site(*thread, buckets), figures(blocks, range));
            }
            prop_assert_eq!(by_thread.total(buckets), figures(&all, range));
        }
    }
}

proptest! {
    /// Also where many events have the same time, as the order of events of several threads
    /// may contradict their clocks.
    #[test]
    fn what_is_live_just_after_the_peak_is_what_was_live_at_it(
        operations in prop::collection::vec((any::<usize>(), 0..1000_u64, 0..2_u64), 1..200),
        threads in 1..4_usize,
        later in 0..3_u64,
    ) {
        let mut story = story(&operations, threads);
        // The end may be as late as the last event.
        let last: u64 = operations.iter().map(|&(_, _, passed)| passed).sum();
        story.trace.records.pop();
        story.end(0, last + later);
        let found = peaks(&story.trace, &Options::default()).expect("a story can be aggregated");
        for helpers in [Helpers::Never, Helpers::Always] {
            let options = Options {
                time_table: Some(&[]),
                thread_times: true,
                peaks: &found,
                helpers,
                ..Options::default()
            };
            let profile = aggregate(&story.trace, &options).expect("a story can be aggregated");
            let process = &profile.processes[0];
            let totals = process.totals;
            let sum = |blocks, bytes| BlockSum { blocks, bytes };
            let Some(peak) = found.first() else {
                prop_assert_eq!(totals.peak_bytes, 0);
                continue;
            };
            let table = process.times.as_ref().expect("it was asked for");
            prop_assert!(peak.after_ns() >= table.end_ns || table.is_exact_at(peak.after_ns()));
            prop_assert!(table.starts_ns.iter().all(|&start| start == 0 || start < table.end_ns));
            let until = table.buckets_in([0, peak.after_ns()]);
            let live = table.total(until).live_at_end;
            prop_assert_eq!(live, sum(totals.peak_allocations, totals.peak_bytes));
            for (number, site) in (0..).zip(&process.sites) {
                let live = table.of_site(number, until).live_at_end;
                prop_assert_eq!(live, sum(site.allocations_at_peak, site.bytes_at_peak));
            }
            // The whole run still has what was left.
            let all = table.buckets_in([0, table.end_ns]);
            let kept = table.total(all).kept;
            prop_assert_eq!(kept, sum(totals.leaked_allocations, totals.leaked_bytes));
            let by_thread = process.thread_times.as_ref().expect("it was asked for");
            let live = by_thread.total(until).live_at_end;
            prop_assert_eq!(live, sum(totals.peak_allocations, totals.peak_bytes));
        }
    }
}

proptest! {
    /// A profile of the range has the same figures as the table, and others.
    #[test]
    fn a_profile_of_a_range_has_the_figures_of_its_blocks(
        operations in operations(),
        threads in 1..4_usize,
        from in 0..END,
        length in 1..END,
    ) {
        let story = story(&operations, threads);
        let range = [from, (from + length).min(END)];
        let whole = story.profile();
        let stacks: Vec<u32> = whole.processes[0].sites.iter().map(|site| site.stack_id).collect();
        let blocks = blocks(&story, &stacks);
        let profile = aggregate_range(&story.trace, &Options::default(), range)
            .expect("a story can be aggregated");
        let process = &profile.processes[0];
        let mut found = 0;
        for site in &process.sites {
            let of_stack = &blocks[&site.stack_id];
            let expected = figures(of_stack, range);
            prop_assert_eq!(site.allocations, expected.allocated.blocks);
            prop_assert_eq!(site.allocated_bytes, expected.allocated.bytes);
            prop_assert_eq!(site.leaked_allocations, expected.kept.blocks);
            prop_assert_eq!(site.leaked_bytes, expected.kept.bytes);
            prop_assert_eq!(site.lifetimes.blocks, expected.allocated.blocks);
            found += expected.allocated.blocks;
        }
        let all: Vec<Lived> = blocks.into_values().flatten().collect();
        prop_assert_eq!(found, figures(&all, range).allocated.blocks);
        prop_assert_eq!(process.totals.allocations, found);
        prop_assert_eq!(process.started_us, range[0] / 1000);
        prop_assert_eq!(process.duration_us, (range[1] - range[0]) / 1000);
    }
}

#[test]
fn windows_and_forks_are_boundaries() {
    let mut story = Story::one_image();
    let mut opened = window("one", 1);
    opened.tick = 12_345;
    let mut closed = window_end(1, 2);
    closed.tick = 54_321;
    story.push(allotrope_trace::model::Record::Window(opened));
    story.events(0, 0, &[thread(1), timestamp(10), alloc(8, 0x1000, 1)]);
    story.push(allotrope_trace::model::Record::WindowEnd(closed));
    story.end(0, END);
    let options = Options {
        time_table: Some(&[]),
        ..Options::default()
    };
    let profile = aggregate(&story.trace, &options).expect("a story can be aggregated");
    let table: &TimeTable = profile.processes[0]
        .times
        .as_ref()
        .expect("it was asked for");
    assert!(table.is_exact_at(12_345) && table.is_exact_at(54_321));
    assert!(!table.is_exact_at(12_346));
    assert!(table.is_exact_at(END) && table.is_exact_at(2 * END));
    assert_eq!(story.profile().processes[0].times, None);
}

/// Two blocks of one site and one of another: the events come in the order in which they
/// happened, and a block that was not freed at the end.
#[test]
fn the_events_of_blocks_are_in_their_order() {
    let mut story = Story::one_image();
    let events = [
        thread(1),
        timestamp(10),
        alloc(8, 0x1000, 100),
        timestamp(20),
        alloc(9, 0x2000, 7),
        timestamp(30),
        alloc(8, 0x3000, 50),
        timestamp(40),
        free(0x1000),
        free(0x2000),
    ];
    story.events(0, 0, &events);
    story.end(0, END);
    let mut seen = Vec::new();
    let mut callback = |event, block: &Block| seen.push((event, block.size));
    let options = Options::default();
    block_events(&story.trace, &options, &[(0, 8)], &mut callback).expect("it is whole");
    assert_eq!(
        seen,
        [
            (BlockEvent::Allocated, 100),
            (BlockEvent::Allocated, 50),
            (BlockEvent::Freed, 100),
            (BlockEvent::LiveAtEnd, 50),
        ]
    );
}

/// The time table has the same cells for the sites that remain, under their new numbers.
#[test]
fn a_filtered_profile_keeps_the_times_of_its_sites() {
    let choices: Vec<(usize, u64, u64)> = (0..300).map(|n| (n * 7 + 5, 10, 1000)).collect();
    let story = story(&choices, 2);
    let options = Options {
        time_table: Some(&[]),
        ..Options::default()
    };
    let whole = aggregate(&story.trace, &options).expect("it is whole");
    let process = &whole.processes[0];
    let times = process.times.as_ref().expect("it was asked for");
    for chosen in &process.sites {
        let name = whole.frames[chosen.stack[0] as usize].function.clone();
        let mut filtered = whole.clone();
        filtered.filter(&Filter::new(&name, true));
        let kept = &filtered.processes[0];
        let kept_times = kept.times.as_ref().expect("it is kept");
        let mut cells = 0;
        for (index, site) in (0..).zip(&kept.sites) {
            let before = process.sites.iter().position(|it| it.number == site.number);
            let before = before.expect("it was there") as u32;
            let figures = |cells: &[allotrope_profile::TimeCell]| {
                let figures = cells
                    .iter()
                    .map(|it| (it.allocated, it.freed, it.blocks, it.bytes));
                figures.collect::<Vec<_>>()
            };
            let own = kept_times.cells_of(index);
            assert_eq!(figures(own), figures(times.cells_of(before)));
            cells += own.len();
        }
        assert!(kept.sites.iter().any(|site| site.number == chosen.number));
        assert_eq!(cells, kept_times.cells.len());
    }
}
