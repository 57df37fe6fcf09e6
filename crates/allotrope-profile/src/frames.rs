//! Turns the stack nodes of an image into frames: looks up the symbols that the
//! trace carries, expands inlined frames and makes every frame once.

use allotrope_trace::model::{
    Frame as SymbolFrame, ImageId, Module as TraceModule, ModuleId, NO_MAPPING, StackId, StackNode,
    Symbols, stack_end,
};
use rustc_hash::FxHashMap;

use crate::index::Image;
use crate::model::{Frame, Module, UNKNOWN_MODULE, file_name};

/// How deep a stack is followed; a recorder cuts far below.
const DEPTH_LIMIT: usize = 1 << 20;

/// Makes the frame and module tables of a profile.
pub(crate) struct FrameTable {
    modules: Vec<Module>,
    module_indexes: FxHashMap<ModuleId, u32>,
    symbols: FxHashMap<ModuleId, ModuleSymbols>,
    frames: Vec<Frame>,
    frame_indexes: FxHashMap<Frame, u32>,
    /// Frames of a code address, for all images that mapped the module.
    resolved: FxHashMap<Place, Box<[u32]>>,
    latest: LatestStack,
}

/// The stack that was asked for last. The next one mostly shares its outer part
/// with it, which then need not be walked and looked up again.
#[derive(Default)]
struct LatestStack {
    image: Option<ImageId>,
    /// Its nodes, innermost first, so that ids become smaller.
    ids: Vec<StackId>,
    /// For each node the position of its first frame.
    starts: Vec<usize>,
    frames: Vec<u32>,
    /// How it ends (one of [`stack_end`]).
    end: u32,
}

/// The inner part of a stack: its nodes, innermost first, each with the number of
/// the name that code made at run time had there.
struct Walk {
    nodes: Vec<(StackId, StackNode, u32)>,
    outer: Outer,
}

/// What follows the inner part.
enum Outer {
    /// The latest stack, from this node on.
    Latest(usize),
    /// Nothing; the stack ends like this.
    End(u32),
}

/// A code address: `module` is `None` for one in no known module.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
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
            frame_indexes: FxHashMap::default(),
            resolved: FxHashMap::default(),
            latest: LatestStack::default(),
        }
    }

    /// Whether the module at this path was compiled without optimisation.
    pub(crate) fn unoptimised(&self, path: &str) -> Option<bool> {
        let module = self.modules.iter().find(|module| module.path == path);
        module
            .or_else(|| {
                let name = file_name(path);
                self.modules.iter().find(|module| module.name() == name)
            })
            .and_then(|module| module.unoptimised)
    }

    /// The frames of a stack, innermost first, and how the stack ends (one of
    /// [`stack_end`]).
    pub(crate) fn stack<H>(&mut self, image: &Image<H>, stack: StackId) -> (Box<[u32]>, u32) {
        if self.latest.image != Some(image.start.image) {
            self.latest = LatestStack::default();
            self.latest.image = Some(image.start.image);
        }
        let walk = walk(image, stack, &self.latest.ids);
        let mut frames = Vec::new();
        let mut starts = Vec::with_capacity(walk.nodes.len());
        for &(_, node, name) in &walk.nodes {
            starts.push(frames.len());
            if !self.runtime_frames(image, node, name, &mut frames) {
                frames.extend_from_slice(self.resolve(image, node));
            }
        }
        let shared = match walk.outer {
            Outer::Latest(shared) => shared,
            Outer::End(end) => {
                self.latest.end = end;
                self.latest.ids.len()
            }
        };
        let ended = matches!(walk.outer, Outer::End(stack_end::TRUNCATED));
        let truncated = ended.then(|| self.truncated());
        let ids = walk.nodes.iter().map(|&(id, _, _)| id);
        self.latest.replace_inner(shared, ids, &starts, frames);
        self.latest.frames.extend(truncated);
        (self.latest.frames.as_slice().into(), self.latest.end)
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

    /// Appends the names of code that the image made itself: `name` says which
    /// of those that the address had. `false` if there is none.
    fn runtime_frames<H>(
        &mut self,
        image: &Image<H>,
        node: StackNode,
        name: u32,
        frames: &mut Vec<u32>,
    ) -> bool {
        if node.mapping != NO_MAPPING {
            return false;
        }
        let before = frames.len();
        let code = image.runtime_code.borrow();
        for frame in code.frames(node.address, node.exact, name) {
            let unnamed = || format!("{:#x}", node.address);
            frames.push(self.intern(frame_of(frame, UNKNOWN_MODULE, &unnamed)));
        }
        frames.len() > before
    }

    fn resolve<H>(&mut self, image: &Image<H>, node: StackNode) -> &[u32] {
        let mapping = image.mappings.get(&node.mapping);
        let place = Place {
            module: mapping
                .filter(|_| node.mapping != NO_MAPPING)
                .map(|m| m.module),
            address: mapping.map_or(node.address, |m| node.address.wrapping_sub(m.bias)),
            exact: node.exact,
        };
        if !self.resolved.contains_key(&place) {
            let frames = self.name(place);
            let indexes = frames.into_iter().map(|frame| self.intern(frame)).collect();
            self.resolved.insert(place, indexes);
        }
        &self.resolved[&place]
    }

    /// The frames at a place: what the trace says, or its address as a name.
    fn name(&self, place: Place) -> Vec<Frame> {
        let Some(id) = place.module else {
            return vec![Frame {
                function: format!("{:#x}", place.address),
                module: UNKNOWN_MODULE,
                ..Frame::default()
            }];
        };
        let module = self.module_indexes.get(&id).copied();
        let unnamed = || {
            let name = module.map_or("", |index| self.modules[index as usize].name());
            let name = if name.is_empty() { "[unknown]" } else { name };
            format!("{name}+{:#x}", place.address)
        };
        let found: Vec<Frame> = self
            .symbols
            .get(&id)
            .into_iter()
            .flat_map(|symbols| symbols.frames(place.address, place.exact))
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
        if let Some(&index) = self.frame_indexes.get(&frame) {
            return index;
        }
        let index = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.frame_indexes.insert(frame, index);
        index
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
    /// Puts other nodes, with the frames that begin at `starts` in `frames`, in the
    /// place of those before `shared`.
    fn replace_inner(
        &mut self,
        shared: usize,
        ids: impl Iterator<Item = StackId>,
        starts: &[usize],
        frames: Vec<u32>,
    ) {
        let kept = self.starts.get(shared).copied();
        let kept = kept.unwrap_or(self.frames.len());
        for start in &mut self.starts[shared..] {
            *start = *start - kept + frames.len();
        }
        self.ids.splice(..shared, ids);
        self.starts.splice(..shared, starts.iter().copied());
        self.frames.splice(..kept, frames);
    }
}

/// The nodes of a stack that are not among those of the latest one, whose ids are
/// `latest`. A parent has a smaller id; what claims otherwise ends the walk.
fn walk<H>(image: &Image<H>, stack: StackId, latest: &[StackId]) -> Walk {
    let code = image.runtime_code.borrow();
    let mut nodes = Vec::new();
    let mut id = stack;
    let mut met = 0;
    while id >= stack_end::FIRST_NODE && nodes.len() < DEPTH_LIMIT {
        while latest.get(met).is_some_and(|&other| other > id) {
            met += 1;
        }
        let outer = latest.len() - met;
        if latest.get(met) == Some(&id) && nodes.len() + outer < DEPTH_LIMIT {
            let outer = Outer::Latest(met);
            return Walk { nodes, outer };
        }
        let node = image.stacks.get(id).map(|node| (node, 0));
        let Some((node, name)) = node.or_else(|| code.node(id)) else {
            id = stack_end::NOT_RECORDED;
            break;
        };
        nodes.push((id, node, name));
        if node.parent >= id {
            id = stack_end::NOT_RECORDED;
            break;
        }
        id = node.parent;
    }
    let outer = Outer::End(id);
    Walk { nodes, outer }
}
