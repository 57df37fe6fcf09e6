//! Where the aggregation reads a trace from: a file ([`TraceReader`]) or records in memory
//! ([`MemoryTrace`]).

use allotrope_trace::model::{Event, EventKind, ImageId, Record, StackId, StackNode, StreamId};
use allotrope_trace::{CutReason, Entry, EventsRef, OutlineEntry, Source, StacksRef, TraceReader};

use crate::error::AggregateError;

/// A chunk of a stream's events that is not decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct EventChunk<H> {
    /// The image whose stream it is.
    pub image: ImageId,
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events in the stream before this chunk.
    pub first_ordinal: u64,
    /// Number of events in it, control events included.
    pub events: u64,
    /// Number of events in it that are counted.
    pub counted: u64,
    /// Tick of its first timestamp; `None` if it has none.
    pub first_tick: Option<u64>,
    /// Tick of its last timestamp; `None` if it has none.
    pub last_tick: Option<u64>,
    /// Handle by which the source finds the chunk.
    pub handle: H,
}

/// Some consecutive nodes of an image's stacks, not decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct StackPart<N> {
    /// The image.
    pub image: ImageId,
    /// Number of nodes.
    pub nodes: usize,
    /// Handle by which the source finds the nodes.
    pub handle: N,
}

/// An entry of a trace.
pub enum SourceEntry<H, N> {
    /// A record that is neither [`Record::Events`] nor [`Record::Stacks`].
    Record(Record),
    /// Stack nodes.
    Stacks(StackPart<N>),
    /// A chunk of events.
    Events(EventChunk<H>),
}

/// Takes one entry of a trace.
pub type Visitor<'a, H, N> = dyn FnMut(SourceEntry<H, N>) -> Result<(), AggregateError> + 'a;

/// Takes the nodes of a part: their image, the id of the first node, and the nodes, whose
/// ids are consecutive.
pub type NodeVisitor<'a> = dyn FnMut(ImageId, StackId, &[StackNode]) + 'a;

/// A trace that can be listed and whose chunks of events can be read in any
/// order, by several threads at the same time.
pub trait TraceSource: Sync {
    /// Handle by which the source finds a chunk.
    type Handle: Copy + Send + Sync;
    /// Handle by which the source finds stack nodes.
    type Stacks: Copy + Sync;

    /// Calls the visitor with every entry, in file order.
    fn visit(
        &self,
        visitor: &mut Visitor<'_, Self::Handle, Self::Stacks>,
    ) -> Result<(), AggregateError>;

    /// Calls the visitor with the nodes of each of these parts, which are in file order.
    fn read_stacks(
        &self,
        parts: &[StackPart<Self::Stacks>],
        visitor: &mut NodeVisitor<'_>,
    ) -> Result<(), AggregateError>;

    /// Replaces the contents of `into` by the events of the chunk.
    fn read(&self, handle: &Self::Handle, into: &mut Vec<Event>) -> Result<(), AggregateError>;

    /// Why the readable part ends before the trace was closed; `None` if it is whole.
    fn cut(&self) -> Option<String>;

    /// The trace is still being written.
    fn is_growing(&self) -> bool {
        false
    }
}

impl<S: Source> TraceSource for TraceReader<S> {
    type Handle = EventsRef;
    type Stacks = StacksRef;

    fn visit(&self, visitor: &mut Visitor<'_, EventsRef, StacksRef>) -> Result<(), AggregateError> {
        for entry in self.outline() {
            visitor(match entry? {
                OutlineEntry::Entry(Entry::Record(record)) => SourceEntry::Record(record),
                OutlineEntry::Entry(Entry::Events(at)) => SourceEntry::Events(EventChunk {
                    image: at.image,
                    stream: at.stream,
                    first_ordinal: at.first_ordinal,
                    events: u64::from(at.events),
                    counted: u64::from(at.counted),
                    first_tick: at.first_tick,
                    last_tick: at.last_tick,
                    handle: at,
                }),
                OutlineEntry::Stacks(at) => SourceEntry::Stacks(StackPart {
                    image: at.image,
                    nodes: at.nodes,
                    handle: at,
                }),
            })?;
        }
        Ok(())
    }

    fn read_stacks(
        &self,
        parts: &[StackPart<StacksRef>],
        visitor: &mut NodeVisitor<'_>,
    ) -> Result<(), AggregateError> {
        let mut from = self.stack_nodes();
        let mut nodes = Vec::new();
        for part in parts {
            let first = from.read(&part.handle, &mut nodes)?;
            visitor(part.image, first, &nodes);
        }
        Ok(())
    }

    fn read(&self, handle: &EventsRef, into: &mut Vec<Event>) -> Result<(), AggregateError> {
        Ok(self.read_events(handle, into)?)
    }

    fn is_growing(&self) -> bool {
        TraceReader::is_growing(self)
    }

    fn cut(&self) -> Option<String> {
        let end = self.cut_at()?;
        let is_end = matches!(end.reason, CutReason::NotClosed | CutReason::Truncated);
        if is_end && TraceReader::is_growing(self) {
            return None;
        }
        Some(self.shortfall().map_or_else(
            || "the trace was never closed".to_owned(),
            |shortfall| shortfall.to_string(),
        ))
    }
}

/// A trace held as records, for tests and for programs that generate traces.
#[derive(Debug, Clone, Default)]
pub struct MemoryTrace {
    /// The records, in the order of a file.
    pub records: Vec<Record>,
    /// Why the trace is not whole; `None` if it is.
    pub cut: Option<String>,
}

impl TraceSource for MemoryTrace {
    type Handle = usize;
    type Stacks = usize;

    fn visit(&self, visitor: &mut Visitor<'_, usize, usize>) -> Result<(), AggregateError> {
        for (handle, record) in self.records.iter().enumerate() {
            visitor(match record {
                Record::Events(chunk) => {
                    let events = || chunk.events.iter();
                    let mut ticks = events()
                        .filter(|event| event.kind == EventKind::Timestamp)
                        .map(|event| event.address);
                    let first_tick = ticks.next();
                    SourceEntry::Events(EventChunk {
                        image: chunk.image,
                        stream: chunk.stream,
                        first_ordinal: chunk.first_ordinal,
                        events: chunk.events.len() as u64,
                        counted: events().filter(|event| event.is_counted()).count() as u64,
                        first_tick,
                        last_tick: ticks.next_back().or(first_tick),
                        handle,
                    })
                }
                Record::Stacks { image, nodes, .. } => SourceEntry::Stacks(StackPart {
                    image: *image,
                    nodes: nodes.len(),
                    handle,
                }),
                other => SourceEntry::Record(other.clone()),
            })?;
        }
        Ok(())
    }

    fn read_stacks(
        &self,
        parts: &[StackPart<usize>],
        visitor: &mut NodeVisitor<'_>,
    ) -> Result<(), AggregateError> {
        for part in parts {
            let record = self.records.get(part.handle);
            let Some(Record::Stacks { first, nodes, .. }) = record else {
                return Err(AggregateError::NoSuchStacks(part.handle));
            };
            visitor(part.image, *first, nodes);
        }
        Ok(())
    }

    fn read(&self, handle: &usize, into: &mut Vec<Event>) -> Result<(), AggregateError> {
        let Some(Record::Events(chunk)) = self.records.get(*handle) else {
            return Err(AggregateError::NoSuchChunk(*handle));
        };
        into.clear();
        into.extend_from_slice(&chunk.events);
        Ok(())
    }

    fn cut(&self) -> Option<String> {
        self.cut.clone()
    }
}
