//! The distinct frames of both sides, numbered, and the name of each at every
//! match level, numbered too: stacks are compared as sequences of numbers.
//!
//! Frames are numbered in the order of their contents and names in the order of
//! frames. So neither the numbers nor anything derived from them depends on the
//! side or position of a frame.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Side;
use crate::error::DiffError;
use crate::match_level::MatchLevel;
use crate::similarity::operator_of;
use allotrope_attribution::{
    Code, Glue, Origin, Requests, Standing, mark_forwarding, mark_roots, names,
};
use allotrope_profile::{Metric, StackFrame, StackSet};

/// The number of match levels with names of their own.
const NAMED: usize = 4;

/// A run, and the numbers of its frames in the table.
pub(crate) struct Run<'a> {
    pub(crate) side: Side,
    pub(crate) set: &'a StackSet,
    numbers: Vec<u32>,
}

/// The frames of both sides.
pub(crate) struct FrameTable<'a> {
    pub(crate) runs: Vec<Run<'a>>,
    frames: Vec<&'a StackFrame>,
    /// By level and frame: the number of the frame's name.
    names: [Vec<u32>; NAMED],
    codes: Vec<Code>,
    /// The text of each name at the loosest level.
    spellings: Vec<String>,
    /// By name at the loosest level: whether it is that of an operator.
    is_operator: Vec<bool>,
    /// By side and name at the loosest level: how many frames of stacks have
    /// that name.
    occurrences: [Vec<u64>; 2],
    /// The frame that represents a stack without frames.
    nothing: u32,
}

impl<'a> FrameTable<'a> {
    pub(crate) fn new(
        before: &'a [StackSet],
        after: &'a [StackSet],
        nothing: &'a StackFrame,
        glue: &Glue,
    ) -> Result<Self, DiffError> {
        let sides = |set| (Side::Before, set);
        let sets: Vec<(Side, &StackSet)> = before
            .iter()
            .map(sides)
            .chain(after.iter().map(|set| (Side::After, set)))
            .collect();
        let (frames, mut numberings) = number(&sets, nothing);
        let nothing = numberings.pop().and_then(|last| last.first().copied());
        let mut table = Self {
            codes: frames.iter().map(|frame| glue.code_of(frame)).collect(),
            names: Default::default(),
            spellings: Vec::new(),
            is_operator: Vec::new(),
            occurrences: Default::default(),
            nothing: nothing.unwrap_or_default(),
            runs: sets
                .into_iter()
                .zip(numberings)
                .map(|((side, set), numbers)| Run { side, set, numbers })
                .collect(),
            frames,
        };
        table.name_all();
        table.count()?;
        table.mark_wrappers();
        Ok(table)
    }

    /// Replaces `stack` by the frames of a stack, innermost first. Never empty.
    pub(crate) fn stack(&self, run: u32, index: u32, stack: &mut Vec<u32>) {
        stack.clear();
        stack.extend(self.frames_of(run, index));
    }

    /// The same as an iterator.
    pub(crate) fn frames_of(&self, run: u32, index: u32) -> impl Iterator<Item = u32> + Clone {
        let run = &self.runs[run as usize];
        let frames = &run.set.stacks[index as usize].frames;
        let nothing = frames.is_empty().then_some(self.nothing);
        let frames = frames.iter().map(|&frame| run.numbers[frame as usize]);
        frames.chain(nothing)
    }

    pub(crate) fn frame(&self, frame: u32) -> &'a StackFrame {
        self.frames[frame as usize]
    }

    /// The number of frames.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The frame's name at a level.
    pub(crate) fn name(&self, frame: u32, level: MatchLevel) -> u32 {
        self.names[(level as usize).min(NAMED - 1)][frame as usize]
    }

    /// The frame's name at the loosest level.
    pub(crate) fn loosest(&self, frame: u32) -> u32 {
        self.names[NAMED - 1][frame as usize]
    }

    pub(crate) fn is_glue(&self, frame: u32) -> bool {
        self.origin(frame) == Origin::Glue
    }

    fn origin(&self, frame: u32) -> Origin {
        self.code(frame).origin
    }

    fn code(&self, frame: u32) -> Code {
        self.codes[frame as usize]
    }

    /// A function that returns for a frame of a stack, innermost first, whether it is the
    /// user's own and no wrapper; in a stack without such a frame, whether it is of the
    /// best there is.
    pub(crate) fn own_in(&self, stack: impl Iterator<Item = u32> + Clone) -> impl Fn(u32) -> bool {
        let standing = Standing::of(stack.map(|frame| self.code(frame)));
        move |frame| standing.is_known() && standing.includes(self.code(frame))
    }

    /// Marks the functions that only pass requests on, and those that say no more than
    /// `main`, in the stacks of both sides.
    fn mark_wrappers(&mut self) {
        let mut codes = std::mem::take(&mut self.codes);
        let figure = |values: &[u64], metric: Metric| values.get(metric as usize).copied();
        let stacks = self.runs.iter().flat_map(|run| {
            let numbered = move |&frame: &u32| run.numbers.get(frame as usize).copied();
            run.set.stacks.iter().map(move |stack| Requests {
                frames: stack.frames.iter().filter_map(numbered),
                blocks: figure(&stack.figures, Metric::Allocations).unwrap_or(0),
                bytes: figure(&stack.figures, Metric::Bytes).unwrap_or(0),
            })
        });
        mark_forwarding(&mut codes, &self.names[NAMED - 1], stacks.clone());
        mark_roots(&mut codes, &self.names[NAMED - 1], stacks);
        self.codes = codes;
    }

    /// The text of a name at the loosest level.
    pub(crate) fn spelling(&self, name: u32) -> &str {
        &self.spellings[name as usize]
    }

    /// How many frames of the stacks of a side have that name at the loosest
    /// level.
    pub(crate) fn occurrences(&self, name: u32, side: Side) -> u64 {
        self.occurrences[side as usize][name as usize]
    }

    /// Whether both sides have a function of that name at the loosest level.
    pub(crate) fn is_common(&self, name: u32) -> bool {
        self.occurrences(name, Side::Before) > 0 && self.occurrences(name, Side::After) > 0
    }

    /// Whether the function may have been renamed, inlined or inserted: only
    /// one side has it, and it is no operator.
    pub(crate) fn is_replaceable(&self, frame: u32) -> bool {
        let name = self.loosest(frame);
        !self.is_common(name) && !self.is_operator[name as usize]
    }

    /// The number of names at the loosest level.
    pub(crate) fn names(&self) -> usize {
        self.spellings.len()
    }

    fn name_all(&mut self) {
        let by_side = BySide::new(&self.runs);
        let mut exact = Interner::default();
        let mut canonical = Interner::default();
        let mut unwrapped = Interner::default();
        let mut loosest = Interner::default();
        for frame in &self.frames {
            let exactly = (
                frame.function.clone(),
                by_side.signature(&frame.signature).to_owned(),
                by_side.module(&frame.module).to_owned(),
            );
            self.names[0].push(exact.number(exactly));
            let name = names::canonical(&frame.function);
            let inner = names::unwrapped(&name);
            let bare = names::untemplated(&inner);
            self.names[1].push(canonical.number(name));
            self.names[2].push(unwrapped.number(inner));
            self.names[3].push(loosest.number(bare));
        }
        let mut spellings: Vec<(String, u32)> = loosest.numbers.into_iter().collect();
        spellings.sort_unstable_by_key(|&(_, number)| number);
        self.spellings = spellings.into_iter().map(|(name, _)| name).collect();
        let is_operator = |name: &String| operator_of(name).is_some();
        self.is_operator = self.spellings.iter().map(is_operator).collect();
    }

    /// Counts names, and checks that every frame that a stack refers to exists.
    fn count(&mut self) -> Result<(), DiffError> {
        self.occurrences = [vec![0; self.names()], vec![0; self.names()]];
        let mut position = [0, 0];
        for run in &self.runs {
            position[run.side as usize] += 1;
            let mut frames = vec![0_u64; run.set.frames.len()];
            for (stack, counted) in run.set.stacks.iter().enumerate() {
                for &frame in &counted.frames {
                    let Some(count) = frames.get_mut(frame as usize) else {
                        return Err(DiffError::NoSuchFrame {
                            side: run.side,
                            run: position[run.side as usize],
                            title: run.set.title.clone(),
                            stack,
                            frame,
                        });
                    };
                    *count += 1;
                }
            }
            for (&number, count) in run.numbers.iter().zip(frames) {
                let name = self.names[NAMED - 1][number as usize];
                self.occurrences[run.side as usize][name as usize] += count;
            }
        }
        Ok(())
    }
}

/// The distinct frames in order, and for each set the numbers of its frames;
/// the last numbering has only the number of `nothing`.
fn number<'a>(
    sets: &[(Side, &'a StackSet)],
    nothing: &'a StackFrame,
) -> (Vec<&'a StackFrame>, Vec<Vec<u32>>) {
    let mut interner: Interner<&StackFrame> = Interner::default();
    let mut numberings: Vec<Vec<u32>> = sets
        .iter()
        .map(|(_, set)| set.frames.iter().map(|f| interner.number(f)).collect())
        .collect();
    numberings.push(vec![interner.number(nothing)]);
    let mut frames: Vec<(&StackFrame, u32)> = interner.numbers.into_iter().collect();
    frames.sort_unstable();
    let mut in_order = vec![0; frames.len()];
    for (new, &(_, old)) in (0..).zip(&frames) {
        in_order[old as usize] = new;
    }
    for number in numberings.iter_mut().flatten() {
        *number = in_order[*number as usize];
    }
    (
        frames.into_iter().map(|(frame, _)| frame).collect(),
        numberings,
    )
}

struct Interner<T> {
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
        }
    }
}

impl<T: std::hash::Hash + Eq> Interner<T> {
    fn number(&mut self, item: T) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(item).or_insert(next)
    }
}

/// The modules and signatures of each side. A module or signature that the other
/// side lacks is ignored: the executable may have another name, and a file format
/// may have no signatures.
struct BySide<'a> {
    modules: [FxHashSet<&'a str>; 2],
    signatures: [FxHashSet<&'a str>; 2],
}

impl<'a> BySide<'a> {
    fn new(runs: &[Run<'a>]) -> Self {
        let mut found = Self {
            modules: Default::default(),
            signatures: Default::default(),
        };
        for run in runs {
            for frame in &run.set.frames {
                found.modules[run.side as usize].insert(&frame.module);
                found.signatures[run.side as usize].insert(&frame.signature);
            }
        }
        found
    }

    fn module<'b>(&self, module: &'b str) -> &'b str {
        if self.modules.iter().all(|side| side.contains(module)) {
            module
        } else {
            ""
        }
    }

    fn signature<'b>(&self, signature: &'b str) -> &'b str {
        if self.signatures.iter().all(|side| side.contains(signature)) {
            signature
        } else {
            ""
        }
    }
}
