//! The frames of the page: those of all comparisons and of the compared run, each once.

use allotrope_attribution::{Code, Glue, Heads, Origin};
use allotrope_profile::StackFrame;
use allotrope_report::diff::function;
use rustc_hash::FxHashMap;

use crate::columns::Columns;
use crate::encode::origin_number;
use crate::names::Names;

/// The frames, by number in order of first use.
pub struct Frames<'a> {
    glue: &'a Glue,
    numbers: FxHashMap<&'a StackFrame, u32>,
    list: Vec<(&'a StackFrame, Origin)>,
}

/// The frames of one list, by their index in it.
pub struct FramesOf<'a> {
    list: &'a [StackFrame],
    /// Numbers + 1; 0: not used yet.
    numbers: Vec<u32>,
}

impl<'a> Frames<'a> {
    pub fn new(glue: &'a Glue) -> Self {
        Self {
            glue,
            numbers: FxHashMap::default(),
            list: Vec::new(),
        }
    }

    /// Returns the numbers of the frames of this list.
    pub fn of<'b>(&self, list: &'b [StackFrame]) -> FramesOf<'b>
    where
        'b: 'a,
    {
        FramesOf {
            list,
            numbers: vec![0; list.len()],
        }
    }

    fn number(&mut self, frame: &'a StackFrame) -> u32 {
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(frame).or_insert(next);
        if number == next {
            self.list.push((frame, self.glue.origin_of(frame)));
        }
        number
    }

    /// The place in a stack of the frame that stands for it, and of the first one that text
    /// shows.
    pub fn shown(&self, stack: &[u32]) -> [u64; 2] {
        let origin = |&frame: &u32| self.list.get(frame as usize).map(|(_, it)| *it);
        let origins = stack.iter().filter_map(origin);
        let heads = Heads::of(origins.map(Code::from));
        [heads.headline.into(), heads.first_shown.into()]
    }

    /// Writes their columns.
    pub fn encode(&self, columns: &mut Columns, names: &mut Names) {
        let all = || self.list.iter().map(|(frame, _)| *frame);
        let functions: Vec<u64> = all().map(|it| names.number(&function(it))).collect();
        let files: Vec<u64> = all().map(|it| names.number(&it.file)).collect();
        columns.numbers("frame.file", files);
        columns.numbers("frame.line", all().map(|it| it.line.into()));
        // 0 may be an offset.
        let offsets = all().map(|it| it.offset.map_or(0, |it| it.saturating_add(1)));
        columns.numbers("frame.offset", offsets);
        let mut modules: Vec<&str> = Vec::new();
        let mut numbers: FxHashMap<&str, u64> = FxHashMap::default();
        let mut of_frames = Vec::new();
        for frame in all() {
            let module = match &*frame.module {
                "" => 0,
                name => *numbers.entry(name).or_insert_with(|| {
                    modules.push(name);
                    modules.len() as u64
                }),
            };
            of_frames.push(module);
        }
        columns.numbers("frame.module", of_frames);
        let modules: Vec<u64> = modules.iter().map(|it| names.number(it)).collect();
        columns.numbers("module.path", modules);
        let origins = self.list.iter().map(|&(_, origin)| origin_number(origin));
        columns.numbers("frame.origin", origins);
        columns.numbers("frame.flags", all().map(|it| it.inlined.into()));
        // A function is one cell of the flame graph, in whatever file or module it is.
        let mut groups: FxHashMap<u64, u64> = FxHashMap::default();
        let mut group_names = Vec::new();
        let of_frames = functions.iter().map(|&name| {
            *groups.entry(name).or_insert_with(|| {
                group_names.push(name);
                group_names.len() as u64 - 1
            })
        });
        let of_frames: Vec<u64> = of_frames.collect();
        columns.numbers("frame.group", of_frames);
        columns.numbers("group.name", group_names);
        columns.numbers("frame.function", functions);
    }
}

impl<'b> FramesOf<'b> {
    /// The page's number of the frame with this index.
    pub fn number<'a>(&mut self, frames: &mut Frames<'a>, index: u32) -> u64
    where
        'b: 'a,
    {
        let at = index as usize;
        let (Some(frame), Some(known)) = (self.list.get(at), self.numbers.get_mut(at)) else {
            return 0;
        };
        if *known == 0 {
            *known = frames.number(frame) + 1;
        }
        u64::from(*known - 1)
    }

    /// The page's numbers of the frames of a stack.
    pub fn stack<'a>(
        &mut self,
        frames: &mut Frames<'a>,
        stack: impl Iterator<Item = u32>,
    ) -> Vec<u32>
    where
        'b: 'a,
    {
        let numbers = stack.map(|index| self.number(frames, index) as u32);
        numbers.collect()
    }
}
