//! Reads the nodes of stacks and makes the frames of sites' stacks on a thread of its
//! own while the events are replayed: a site needs its stack only to be shown, but
//! with hundreds of thousands of them that is much to do before and behind the replay.
//!
//! Frames are numbered as they are met, image after image in order of start, and
//! in each site after site. The thread keeps that order, so that nothing depends
//! on there being one.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use allotrope_trace::model::{ImageId, Mapping, MappingId, StackId, stack_end};
use rustc_hash::FxHashMap;

use crate::error::ReplayError;
use crate::frames::{Code, FrameTable};
use crate::index::Index;
use crate::replay::Helpers;
use crate::runtime_code::RuntimeCode;
use crate::source::{StackPart, TraceSource};
use crate::stack::Stacks;
use crate::stack_tree::{self, StackTree, StackTrees};

/// Traces with fewer stack nodes are not worth a thread.
const WORTH_A_THREAD: usize = 1 << 14;
/// Sites that are told of at once: to wake the thread takes as long as dozens of
/// events.
const TOLD_AT_ONCE: usize = 1024;

/// The stacks of an image's sites, in the order of the sites.
#[derive(Default)]
pub(crate) struct SiteStacks {
    pub stacks: Stacks,
    /// Those cut at the depth limit.
    pub truncated: u64,
    /// Those that met code without unwind information.
    pub without_unwind_information: u64,
}

/// The stacks by image.
pub(crate) type StacksAhead = FxHashMap<ImageId, SiteStacks>;

/// Stacks of an image's next sites.
pub(crate) struct Told {
    image: ImageId,
    stacks: Vec<StackId>,
    /// There are no more.
    last: bool,
}

/// Tells the thread of an image's sites as they come.
pub(crate) struct Teller {
    next: Told,
    to: Sender<Told>,
}

impl SiteStacks {
    /// Adds the stack of the next site.
    pub(crate) fn add(&mut self, stack: StackId, code: &Code<'_>, frames: &mut FrameTable) {
        let end = frames.stack(code, stack, &mut self.stacks);
        self.truncated += u64::from(end == stack_end::TRUNCATED);
        self.without_unwind_information += u64::from(end == stack_end::NO_UNWIND_INFORMATION);
    }
}

impl Told {
    fn none_yet(image: ImageId) -> Self {
        Self {
            image,
            stacks: Vec::new(),
            last: false,
        }
    }
}

impl Teller {
    pub(crate) fn new(image: ImageId, to: Sender<Told>) -> Self {
        let next = Told::none_yet(image);
        Self { next, to }
    }

    /// The image has another site, of this stack.
    pub(crate) fn tell(&mut self, stack: StackId) {
        self.next.stacks.push(stack);
        if self.next.stacks.len() == TOLD_AT_ONCE {
            let next = Told::none_yet(self.next.image);
            // A thread that has ended leaves the stacks to whoever needs them.
            let _ = self.to.send(std::mem::replace(&mut self.next, next));
        }
    }

    /// That was all.
    pub(crate) fn end(mut self) {
        self.next.last = true;
        let _ = self.to.send(self.next);
    }
}

/// What a replay gives, and what was made of the stacks meanwhile.
pub(crate) struct Replayed<T> {
    pub result: T,
    pub frames: FrameTable,
    /// Of some images, none of which starts after one that is missing.
    pub ahead: StacksAhead,
}

/// What the thread makes.
struct Made {
    trees: StackTrees,
    frames: FrameTable,
    ahead: StacksAhead,
}

/// The mappings of each image, in order of start.
type Mappings<'a> = Vec<(ImageId, &'a FxHashMap<MappingId, Mapping>)>;

/// Calls `replay` while another thread, if it is worth one, reads the nodes that are
/// in these `parts` and makes the frames of the stacks that it is told of. In the end
/// the index has all nodes.
pub(crate) fn during<S: TraceSource, T>(
    source: &S,
    index: &mut Index<S::Handle>,
    parts: &[StackPart<S::Stacks>],
    helpers: Helpers,
    replay: impl Fn(&Index<S::Handle>, Option<Sender<Told>>) -> Result<T, ReplayError>,
) -> Result<Replayed<T>, ReplayError> {
    let mut symbols = std::mem::take(&mut index.symbols);
    if has_thread(index, parts, helpers) {
        let index_there = &*index;
        let images = index_there.images.iter();
        let mappings: Mappings<'_> = images.map(|(&id, image)| (id, &image.mappings)).collect();
        let (modules, symbols) = (&index_there.modules, &mut symbols);
        let (tell, told) = channel();
        let make = move || -> Result<Made, ReplayError> {
            let trees = stack_tree::read(source, parts)?;
            let mut frames = FrameTable::new(modules, std::mem::take(symbols));
            let ahead = follow(&mappings, &trees, &told, &mut frames);
            Ok(Made {
                trees,
                frames,
                ahead,
            })
        };
        let made = thread::scope(|scope| {
            let builder = thread::Builder::new().name("stacks ahead".to_owned());
            let thread = builder.spawn_scoped(scope, make).ok()?;
            let result = replay(index_there, Some(tell));
            let made = thread.join();
            Some((made.unwrap_or_else(|panic| resume_unwind(panic)), result))
        });
        if let Some((made, result)) = made {
            // What is wrong with the stacks is said first, as without a thread.
            let made = made?;
            index.give_stacks(made.trees);
            return Ok(Replayed {
                result: result?,
                frames: made.frames,
                ahead: made.ahead,
            });
        }
    }
    index.give_stacks(stack_tree::read(source, parts)?);
    Ok(Replayed {
        result: replay(index, None)?,
        frames: FrameTable::new(&index.modules, symbols),
        ahead: StacksAhead::default(),
    })
}

fn has_thread<H, N>(index: &Index<H>, parts: &[StackPart<N>], helpers: Helpers) -> bool {
    let nodes: usize = parts.iter().map(|part| part.nodes).sum();
    // Stacks of code that an image made itself may get other ids in the replay.
    !index.has_runtime_code() && helpers.number(nodes >= WORTH_A_THREAD, 1) > 0
}

/// What the thread does when it has read the nodes: makes the frames of the stacks it
/// is told of, in order of their images.
fn follow(
    mappings: &Mappings<'_>,
    trees: &StackTrees,
    told: &Receiver<Told>,
    frames: &mut FrameTable,
) -> StacksAhead {
    let (no_nodes, no_code) = (StackTree::default(), RuntimeCode::default());
    let mut ahead = StacksAhead::default();
    // Of images whose turn has not come.
    let mut waiting: FxHashMap<ImageId, Told> = FxHashMap::default();
    for &(image, mappings) in mappings {
        let code = Code {
            image,
            stacks: trees.get(&image).unwrap_or(&no_nodes),
            mappings,
            runtime: &no_code,
        };
        let mut made = SiteStacks::default();
        let mut next = waiting.remove(&image);
        loop {
            if let Some(next) = next {
                for stack in next.stacks {
                    made.add(stack, &code, frames);
                }
                if next.last {
                    ahead.insert(image, made);
                    break;
                }
            }
            let Ok(more) = told.recv() else {
                // This one was not replayed to its end.
                break;
            };
            next = if more.image == image {
                Some(more)
            } else {
                let known = waiting.entry(more.image);
                let known = known.or_insert_with(|| Told::none_yet(more.image));
                known.stacks.extend(more.stacks);
                known.last = more.last;
                None
            };
        }
    }
    ahead
}
