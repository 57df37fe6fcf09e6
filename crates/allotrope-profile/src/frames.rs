//! Turns the stack nodes of an image into frames: looks up the symbols that the
//! trace carries, expands inlined frames and makes every frame once.

use std::hash::BuildHasher;
use std::path::Path;

use allotrope_trace::model::{
    Frame as SymbolFrame, ImageId, Mapping, MappingId, Module as TraceModule, ModuleId, NO_MAPPING,
    StackId, StackNode, Symbols, stack_end,
};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::index::Image;
use crate::jit_code::JitCode;
use crate::model::{Frame, Module, UNKNOWN_MODULE};
use crate::stack::Stacks;
use crate::stack_tree::StackTree;

/// How deep a stack is followed; a recorder cuts far below.
const DEPTH_LIMIT: usize = 1 << 20;

/// What is to be known of an image to name its code.
pub(crate) struct Code<'a> {
    pub image: ImageId,
    pub stacks: &'a StackTree,
    pub mappings: &'a FxHashMap<MappingId, Mapping>,
    /// What it made itself.
    pub runtime: &'a JitCode,
}

/// Makes the frame and module tables of a profile.
pub(crate) struct FrameTable {
    modules: Vec<Module>,
    module_indexes: FxHashMap<ModuleId, u32>,
    symbols: FxHashMap<ModuleId, ModuleSymbols>,
    frames: Vec<Frame>,
    /// Indexes of `frames` by what is there.
    frame_indexes: HashTable<u32>,
    /// Frames of a code address, for all images that mapped the module: a part of
    /// `own_frames`.
    resolved: FxHashMap<CodeLocation, Part>,
    /// Frames of a code address that the latest stack's image made itself, under
    /// one of the names that it had.
    runtime: FxHashMap<(u64, bool, u32), Part>,
    /// Those of the latest stack's image by number of the address.
    of_addresses: Vec<Option<Part>>,
    /// Frames of code addresses, innermost first.
    own_frames: Vec<u32>,
    latest: LatestStack,
    /// The inner part of the stack at hand, innermost first: nodes and where their
    /// frames are. Kept for its memory.
    inner: Vec<(StackId, Part)>,
}

/// Where the frames of one node lie: start and length.
type Part = (u32, u32);

/// The stack that was asked for last. The next one mostly shares its outer part
/// with it, which then need not be walked and looked up again.
#[derive(Default)]
struct LatestStack {
    image: Option<ImageId>,
    /// Its nodes, outermost first, so that ids become larger.
    ids: Vec<StackId>,
    /// For each node how many frames there are up to its last one.
    ends: Vec<u32>,
    /// Outermost first.
    frames: Vec<u32>,
    /// How it ends (one of [`stack_end`]).
    end: u32,
}

/// What follows the inner part.
enum Outer {
    /// So many outermost nodes of the latest stack.
    Latest(usize),
    /// Nothing; the stack ends like this.
    End(u32),
}

/// A code address: `module` is `None` for one in no known module.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CodeLocation {
    module: Option<ModuleId>,
    address: u64,
    exact: bool,
}

#[derive(Default)]
struct ModuleSymbols {
    records: Vec<Symbols>,
    /// (address, exact) → record, location.
    locations: FxHashMap<(u64, bool), (u32, u32)>,
}

impl<'a> Code<'a> {
    /// Of this image, which has its stacks.
    pub(crate) fn of<H>(image: &'a Image<H>, runtime: &'a JitCode) -> Self {
        Self {
            image: image.start.image,
            stacks: &image.stacks,
            mappings: &image.mappings,
            runtime,
        }
    }
}

impl FrameTable {
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
        Self {
            module_indexes: (0..).zip(&in_order).map(|(i, m)| (m.module, i)).collect(),
            modules: in_order
                .iter()
                .map(|module| Module {
                    path: module.path.clone(),
                    build_id: module.build_id.clone(),
                    unoptimised: unoptimised(&module.module),
                })
                .collect(),
            symbols,
            frames: Vec::new(),
            frame_indexes: HashTable::new(),
            resolved: FxHashMap::default(),
            runtime: FxHashMap::default(),
            of_addresses: Vec::new(),
            own_frames: Vec::new(),
            latest: LatestStack::default(),
            inner: Vec::new(),
        }
    }

    /// Whether the module at this path was compiled without optimisation.
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

    /// Adds the frames of a stack to `stacks`, and gives how the stack ends (one of
    /// [`stack_end`]).
    pub(crate) fn stack(&mut self, code: &Code<'_>, stack: StackId, stacks: &mut Stacks) -> u32 {
        if self.latest.image != Some(code.image) {
            self.latest.cut(0);
            self.runtime.clear();
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

    /// Finds the nodes of a stack that are not among those of the latest one, and
    /// their frames. A parent has a smaller id; what claims otherwise ends the walk.
    fn walk(&mut self, code: &Code<'_>, stack: StackId) -> Outer {
        self.inner.clear();
        let mut id = stack;
        // Nodes of the latest stack whose ids are not larger.
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
            let Some((node, name)) = node.or_else(|| code.runtime.node(id)) else {
                return Outer::End(stack_end::NOT_RECORDED);
            };
            let part = match code.stacks.address_number(id) {
                Some(number) => self.part_of_address(code, node, number),
                None => self.part(code, node, name),
            };
            self.inner.push((id, part));
            if node.parent >= id {
                return Outer::End(stack_end::NOT_RECORDED);
            }
            id = node.parent;
        }
        Outer::End(id)
    }

    /// The frames of a node whose address has a number in the image.
    #[inline]
    fn part_of_address(&mut self, code: &Code<'_>, node: StackNode, number: u32) -> Part {
        let index = number as usize;
        if let Some(&Some(part)) = self.of_addresses.get(index) {
            return part;
        }
        let part = self.part(code, node, 0);
        if self.of_addresses.len() <= index {
            self.of_addresses.resize(index + 1, None);
        }
        self.of_addresses[index] = Some(part);
        part
    }

    /// The frames of a node: `name` says which of its names an address had where
    /// code was made at run time.
    #[inline]
    fn part(&mut self, code: &Code<'_>, node: StackNode, name: u32) -> Part {
        let runtime = if node.mapping == NO_MAPPING {
            self.runtime_frames(code, node, name)
        } else {
            None
        };
        runtime.unwrap_or_else(|| self.resolve(code, node))
    }

    fn truncated(&mut self) -> u32 {
        self.intern(Frame {
            function: "[truncated]".to_owned(),
            module: UNKNOWN_MODULE,
            ..Frame::default()
        })
    }

    /// The finished tables.
    pub(crate) fn finish(self) -> (Vec<Module>, Vec<Frame>) {
        (self.modules, self.frames)
    }

    /// The names of code that the image made itself. `None` if there is none.
    fn runtime_frames(&mut self, code: &Code<'_>, node: StackNode, name: u32) -> Option<Part> {
        let named = (node.address, node.exact, name);
        let part = if let Some(&part) = self.runtime.get(&named) {
            part
        } else {
            let unnamed = || format!("{:#x}", node.address);
            let frames = code.runtime.frames(node.address, node.exact, name);
            let frames = frames.map(|frame| frame_of(frame, UNKNOWN_MODULE, &unnamed));
            let part = self.keep(frames);
            self.runtime.insert(named, part);
            part
        };
        (part.1 > 0).then_some(part)
    }

    #[inline]
    fn resolve(&mut self, code: &Code<'_>, node: StackNode) -> Part {
        let mapping = code.mappings.get(&node.mapping);
        let location = CodeLocation {
            module: mapping
                .filter(|_| node.mapping != NO_MAPPING)
                .map(|m| m.module),
            address: mapping.map_or(node.address, |m| node.address.wrapping_sub(m.bias)),
            exact: node.exact,
        };
        if let Some(&part) = self.resolved.get(&location) {
            return part;
        }
        let frames = self.name(location);
        let part = self.keep(frames.into_iter());
        self.resolved.insert(location, part);
        part
    }

    /// Puts the frames of a node where they can be found.
    fn keep(&mut self, frames: impl Iterator<Item = Frame>) -> Part {
        let start = self.own_frames.len();
        for frame in frames {
            let index = self.intern(frame);
            self.own_frames.push(index);
        }
        (start as u32, (self.own_frames.len() - start) as u32)
    }

    /// The frames of a code address: the symbols in the trace, or its address as a name.
    fn name(&self, location: CodeLocation) -> Vec<Frame> {
        let Some(id) = location.module else {
            return vec![Frame {
                function: format!("{:#x}", location.address),
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
                function: unnamed(),
                module: module.unwrap_or(UNKNOWN_MODULE),
                ..Frame::default()
            }];
        }
        found
    }

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

fn frame_of(symbol: &SymbolFrame, module: u32, unnamed: &dyn Fn() -> String) -> Frame {
    let named = !symbol.function.is_empty();
    Frame {
        function: if named {
            symbol.function.clone()
        } else {
            unnamed()
        },
        signature: symbol.signature.clone(),
        module,
        file: symbol.file.clone(),
        line: symbol.line,
        column: symbol.column,
        offset: if named { symbol.offset } else { 0 },
        inlined: symbol.inlined,
        generated: symbol.generated,
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

    fn frames(&self, address: u64, exact: bool) -> impl Iterator<Item = &SymbolFrame> {
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
        // A frame that says that the stack was cut belongs to the outermost node.
        let frames = self.ends.last().map_or(0, |&end| end as usize);
        self.frames.truncate(frames);
    }

    /// Adds nodes, innermost first, whose frames are parts of these.
    fn extend(&mut self, inner: &[(StackId, Part)], frames: &[u32]) {
        for &(id, (start, length)) in inner.iter().rev() {
            let own = &frames[start as usize..][..length as usize];
            self.frames.extend(own.iter().rev());
            self.ids.push(id);
            self.ends.push(self.frames.len() as u32);
        }
    }
}
