//! Turns the stack nodes of an image into frames: looks up the symbols in the trace,
//! expands inlined frames, and stores every distinct frame once (interning). The aggregation
//! calls it for each site, once the figures are complete.
//!
//! Results are cached at three levels: frames of a code address for all images
//! (`resolved`), frames of an address number of the present image (`of_addresses`), and
//! the frames of the last stack, which mostly shares its outer part with the next one
//! (`latest`).

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::path::Path;

use allotrope_trace::model::{
    ImageId, Mapping, MappingId, Module as TraceModule, ModuleId, NO_MAPPING, NamedFrame, StackId,
    StackNode, Symbols, stack_end,
};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::index::Image;
use crate::jit_code::JitCode;
use crate::model::{Module, UNKNOWN_MODULE};
use crate::named_frame::Frame;
use crate::stack::Stacks;
use crate::stack_tree::StackTree;

/// Largest number of nodes of a stack that are followed. The recorder's limit is far lower; this is
/// for damaged files.
const DEPTH_LIMIT: usize = 1 << 20;

/// The parts of an image that are needed to name its code.
pub(crate) struct Code<'a> {
    pub image: ImageId,
    pub stacks: &'a StackTree,
    pub mappings: &'a FxHashMap<MappingId, Mapping>,
    pub jit: &'a JitCode,
}

/// Makes the frame and module tables of a profile.
pub(crate) struct FrameTable {
    modules: Vec<Module>,
    module_indexes: FxHashMap<ModuleId, u32>,
    symbols: FxHashMap<ModuleId, ModuleSymbols>,
    /// Every distinct frame.
    frames: Vec<Frame>,
    /// Hash table from a frame to its index in `frames`.
    frame_indexes: HashTable<u32>,
    /// Frames of a code address in a module, for all images.
    resolved: FxHashMap<CodeLocation, FrameRange>,
    /// Frames of the latest image's JIT code, by (address, exact, name): see
    /// [`JitCode::frames`].
    jit_frames: FxHashMap<(u64, bool, u32), FrameRange>,
    /// Frames of the latest image's addresses, by [`StackTree::address_number`].
    of_addresses: Vec<Option<FrameRange>>,
    /// Indexes into `frames`: the frames of all code addresses, innermost first.
    own_frames: Vec<u32>,
    latest: LatestStack,
    /// Scratch memory of [`Self::walk`]: nodes of the stack, innermost first, with their
    /// frames.
    inner: Vec<(StackId, FrameRange)>,
}

/// The frames of one node: start and length in `own_frames`.
type FrameRange = (u32, u32);

/// The last stack. The next one mostly shares its outer part with it, which then need not
/// be walked and looked up again.
#[derive(Default)]
struct LatestStack {
    image: Option<ImageId>,
    /// Nodes of the stack, outermost first, so that ids ascend.
    ids: Vec<StackId>,
    /// End in `frames` of the frames of each node.
    ends: Vec<u32>,
    /// Outermost first.
    frames: Vec<u32>,
    /// How it ends (one of [`stack_end`]).
    end: u32,
}

/// What is outside of the nodes that [`FrameTable::walk`] collected.
enum Outer {
    /// This many outermost nodes of the latest stack.
    Latest(usize),
    /// Nothing; the stack ends like this (one of [`stack_end`]).
    End(u32),
}

/// A code address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CodeLocation {
    /// `None` if it is in no known module.
    module: Option<ModuleId>,
    /// [`StackNode::address`] minus the mapping's bias.
    address: u64,
    /// See [`StackNode::exact`].
    exact: bool,
}

/// The symbols of a module.
#[derive(Default)]
struct ModuleSymbols {
    records: Vec<Symbols>,
    /// Location of each (address, exact): (index of the record, index of the location in it).
    locations: FxHashMap<(u64, bool), (u32, u32)>,
}

impl<'a> Code<'a> {
    /// The parts of this image. Its JIT code is borrowed by the caller.
    pub(crate) fn of<H>(image: &'a Image<H>, jit: &'a JitCode) -> Self {
        Self {
            image: image.start.image,
            stacks: &image.stacks,
            mappings: &image.mappings,
            jit,
        }
    }
}

impl FrameTable {
    /// Tables without frames, for the modules and symbols of a trace.
    pub(crate) fn new(
        modules: &FxHashMap<ModuleId, TraceModule>,
        symbols: FxHashMap<ModuleId, Vec<Symbols>>,
    ) -> Self {
        let mut in_order: Vec<&TraceModule> = modules.values().collect();
        in_order.sort_by_key(|module| module.module);
        let symbols: FxHashMap<ModuleId, ModuleSymbols> = symbols
            .into_iter()
            .map(|(module, records)| (module, ModuleSymbols::new(records)))
            .collect();
        let unoptimised = |id: &ModuleId| {
            let records = &symbols.get(id)?.records;
            records.iter().find_map(|record| record.unoptimised)
        };
        let compilers = |id: &ModuleId| {
            let records = symbols.get(id).map_or(&[][..], |symbols| &symbols.records);
            let all = records.iter().flat_map(|record| &record.compilers);
            let all: BTreeSet<&String> = all.collect();
            all.into_iter().cloned().collect()
        };
        let records = |id: &ModuleId| symbols.get(id).map_or(&[][..], |it| &it.records);
        let missing = |id: &ModuleId| records(id).iter().find_map(|record| record.missing);
        let sources = |id: &ModuleId| {
            let all = records(id).iter().flat_map(|record| &record.sources);
            all.cloned().collect()
        };
        Self {
            module_indexes: (0..).zip(&in_order).map(|(i, m)| (m.module, i)).collect(),
            modules: in_order
                .iter()
                .map(|module| Module {
                    path: module.path.clone(),
                    build_id: module.build_id.clone(),
                    unoptimised: unoptimised(&module.module),
                    compilers: compilers(&module.module),
                    missing: missing(&module.module),
                    modified_ns: module.file.modified_ns,
                    sources: sources(&module.module),
                })
                .collect(),
            symbols,
            frames: Vec::new(),
            frame_indexes: HashTable::new(),
            resolved: FxHashMap::default(),
            jit_frames: FxHashMap::default(),
            of_addresses: Vec::new(),
            own_frames: Vec::new(),
            latest: LatestStack::default(),
            inner: Vec::new(),
        }
    }

    /// Whether the module at this path, or else one with this file name, was compiled
    /// without optimisation; `None` if unknown.
    pub(crate) fn unoptimised(&self, path: &Path) -> Option<bool> {
        let module = self.modules.iter().find(|module| module.path == path);
        module
            .or_else(|| {
                let name = path.file_name()?;
                let mut modules = self.modules.iter();
                modules.find(|module| module.path.file_name() == Some(name))
            })
            .and_then(|module| module.unoptimised)
    }

    /// Adds the frames of a stack to `stacks`. Returns how the stack ends (one of
    /// [`stack_end`]).
    pub(crate) fn stack(&mut self, code: &Code<'_>, stack: StackId, stacks: &mut Stacks) -> u32 {
        if self.latest.image != Some(code.image) {
            self.latest.cut(0);
            self.jit_frames.clear();
            self.of_addresses.clear();
            self.latest.image = Some(code.image);
        }
        match self.walk(code, stack) {
            Outer::Latest(shared) => self.latest.cut(shared),
            Outer::End(end) => {
                self.latest.cut(0);
                self.latest.end = end;
                if end == stack_end::TRUNCATED {
                    let truncated = self.truncated();
                    self.latest.frames.push(truncated);
                }
            }
        }
        self.latest.extend(&self.inner, &self.own_frames);
        stacks.add(&self.latest.frames);
        self.latest.end
    }

    /// Collects in `inner` the nodes of a stack that the latest stack does not have, with
    /// their frames. A parent has a smaller id than its child; the walk ends at a node
    /// where that is not so.
    fn walk(&mut self, code: &Code<'_>, stack: StackId) -> Outer {
        self.inner.clear();
        let mut id = stack;
        // Number of nodes of the latest stack whose ids are not larger than `id`.
        let mut outer = self.latest.ids.len();
        while id >= stack_end::FIRST_NODE && self.inner.len() < DEPTH_LIMIT {
            while outer > 0 && self.latest.ids[outer - 1] > id {
                outer -= 1;
            }
            let known = outer > 0 && self.latest.ids[outer - 1] == id;
            if known && self.inner.len() + outer < DEPTH_LIMIT {
                return Outer::Latest(outer);
            }
            let node = code.stacks.get(id).map(|node| (node, 0));
            let Some((node, name)) = node.or_else(|| code.jit.node(id)) else {
                return Outer::End(stack_end::NOT_RECORDED);
            };
            let range = match code.stacks.address_number(id) {
                Some(number) => self.frames_of_address(code, node, number),
                None => self.frames_of_node(code, node, name),
            };
            self.inner.push((id, range));
            if node.parent >= id {
                return Outer::End(stack_end::NOT_RECORDED);
            }
            id = node.parent;
        }
        Outer::End(id)
    }

    /// The frames of a node whose address has a number in the image.
    #[inline]
    fn frames_of_address(&mut self, code: &Code<'_>, node: StackNode, number: u32) -> FrameRange {
        let index = number as usize;
        if let Some(&Some(range)) = self.of_addresses.get(index) {
            return range;
        }
        let range = self.frames_of_node(code, node, 0);
        if self.of_addresses.len() <= index {
            self.of_addresses.resize(index + 1, None);
        }
        self.of_addresses[index] = Some(range);
        range
    }

    /// The frames of a node. `name` is the index of the name that JIT code had there.
    #[inline]
    fn frames_of_node(&mut self, code: &Code<'_>, node: StackNode, name: u32) -> FrameRange {
        let jit = if node.mapping == NO_MAPPING {
            self.frames_of_jit_code(code, node, name)
        } else {
            None
        };
        jit.unwrap_or_else(|| self.resolve(code, node))
    }

    /// The frame that stands for the missing outer part of a truncated stack.
    fn truncated(&mut self) -> u32 {
        self.intern(Frame {
            function: "[truncated]".into(),
            module: UNKNOWN_MODULE,
            ..Frame::default()
        })
    }

    /// The finished tables.
    pub(crate) fn finish(self) -> (Vec<Module>, Vec<Frame>) {
        (self.modules, self.frames)
    }

    /// The frames of JIT code; `None` if the trace has no name for it.
    fn frames_of_jit_code(
        &mut self,
        code: &Code<'_>,
        node: StackNode,
        name: u32,
    ) -> Option<FrameRange> {
        let named = (node.address, node.exact, name);
        let range = if let Some(&range) = self.jit_frames.get(&named) {
            range
        } else {
            let unnamed = || format!("{:#x}", node.address);
            let frames = code.jit.frames(node.address, node.exact, name);
            let frames = frames.map(|frame| frame_of(frame, UNKNOWN_MODULE, &unnamed));
            let range = self.intern_all(frames);
            self.jit_frames.insert(named, range);
            range
        };
        (range.1 > 0).then_some(range)
    }

    /// The frames of a code address, by its module's symbols.
    #[inline]
    fn resolve(&mut self, code: &Code<'_>, node: StackNode) -> FrameRange {
        let mapping = code.mappings.get(&node.mapping);
        let location = CodeLocation {
            module: mapping
                .filter(|_| node.mapping != NO_MAPPING)
                .map(|m| m.module),
            address: mapping.map_or(node.address, |m| node.address.wrapping_sub(m.bias)),
            exact: node.exact,
        };
        if let Some(&range) = self.resolved.get(&location) {
            return range;
        }
        let mut frames = self.name(location);
        if let Some(innermost) = frames.first_mut() {
            innermost.interrupted = node.exact;
        }
        let range = self.intern_all(frames.into_iter());
        self.resolved.insert(location, range);
        range
    }

    /// Interns the frames of a node and appends their indexes to `own_frames`.
    fn intern_all(&mut self, frames: impl Iterator<Item = Frame>) -> FrameRange {
        let start = self.own_frames.len();
        for frame in frames {
            let index = self.intern(frame);
            self.own_frames.push(index);
        }
        (start as u32, (self.own_frames.len() - start) as u32)
    }

    /// The frames of a code address: from the symbols in the trace, or one frame with the
    /// address as its name.
    fn name(&self, location: CodeLocation) -> Vec<Frame> {
        let Some(id) = location.module else {
            return vec![Frame {
                function: format!("{:#x}", location.address).into(),
                module: UNKNOWN_MODULE,
                ..Frame::default()
            }];
        };
        let module = self.module_indexes.get(&id).copied();
        let unnamed = || {
            let name = module.map(|index| self.modules[index as usize].name());
            let name = name.filter(|name| !name.is_empty());
            let name = name.unwrap_or("[unknown]".into());
            format!("{name}+{:#x}", location.address)
        };
        let found: Vec<Frame> = self
            .symbols
            .get(&id)
            .into_iter()
            .flat_map(|symbols| symbols.frames(location.address, location.exact))
            .map(|symbol| frame_of(symbol, module.unwrap_or(UNKNOWN_MODULE), &unnamed))
            .collect();
        if found.is_empty() {
            return vec![Frame {
                function: unnamed().into(),
                module: module.unwrap_or(UNKNOWN_MODULE),
                ..Frame::default()
            }];
        }
        found
    }

    /// The index of a frame in `frames`; adds it if it is new.
    fn intern(&mut self, frame: Frame) -> u32 {
        let hash = |frame: &Frame| FxBuildHasher.hash_one(frame);
        let at = |&index: &u32| &self.frames[index as usize];
        let indexes = &mut self.frame_indexes;
        let known = indexes.entry(
            hash(&frame),
            |index| *at(index) == frame,
            |index| hash(at(index)),
        );
        match known {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let index = self.frames.len() as u32;
                new.insert(index);
                self.frames.push(frame);
                index
            }
        }
    }
}

/// A frame of the trace as one of a module; `unnamed` makes the name if it has none.
fn frame_of(symbol: &NamedFrame, module: u32, unnamed: &dyn Fn() -> String) -> Frame {
    let frame = symbol.with_module(module);
    match frame.function.is_empty() {
        true => Frame {
            function: unnamed().into(),
            offset: None,
            ..frame
        },
        false => frame,
    }
}

impl ModuleSymbols {
    fn new(records: Vec<Symbols>) -> Self {
        let mut locations = FxHashMap::default();
        for (r, record) in (0..).zip(&records) {
            for (l, location) in (0..).zip(&record.locations) {
                locations.insert((location.address, location.exact), (r, l));
            }
        }
        Self { records, locations }
    }

    fn frames(&self, address: u64, exact: bool) -> impl Iterator<Item = &NamedFrame> {
        let found = self.locations.get(&(address, exact)).map(|&(r, l)| {
            let record = &self.records[r as usize];
            (record, &record.locations[l as usize])
        });
        found.into_iter().flat_map(|(record, location)| {
            let indexes = location.frames.iter();
            indexes.filter_map(|&index| record.frames.get(index as usize))
        })
    }
}

impl LatestStack {
    /// Keeps only the `nodes` outermost nodes.
    fn cut(&mut self, nodes: usize) {
        self.ids.truncate(nodes);
        self.ends.truncate(nodes);
        // The `[truncated]` frame, if there is one, precedes the outermost node's frames
        // and counts as one of them.
        let frames = self.ends.last().map_or(0, |&end| end as usize);
        self.frames.truncate(frames);
    }

    /// Adds nodes, innermost first; their ranges refer to `frames`.
    fn extend(&mut self, inner: &[(StackId, FrameRange)], frames: &[u32]) {
        for &(id, (start, length)) in inner.iter().rev() {
            let own = &frames[start as usize..][..length as usize];
            self.frames.extend(own.iter().rev());
            self.ids.push(id);
            self.ends.push(self.frames.len() as u32);
        }
    }
}
