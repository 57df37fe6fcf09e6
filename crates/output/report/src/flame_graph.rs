//! A flame graph of one set of stacks as SVG, by any metric; and what it shares with the
//! differential one: numbered names, and folded stacks without the frames that no screen
//! shows.

use std::collections::HashMap;
use std::io::{self, Write};

use allotrope_profile::{Filter, Metric, StackFrame, StackSet};
use allotrope_text::shown;
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use crate::diff::function;
use crate::numbers::count;

/// Frames narrower than the whole divided by this are not drawn: no screen shows them.
const FINEST: u64 = 4000;
/// Deeper frames are not drawn.
const MAX_DEPTH: usize = 1000;
/// Largest number of frames. If more are wide enough, only wider ones are drawn: a browser takes
/// seconds for so many.
const MAX_FRAMES: usize = 100_000;
/// Largest number of bytes of the names in folded stacks, where each stack has all of its names.
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
        let name = match name.replace(';', "_") {
            name if name.is_empty() => "??".to_owned(),
            name => name,
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

/// What is written on frames.
pub(crate) trait Labels {
    /// The label of the frame with this name that the stacks of `group` share.
    fn label(&mut self, name: &str, group: &[Line]) -> String;
}

/// What is drawn.
pub(crate) struct Folded {
    /// Lines of folded stacks.
    pub lines: Vec<String>,
    /// There is nothing to draw but a frame that says so.
    pub is_nothing: bool,
    /// There are deeper stacks than are drawn.
    pub is_cut: bool,
    /// Frames narrower than the whole divided by this are left out.
    pub finest: u64,
}

impl Folded {
    /// Draws with these options; `about` is below the title.
    pub(crate) fn draw(
        &self,
        options: &mut Options<'_>,
        about: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let cut = match self.is_cut {
            true => format!("; frames deeper than {MAX_DEPTH} are left out"),
            false => String::new(),
        };
        let narrow = match self.finest {
            FINEST => String::new(),
            finest => format!("; frames narrower than 1/{finest} are left out"),
        };
        options.subtitle = Some(format!("{about}{cut}{narrow}"));
        // The frame that says so is as wide as 1, and is of nothing.
        options.factor = if self.is_nothing { 0.0 } else { 1.0 };
        options.deterministic = true;
        MARK.clone_into(&mut options.notes);
        options.text_truncate_direction = TextTruncateDirection::Right;
        flamegraph::from_lines(options, self.lines.iter().map(String::as_str), out)
    }
}

/// The stacks, or the only frame `none` if there are none, as lines of folded stacks.
pub(crate) fn folded(
    names: &Names,
    lines: Vec<Line>,
    labels: &mut dyn Labels,
    none: &str,
) -> Folded {
    let lines = merged(lines);
    let whole = lines.iter().map(Line::width).fold(0, u64::saturating_add);
    let mut finest = FINEST;
    while finest > 1 && !Measure::fits(&names.list, whole, finest, &lines) {
        finest /= 2;
    }
    let mut drawing = Drawing {
        names: &names.list,
        labels,
        whole,
        finest,
        folded: Vec::new(),
        is_cut: false,
    };
    drawing.draw(&lines, 0, &mut String::new());
    let is_nothing = drawing.folded.is_empty();
    if is_nothing {
        drawing.folded.push(format!("{none} 1"));
    }
    Folded {
        lines: drawing.folded,
        is_nothing,
        is_cut: drawing.is_cut,
        finest,
    }
}

/// Whether a stack of these frames is selected by the filter.
pub(crate) fn wanted(frames: &[StackFrame], filter: Option<&Filter>) -> impl Fn(&[u32]) -> bool {
    let matching: Option<Vec<bool>> =
        filter.map(|filter| frames.iter().map(|frame| frame.matches(filter)).collect());
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
        measure.count(lines, 0, 0)
    }

    /// Counts lines that share their first `depth` names, of so many bytes together; `false` once
    /// it is too much.
    fn count(&mut self, lines: &[Line], depth: usize, prefix: usize) -> bool {
        let mut ends = false;
        for (name, group) in branches(lines, depth) {
            let wide = group.iter().map(Line::width).fold(0, u64::saturating_add);
            let Some(name) = name.filter(|_| is_wide(wide, self.whole, self.finest)) else {
                ends = true;
                continue;
            };
            self.frames += 1;
            let prefix = prefix + self.names[name as usize].len() + 1;
            if self.frames > MAX_FRAMES || !self.count(group, depth + 1, prefix) {
                return false;
            }
        }
        if ends {
            self.bytes += prefix;
        }
        self.bytes <= MAX_BYTES
    }
}

/// Makes folded stacks of labelled frames.
struct Drawing<'a> {
    names: &'a [String],
    labels: &'a mut dyn Labels,
    whole: u64,
    finest: u64,
    folded: Vec<String>,
    is_cut: bool,
}

impl Drawing<'_> {
    /// Draws lines that share their first `depth` names, which `prefix` spells.
    fn draw(&mut self, lines: &[Line], depth: usize, prefix: &mut String) {
        let mut own: u64 = 0;
        for (name, group) in branches(lines, depth) {
            let wide = group.iter().map(Line::width).fold(0, u64::saturating_add);
            let Some(name) = name else {
                self.is_cut |= group.iter().any(|line| line.names.len() > depth);
                own = own.saturating_add(wide);
                continue;
            };
            if !is_wide(wide, self.whole, self.finest) {
                own = own.saturating_add(wide);
                continue;
            }
            let shared = prefix.len();
            let label = self.labels.label(&self.names[name as usize], group);
            if !prefix.is_empty() {
                prefix.push(';');
            }
            prefix.push_str(&label);
            self.draw(group, depth + 1, prefix);
            prefix.truncate(shared);
        }
        if own > 0 && !prefix.is_empty() {
            self.folded.push(format!("{prefix} {own}"));
        }
    }
}

/// Labels frames with their names alone: inferno adds the figures.
struct Plain;

impl Labels for Plain {
    fn label(&mut self, name: &str, _group: &[Line]) -> String {
        // inferno takes a number at the end for a figure.
        match name.rsplit_once(' ') {
            Some((start, end)) if end.parse::<f64>().is_ok() => format!("{start}_{end}"),
            _ => name.to_owned(),
        }
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
    let nothing = format!("no {}", metric.words());
    let folded = folded(&names, lines, &mut Plain, &nothing);
    let mut options = Options::default();
    options.title = format!("{} {}", count(total), metric.words());
    let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
    options.count_name = metric.words().to_owned();
    options.colors = Palette::Basic(BasicPalette::Mem);
    options.hash = true;
    let about = subtitle(&shown(&set.title), &shown(&about));
    folded.draw(&mut options, &about, out)
}

/// What is drawn, in as many characters as fit.
fn subtitle(title: &str, about: &str) -> String {
    let room = SUBTITLE.saturating_sub(about.chars().count());
    if title.chars().count() <= room {
        return format!("{title}{about}");
    }
    let start: String = title.chars().take(room.saturating_sub(1)).collect();
    format!("{start}…{about}")
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
                    function: (*name).to_owned(),
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
            svg.contains("a_b 7_8 (10 allocated bytes, 20.00%)"),
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
