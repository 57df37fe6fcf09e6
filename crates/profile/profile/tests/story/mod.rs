//! Builds small traces by hand, for all tests of the aggregation. A tick is a nanosecond.
#![allow(dead_code)] // each test file uses some of it

use allotrope_profile::{MemoryTrace, Options, Process, Profile, Site, aggregate};
use allotrope_trace::model::{
    EntryPoint, EpochChange, Event, EventKind, Events, Exit, ForkPoint, ImageEnd, ImageId,
    ImageStart, NO_MAPPING, Origin, QuietWait, Record, Recording, StackNode, StreamId, ThreadId,
    ThreadStart, Window, WindowEnd,
};

/// Number of stacks of one frame that every image has: those with ids 8 to 27.
const STACKS: u32 = 20;

/// A trace under construction.
#[derive(Default)]
pub struct Story {
    pub trace: MemoryTrace,
}

const NOTHING: Event = Event {
    kind: EventKind::Allocation,
    entry: EntryPoint::Malloc,
    alignment_log2: 0,
    stack: 0,
    address: 0,
    size: 0,
};

pub fn alloc(stack: u32, address: u64, size: u64) -> Event {
    Event {
        stack,
        address,
        size,
        ..NOTHING
    }
}

pub fn free(address: u64) -> Event {
    Event {
        kind: EventKind::Deallocation,
        entry: EntryPoint::Free,
        address,
        ..NOTHING
    }
}

/// A deallocation with its stack, as in a recording with `--free-stacks`.
pub fn free_at(stack: u32, address: u64) -> Event {
    Event {
        stack,
        ..free(address)
    }
}

pub fn realloc_start(address: u64) -> Event {
    Event {
        kind: EventKind::ReallocationStart,
        entry: EntryPoint::Realloc,
        address,
        ..NOTHING
    }
}

pub fn realloc_end(stack: u32, address: u64, size: u64) -> Event {
    Event {
        kind: EventKind::ReallocationEnd,
        entry: EntryPoint::Realloc,
        stack,
        address,
        size,
        ..NOTHING
    }
}

pub fn realloc_failed() -> Event {
    Event {
        kind: EventKind::ReallocationFailed,
        ..NOTHING
    }
}

pub fn realloc_freed() -> Event {
    Event {
        kind: EventKind::ReallocationFreed,
        ..NOTHING
    }
}

pub fn timestamp(tick: u64) -> Event {
    Event {
        kind: EventKind::Timestamp,
        address: tick,
        ..NOTHING
    }
}

pub fn thread(id: ThreadId) -> Event {
    Event {
        kind: EventKind::Thread,
        address: u64::from(id),
        ..NOTHING
    }
}

pub fn epoch(epoch: u64) -> Event {
    epoch_change(epoch, false)
}

pub fn epoch_change(epoch: u64, opted_out: bool) -> Event {
    Event {
        kind: EventKind::Epoch,
        address: EpochChange { epoch, opted_out }.to_word(),
        ..NOTHING
    }
}

/// A window of image 0.
pub fn window(name: &str, opened: u64) -> Window {
    Window {
        image: 0,
        opened,
        thread: Some(1),
        this_thread_only: false,
        name: name.into(),
        iterations: 0,
        quiet: QuietWait::NotRequested,
        tick: 0,
    }
}

pub fn window_end(opened: u64, closed: u64) -> WindowEnd {
    WindowEnd {
        image: 0,
        opened,
        closed,
        quiet: QuietWait::NotRequested,
        tick: 0,
        descriptors: None,
    }
}

impl Story {
    pub fn new() -> Self {
        let mut story = Self::default();
        story.push(Record::Recording(Recording::default()));
        story
    }

    /// The recording has the stacks of deallocations.
    pub fn with_free_stacks(mut self) -> Self {
        if let Some(Record::Recording(recording)) = self.trace.records.first_mut() {
            recording.free_stacks = true;
        }
        self
    }

    /// One image that begins at tick 0, with threads 1 to 8.
    pub fn one_image() -> Self {
        let mut story = Self::new();
        story.image(0, None, &[]);
        story
    }

    pub fn push(&mut self, record: Record) -> &mut Self {
        self.trace.records.push(record);
        self
    }

    /// Starts an image at tick 0. `cut` are the fork points: (stream, ordinal).
    pub fn image(&mut self, image: ImageId, parent: Option<ImageId>, cut: &[(StreamId, u64)]) {
        self.push(Record::ImageStart(ImageStart {
            image,
            pid: 100 + image,
            parent_pid: 1,
            origin: parent.map_or(Origin::First, |_| Origin::Fork),
            forked_from: parent,
            fork_points: cut
                .iter()
                .map(|&(stream, ordinal)| ForkPoint { stream, ordinal })
                .collect(),
            executable: "/bin/story".into(),
            command: vec!["story".into()],
            tick: 0,
        }));
        self.push(Record::Stacks {
            image,
            first: 8,
            nodes: (0..STACKS)
                .map(|n| StackNode {
                    parent: 0,
                    address: 0x1000 + u64::from(n),
                    mapping: NO_MAPPING,
                    exact: false,
                })
                .collect(),
        });
        for number in 1..=8 {
            self.push(Record::ThreadStart(ThreadStart {
                image,
                thread: image * 8 + number,
                tid: 1000 + number,
                tick: 0,
            }));
        }
    }

    /// Adds a chunk of events.
    pub fn events(&mut self, image: ImageId, stream: StreamId, events: &[Event]) -> &mut Self {
        let before = self.trace.records.iter().filter_map(|record| match record {
            Record::Events(chunk) if chunk.stream == stream => {
                Some(chunk.events.iter().filter(|e| e.is_counted()).count() as u64)
            }
            _ => None,
        });
        let first_ordinal = before.sum();
        self.push(Record::Events(Events {
            image,
            stream,
            first_ordinal,
            events: events.to_vec(),
        }))
    }

    pub fn end(&mut self, image: ImageId, tick: u64) -> &mut Self {
        self.push(Record::ImageEnd(ImageEnd {
            image,
            tick,
            exit: Exit::Status(0),
            complete: true,
        }))
    }

    pub fn profile(&self) -> Profile {
        self.profile_with(0)
    }

    pub fn profile_with(&self, temporary_threshold: u64) -> Profile {
        let options = Options {
            temporary_threshold,
            evidence: true,
            ..Options::default()
        };
        aggregate(&self.trace, &options).expect("a story can be aggregated")
    }

    /// Ends image 0 at `tick`, and returns it from the profile.
    pub fn process(mut self, tick: u64) -> Process {
        self.end(0, tick);
        self.profile().processes.remove(0)
    }
}

/// The process of an image with these events of one thread, from tick 0 to 1 ms.
pub fn of_one_thread(events: &[Event]) -> Process {
    let mut story = Story::one_image();
    let mut all = vec![thread(1)];
    all.extend_from_slice(events);
    all.push(timestamp(1_000_000));
    story.events(0, 0, &all);
    story.process(1_000_000)
}

pub fn site(process: &Process, stack: u32) -> &Site {
    let found = process.sites.iter().find(|site| site.stack_id == stack);
    found.expect("the stack allocated")
}
