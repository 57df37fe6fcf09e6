//! Which sites a text shows, what of them counts, and which of them read alike
//! and are shown as one.

use allotrope_diff::Glue;
use allotrope_profile::{Frame, Lifetimes, Process, Profile, Site};
use allotrope_trace::model::{ImageId, StackId};
use rustc_hash::FxHashMap;

use crate::text::TextOptions;

/// What sites are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Number of allocations.
    Allocations,
    /// Allocated bytes.
    Bytes,
    /// Bytes live at the peak.
    Peak,
    /// Bytes live at the end.
    Leaked,
    /// Number of temporary allocations.
    Temporary,
}

impl Key {
    /// Every key, in the order in which a report shows them.
    pub const ALL: [Self; 5] = [
        Self::Allocations,
        Self::Bytes,
        Self::Peak,
        Self::Leaked,
        Self::Temporary,
    ];

    /// The word for it on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "bytes",
            Self::Peak => "peak",
            Self::Leaked => "leaked",
            Self::Temporary => "temporary",
        }
    }

    /// The key of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}

/// Which blocks count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All.
    #[default]
    All,
    /// Those alive at the end of their process.
    Persisted,
    /// Those that were given back.
    Destroyed,
}

/// Figures of some sites.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub allocations: u64,
    pub bytes: u64,
    pub peak_allocations: u64,
    pub peak_bytes: u64,
    pub leaked_allocations: u64,
    pub leaked_bytes: u64,
    pub temporary: u64,
    pub lifetimes: Lifetimes,
}

impl Figures {
    /// What of a site belongs to the part. Which blocks were live at the peak
    /// is not known by part: all of them count.
    fn of(site: &Site, part: Part) -> Self {
        let all = Self {
            allocations: site.allocations,
            bytes: site.allocated_bytes,
            peak_allocations: site.allocations_at_peak,
            peak_bytes: site.bytes_at_peak,
            leaked_allocations: site.leaked_allocations,
            leaked_bytes: site.leaked_bytes,
            temporary: site.temporary_allocations,
            lifetimes: site.lifetimes,
        };
        match part {
            Part::All => all,
            Part::Persisted => Self {
                allocations: site.leaked_allocations,
                bytes: site.leaked_bytes,
                temporary: 0,
                ..all
            },
            Part::Destroyed => Self {
                allocations: site.allocations.saturating_sub(site.leaked_allocations),
                bytes: site.allocated_bytes.saturating_sub(site.leaked_bytes),
                leaked_allocations: 0,
                leaked_bytes: 0,
                ..all
            },
        }
    }

    fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.peak_allocations += other.peak_allocations;
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.leaked_allocations += other.leaked_allocations;
        self.leaked_bytes = self.leaked_bytes.saturating_add(other.leaked_bytes);
        self.temporary += other.temporary;
        self.lifetimes.merge(&other.lifetimes);
    }

    /// What the key ranks by.
    pub(crate) fn value(&self, key: Key) -> u64 {
        match key {
            Key::Allocations => self.allocations,
            Key::Bytes => self.bytes,
            Key::Peak => self.peak_bytes,
            Key::Leaked => self.leaked_bytes,
            Key::Temporary => self.temporary,
        }
    }

    /// Number of allocations that the key is about: breaks ties, and tells
    /// blocks of 0 bytes from none.
    pub(crate) fn number(&self, key: Key) -> u64 {
        match key {
            Key::Allocations | Key::Bytes => self.allocations,
            Key::Peak => self.peak_allocations,
            Key::Leaked => self.leaked_allocations,
            Key::Temporary => self.temporary,
        }
    }
}

/// Sites of one process that read alike.
pub(crate) struct Row<'a> {
    pub process: &'a Process,
    /// The first has the smallest number, which stands for all.
    pub sites: Vec<&'a Site>,
    /// The frames that are shown.
    pub stack: &'a [u32],
    pub figures: Figures,
}

impl Row<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.sites.first().map_or(0, |site| site.number)
    }
}

/// What is known of every frame before sites are looked at.
struct Reading<'a> {
    profile: &'a Profile,
    glue: Vec<bool>,
    /// Frames with the same number read alike as headline, or as caller.
    headline: Vec<u32>,
    caller: Vec<u32>,
}

impl<'a> Reading<'a> {
    fn new(profile: &'a Profile) -> Self {
        let glue = Glue::default();
        let mut headlines = FxHashMap::default();
        let mut callers = FxHashMap::default();
        let mut reading = Self {
            profile,
            glue: Vec::new(),
            headline: Vec::new(),
            caller: Vec::new(),
        };
        for frame in &profile.frames {
            let glue = glue.has_function(&profile.module_name(frame), &frame.function);
            reading.glue.push(glue);
            let next = headlines.len() as u32;
            let place = (&frame.function, &frame.file, frame.line, frame.module);
            reading
                .headline
                .push(*headlines.entry(place).or_insert(next));
            let next = callers.len() as u32;
            reading
                .caller
                .push(*callers.entry(&frame.function).or_insert(next));
        }
        reading
    }

    /// The stack without the glue at its inner end; whole if it is all glue.
    fn shown(&self, stack: &'a [u32], all_frames: bool) -> &'a [u32] {
        let is_glue = |&frame: &u32| self.glue.get(frame as usize).copied().unwrap_or(false);
        let hidden = stack.iter().take_while(|frame| is_glue(frame)).count();
        if all_frames || hidden == stack.len() {
            return stack;
        }
        &stack[hidden..]
    }

    fn alike(&self, shown: &[u32]) -> Box<[u32]> {
        let number = |of: &[u32], frame: u32| of.get(frame as usize).copied().unwrap_or(u32::MAX);
        let head = shown.iter().take(1).map(|&f| number(&self.headline, f));
        let callers = shown.iter().skip(1).map(|&f| number(&self.caller, f));
        head.chain(callers).collect()
    }

    fn matches(&self, stack: &[u32], pattern: &str) -> bool {
        let frames = stack
            .iter()
            .filter_map(|&f| self.profile.frames.get(f as usize));
        frames.into_iter().any(|frame: &Frame| {
            frame.function.contains(pattern)
                || frame.file.contains(pattern)
                || self.profile.module_name(frame).contains(pattern)
        })
    }
}

/// The rows that the options ask for, in order of their numbers.
pub(crate) fn rows<'a>(profile: &'a Profile, options: &TextOptions) -> Vec<Row<'a>> {
    let reading = Reading::new(profile);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for process in processes(profile, options) {
        let mut alike: FxHashMap<Box<[u32]>, usize> = FxHashMap::default();
        for site in &process.sites {
            let pattern = options.filter.as_deref();
            if pattern.is_some_and(|pattern| !reading.matches(&site.stack, pattern)) {
                continue;
            }
            let figures = Figures::of(site, options.part);
            if figures.allocations == 0 {
                continue;
            }
            let stack = reading.shown(&site.stack, options.all_frames);
            let row = *alike.entry(reading.alike(stack)).or_insert(rows.len());
            match rows.get_mut(row) {
                Some(row) => {
                    row.figures.add(&figures);
                    row.sites.push(site);
                }
                None => rows.push(Row {
                    process,
                    sites: vec![site],
                    stack,
                    figures,
                }),
            }
        }
    }
    rows
}

/// The processes that the options ask for.
pub(crate) fn processes<'a>(
    profile: &'a Profile,
    options: &TextOptions,
) -> impl Iterator<Item = &'a Process> {
    let wanted = options.process;
    let all = profile.processes.iter();
    all.filter(move |process| wanted.is_none_or(|id| process.id == id))
}

/// Sum over rows.
pub(crate) fn sum(rows: &[Row<'_>]) -> Figures {
    let mut sum = Figures::default();
    for row in rows {
        sum.add(&row.figures);
    }
    sum
}

/// The sites (image, stack id) that a text shows under this number: those that
/// read like the one that has it. Empty if there is none.
pub fn sites_alike(profile: &Profile, number: u32, all_frames: bool) -> Vec<(ImageId, StackId)> {
    let Some(row) = row_of(profile, number, all_frames) else {
        return Vec::new();
    };
    let of_site = |site: &&Site| (row.process.id, site.stack_id);
    row.sites.iter().map(of_site).collect()
}

/// The row that the site of this number is in.
pub(crate) fn row_of(profile: &Profile, number: u32, all_frames: bool) -> Option<Row<'_>> {
    let (process, _) = profile.site(number)?;
    let options = TextOptions {
        process: Some(process.id),
        all_frames,
        ..TextOptions::default()
    };
    let mut rows = rows(profile, &options).into_iter();
    rows.find(|row| row.sites.iter().any(|site| site.number == number))
}
