//! A flame graph of one set of stacks, by any metric; and what it shares with the differential
//! one: numbered names, and the frames that are wide enough to be seen. `svg.rs` draws them.

mod svg;

use std::collections::{HashMap, HashSet};
use std::hash::Hasher;
use std::io::{self, Write};

use allotrope_profile::{Filter, Metric, StackFrame, StackSet};
use allotrope_text::{columns, cut, shown};
use rustc_hash::FxHasher;

use crate::diff::function;
use crate::numbers::count;

/// Frames narrower than the whole divided by this are not drawn: no screen shows them.
const FINEST: u64 = 4000;
/// Deeper frames are not drawn.
const MAX_DEPTH: usize = 1000;
/// Largest number of frames. If more are wide enough, only wider ones are drawn: a browser takes
/// seconds for so many.
const MAX_FRAMES: usize = 100_000;
/// The same for the bytes of their names.
const MAX_BYTES: usize = 64 << 20;
/// Characters of a subtitle; an image is 1200 pixels wide.
const SUBTITLE: usize = 150;
/// A note in the comment of each graph, by which it is recognised as ours.
const MARK: &str = "an allotrope flame graph";
/// The frame of stacks without frames.
const NO_STACK: &str = "[no stack]";

/// Whether a file that begins so is a flame graph of Allotrope, of one set of stacks or of two.
pub fn is_flame_graph(head: &[u8]) -> bool {
    let mark = format!("<!--NOTES: {MARK}-->");
    head.starts_with(b"<?xml ")
        && head
            .windows(mark.len())
            .any(|window| window == mark.as_bytes())
}

/// A stack: names from the outermost one inwards, and its figures before and after a change;
/// in a graph of one set they are equal.
pub(crate) struct Line {
    names: Box<[u32]>,
    pub before: u64,
    pub after: u64,
}

impl Line {
    /// A line of a stack of these names, of which no more than one is kept that is not drawn.
    pub(crate) fn new(names: impl Iterator<Item = u32>, before: u64, after: u64) -> Self {
        Self {
            names: names.take(MAX_DEPTH + 1).collect(),
            before,
            after,
        }
    }

    fn width(&self) -> u64 {
        self.before.max(self.after)
    }
}

/// Numbers distinct names.
#[derive(Default)]
pub(crate) struct Names {
    numbers: HashMap<String, u32>,
    list: Vec<String>,
}

impl Names {
    /// The number of a frame's name.
    pub(crate) fn number(&mut self, frame: &StackFrame) -> u32 {
        self.number_of(function(frame))
    }

    fn number_of(&mut self, name: String) -> u32 {
        let name = match name.is_empty() {
            true => "??".to_owned(),
            false => name,
        };
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.list.len() as u32;
        self.numbers.insert(name.clone(), number);
        self.list.push(name);
        number
    }
}

/// What is written on frames, and their colours.
pub(crate) trait Labels {
    /// The label of the frame with this name that the stacks of `group` share, and its colour.
    fn label(&self, name: &str, group: &[Line]) -> (String, Colour);
}

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub u8, pub u8, pub u8);

/// A frame that is drawn.
pub(crate) struct Frame {
    /// Frames between it and the bottom; the outermost ones have 1.
    depth: usize,
    /// The sum of what is on its left.
    start: u64,
    width: u64,
    label: String,
    colour: Colour,
}

/// What is drawn.
pub(crate) struct Picture {
    /// Each below those that it calls, and left to right.
    frames: Vec<Frame>,
    /// The sum of all stacks.
    whole: u64,
    /// What the only frame says if there are no stacks.
    none: String,
    /// There are deeper stacks than are drawn.
    is_cut: bool,
    /// Frames narrower than the whole divided by this are left out.
    finest: u64,
}

/// The words of a graph.
pub(crate) struct Words<'a> {
    pub title: &'a str,
    /// Below the title.
    pub about: &'a str,
    /// What is counted.
    pub unit: &'a str,
}

impl Picture {
    /// The picture of these stacks; if there are none, of a frame that says so.
    pub(crate) fn new(names: &Names, lines: Vec<Line>, labels: &dyn Labels, none: String) -> Self {
        let lines = merged(lines);
        let whole = lines.iter().map(Line::width).fold(0, u64::saturating_add);
        let mut finest = FINEST;
        while finest > 1 && !Measure::fits(&names.list, whole, finest, &lines) {
            finest /= 2;
        }
        let mut picture = Self {
            frames: Vec::new(),
            whole,
            none,
            is_cut: false,
            finest,
        };
        picture.add(&names.list, labels, &lines, 0, 0);
        picture
    }

    /// Adds the frames of lines that share their first `depth` names, to the right of `start`.
    fn add(
        &mut self,
        names: &[String],
        labels: &dyn Labels,
        lines: &[Line],
        depth: usize,
        mut start: u64,
    ) {
        for (name, group) in branches(lines, depth) {
            let width = group.iter().map(Line::width).fold(0, u64::saturating_add);
            if let Some(name) = name {
                if is_wide(width, self.whole, self.finest) && width > 0 {
                    let (label, colour) = labels.label(&names[name as usize], group);
                    self.frames.push(Frame {
                        depth: depth + 1,
                        start,
                        width,
                        label,
                        colour,
                    });
                    self.add(names, labels, group, depth + 1, start);
                }
            } else {
                self.is_cut |= group.iter().any(|line| line.names.len() > depth);
            }
            start = start.saturating_add(width);
        }
    }

    /// Writes it as SVG.
    pub(crate) fn write(&self, words: &Words<'_>, out: &mut dyn Write) -> io::Result<()> {
        let cut = match self.is_cut {
            true => format!("; frames deeper than {MAX_DEPTH} are left out"),
            false => String::new(),
        };
        let narrow = match self.finest {
            FINEST => String::new(),
            finest => format!("; frames narrower than 1/{finest} are left out"),
        };
        let about = format!("{}{cut}{narrow}", words.about);
        let words = Words {
            about: &about,
            ..*words
        };
        svg::write(self, &words, out)
    }
}

/// Whether a stack of these frames is selected by the filter.
pub(crate) fn wanted(frames: &[StackFrame], filter: Option<&Filter>) -> impl Fn(&[u32]) -> bool {
    let matching: Option<Vec<bool>> =
        filter.map(|filter| frames.iter().map(|frame| filter.selects(frame)).collect());
    move |stack| match &matching {
        None => true,
        Some(matching) => {
            let is_wanted = |&frame: &u32| matching.get(frame as usize) == Some(&true);
            stack.iter().any(is_wanted)
        }
    }
}

/// Merges stacks of equal names and sorts them, so that stacks with common outer
/// frames are neighbours.
fn merged(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| a.names.cmp(&b.names));
    lines.dedup_by(|line, first| {
        let same = line.names == first.names;
        if same {
            first.before += line.before;
            first.after += line.after;
        }
        same
    });
    lines
}

/// The lines of a group that have each name at this depth, in order of names. `None` for lines
/// that end there, each of its own.
fn branches(lines: &[Line], depth: usize) -> impl Iterator<Item = (Option<u32>, &[Line])> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let name = first
            .names
            .get(depth)
            .filter(|_| depth < MAX_DEPTH)
            .copied();
        let end = match name {
            None => 1,
            Some(name) => rest.partition_point(|line| line.names.get(depth) <= Some(&name)),
        };
        let (group, others) = rest.split_at(end);
        rest = others;
        Some((name, group))
    })
}

/// Whether frames of these lines, which have this sum, are wide enough.
fn is_wide(wide: u64, whole: u64, finest: u64) -> bool {
    wide.saturating_mul(finest) >= whole
}

/// Counts what would be drawn.
struct Measure<'a> {
    names: &'a [String],
    whole: u64,
    finest: u64,
    frames: usize,
    bytes: usize,
}

impl<'a> Measure<'a> {
    /// Whether what is drawn with this limit is small enough.
    fn fits(names: &'a [String], whole: u64, finest: u64, lines: &[Line]) -> bool {
        let mut measure = Self {
            names,
            whole,
            finest,
            frames: 0,
            bytes: 0,
        };
        measure.count(lines, 0)
    }

    /// Counts lines that share their first `depth` names; `false` once it is too much.
    fn count(&mut self, lines: &[Line], depth: usize) -> bool {
        for (name, group) in branches(lines, depth) {
            let wide = group.iter().map(Line::width).fold(0, u64::saturating_add);
            let Some(name) = name.filter(|_| is_wide(wide, self.whole, self.finest)) else {
                continue;
            };
            self.frames += 1;
            self.bytes += self.names[name as usize].len();
            let is_small = self.frames <= MAX_FRAMES && self.bytes <= MAX_BYTES;
            if !is_small || !self.count(group, depth + 1) {
                return false;
            }
        }
        true
    }
}

/// Labels frames with their names, each in a shade of green of its own.
struct Plain;

impl Labels for Plain {
    fn label(&self, name: &str, _group: &[Line]) -> (String, Colour) {
        let mut hash = FxHasher::default();
        hash.write(name.as_bytes());
        let [green, blue, ..] = hash.finish().to_le_bytes();
        let colour = Colour(0, 190 + green % 50, blue % 210);
        (name.to_owned(), colour)
    }
}

/// Writes the graph of a set by a metric, which it must know. `about` describes the
/// selection, if only a part is drawn.
pub fn write(
    set: &StackSet,
    metric: Metric,
    about: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names = Names::default();
    let numbers: Vec<u32> = set.frames.iter().map(|it| names.number(it)).collect();
    let none = names.number_of(NO_STACK.to_owned());
    let mut total: u64 = 0;
    let mut lines = Vec::new();
    for stack in &set.stacks {
        let figure = stack.figures[metric as usize];
        if figure == 0 {
            continue;
        }
        total = total.saturating_add(figure);
        let frames = stack.frames.iter().rev();
        let frames = frames.map(|&frame| numbers[frame as usize]);
        lines.push(match stack.frames.is_empty() {
            true => Line::new([none].into_iter(), figure, figure),
            false => Line::new(frames, figure, figure),
        });
    }
    let picture = Picture::new(&names, lines, &Plain, format!("no {}", metric.words()));
    let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
    let words = Words {
        title: &format!("{} {}", count(total), metric.words()),
        about: &subtitle(&shown(&set.title), &shown(&about)),
        unit: metric.words(),
    };
    picture.write(&words, out)
}

/// Labels frames as [`Plain`] does, and those with marked names in shades of red and yellow.
struct Marking<'a>(&'a HashSet<&'a str>);

impl Labels for Marking<'_> {
    fn label(&self, name: &str, group: &[Line]) -> (String, Colour) {
        let (label, Colour(red, green, blue)) = Plain.label(name, group);
        match self.0.contains(name) {
            true => (label, Colour(green, 80 + blue / 2, red)),
            false => (label, Colour(red, green, blue)),
        }
    }
}

/// A graph of stacks that are not of allocations.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// What is drawn, such as a command.
    pub title: &'a str,
    /// What the marked frames are, for the subtitle.
    pub about: &'a str,
    /// What is counted: `samples`.
    pub unit: &'a str,
    /// Names of frames that are drawn in red and yellow; the others are green and blue.
    pub marked: &'a HashSet<&'a str>,
}

impl Counted<'_> {
    /// Writes the graph of stacks, each with its frames, the outermost one first, and its figure.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write<'s>(
        &self,
        stacks: impl IntoIterator<Item = (impl IntoIterator<Item = &'s str>, u64)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut names = Names::default();
        let mut total: u64 = 0;
        let mut lines = Vec::new();
        for (frames, figure) in stacks {
            total = total.saturating_add(figure);
            let frames = frames.into_iter();
            let frames: Vec<u32> = frames.map(|it| names.number_of(it.to_owned())).collect();
            lines.push(Line::new(frames.into_iter(), figure, figure));
        }
        let none = format!("no {}", self.unit);
        let picture = Picture::new(&names, lines, &Marking(self.marked), none);
        let about = match self.marked.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.about),
        };
        let words = Words {
            title: &format!("{} {}", count(total), self.unit),
            about: &subtitle(&shown(self.title), &shown(&about)),
            unit: self.unit,
        };
        picture.write(&words, out)
    }
}

/// What is drawn, in as many columns as fit.
fn subtitle(title: &str, about: &str) -> String {
    let room = SUBTITLE.saturating_sub(columns(about));
    format!("{}{about}", cut(title, room))
}

#[cfg(test)]
mod tests {
    use allotrope_profile::{CountedStack, MetricSet, MetricValues};

    use super::*;

    fn set(stacks: &[(&[&str], u64)]) -> StackSet {
        let mut set = StackSet {
            title: "app <&> x".to_owned(),
            known: MetricSet::of(&[Metric::Bytes]),
            ..StackSet::default()
        };
        for (names, bytes) in stacks {
            let mut figures = MetricValues::default();
            figures[Metric::Bytes as usize] = *bytes;
            let first = set.frames.len() as u32;
            for name in *names {
                set.frames.push(StackFrame {
                    function: (*name).into(),
                    ..StackFrame::default()
                });
            }
            set.stacks.push(CountedStack {
                frames: (first..set.frames.len() as u32).collect(),
                figures,
                maximum: None,
            });
        }
        set
    }

    fn drawn(set: &StackSet) -> String {
        let mut out = Vec::new();
        write(set, Metric::Bytes, None, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("an SVG file is text")
    }

    #[test]
    fn frames_have_their_figures_and_equal_sets_give_equal_graphs() {
        let set = set(&[
            (&["f", "main"], 30),
            (&["g", "main"], 12),
            (&["f", "main"], 3),
        ]);
        let svg = drawn(&set);
        for part in [
            "45 allocated bytes",
            "main (45 allocated bytes, 100.00%)",
            "f (33 allocated bytes, 73.33%)",
            "g (12 allocated bytes, 26.67%)",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg, drawn(&set));
    }

    #[test]
    fn marked_frames_have_other_colours() {
        let graph = Counted {
            title: "./bench 7",
            about: "red: the allocator",
            unit: "samples",
            marked: &HashSet::from(["free"]),
        };
        let mut out = Vec::new();
        let stacks = [(vec!["main", "free"], 30), (vec!["main", "work"], 12)];
        graph.write(stacks, &mut out).unwrap();
        let svg = String::from_utf8(out).unwrap();
        for part in [
            "42 samples",
            "./bench 7 (red: the allocator)",
            "main (42 samples, 100.00%)",
            "free (30 samples, 71.43%)",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let red_of = |name: &str| {
            let at = svg.find(&format!("<title>{name} (")).unwrap();
            let fill = &svg[at + svg[at..].find("rgb(").unwrap() + 4..];
            fill.split(',').next().unwrap().parse::<u8>().unwrap()
        };
        assert!(red_of("free") >= 190 && red_of("main") == 0 && red_of("work") == 0);
    }

    #[test]
    fn hostile_names_stay_text() {
        let long = "x".repeat(10_000);
        let names = [
            "</title><script>alert(1)</script>",
            "a;b 7 8",
            "\u{202e}\u{1b}[31m\nline",
            &long,
            "",
        ];
        let stacks: Vec<(&[&str], u64)> = names.chunks(1).map(|name| (name, 10)).collect();
        let svg = drawn(&set(&stacks));
        assert!(!svg.contains("<script>alert"));
        assert!(svg.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; (10 "));
        assert!(svg.contains("app &lt;&amp;&gt; x"));
        // The number is a part of the name and no figure.
        assert!(
            svg.contains("a;b 7 8 (10 allocated bytes, 20.00%)"),
            "{svg}"
        );
        assert!(!svg.contains('\u{202e}') && !svg.contains('\u{1b}'));
        assert!(svg.contains("50 allocated bytes"));
    }

    #[test]
    fn a_set_without_anything_says_so() {
        for set in [set(&[]), set(&[(&["main"], 0)])] {
            let svg = drawn(&set);
            assert!(svg.contains("no allocated bytes"), "{svg}");
            assert!(svg.trim_end().ends_with("</svg>"));
        }
    }

    #[test]
    fn a_stack_without_frames_is_drawn() {
        assert!(drawn(&set(&[(&[], 5)])).contains("[no stack] (5 "));
    }
}
