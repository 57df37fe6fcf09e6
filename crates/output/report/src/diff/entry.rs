//! One entry of a comparison as text: its kind, its blamed frame, its figures and
//! its stacks.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use allotrope_attribution::{Code, Heads, Origin, Rule};
use allotrope_diff::{Diff, Entry, EntryStack, Kind};
use allotrope_profile::StackFrame;

use super::text_options::DiffTextOptions;
use super::wording::{chance, each, function, kind_word, location, short_location, signed};
use crate::numbers::{count, plural};
use crate::shorten::{callers, clean, name};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, columns, cut_middle};

/// Indentation of all lines of an entry but the first.
const INDENT: usize = 6;
/// Text before the library function that the blamed one calls.
const THROUGH: &str = "through ";
/// Text for a change in code that is not the repository's.
const OUTSIDE: &str = "outside the repository";
/// The most groups of stacks that are written for an entry.
const MAX: usize = 3;

/// Writes the entry with its stacks.
pub(super) fn write(
    diff: &Diff,
    entry: &Entry,
    number: usize,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let blamed = frame(diff, entry.blame);
    let head = format!(
        "{number:>3}. {} {}{}  ",
        kind_word(entry.kind),
        signed(entry.difference),
        each(diff, entry.difference)
    );
    let room = style.columns().saturating_sub(columns(&head));
    let title = match entry.kind {
        Kind::Jitter => format!("thread {}", function(blamed)),
        _ => function(blamed),
    };
    let title = style.paint(Role::Function, &name(&title, room));
    writeln!(out, "{}{title}", style.paint(Role::Title, &head))?;
    if let Some(called) = entry.through {
        let room = style.columns() - INDENT - columns(THROUGH);
        let called = name(&function(frame(diff, called)), room);
        let called = style.paint(Role::Location, &called);
        writeln!(out, "{:INDENT$}{THROUGH}{called}", "")?;
    }
    let indent = " ".repeat(INDENT);
    let text = facts(diff, entry, style.columns() - INDENT);
    let interval = entry.interval.as_ref().map(chance);
    for text in [Some(text), interval].into_iter().flatten() {
        write_lines(out, style.fitted(&text, [&indent, &indent], Role::Plain))?;
    }
    if let Some(rule) = &entry.suppressed {
        let text = cut_middle(&clean(&suppressed(rule)), style.columns() - INDENT);
        writeln!(out, "{:INDENT$}{text}", "")?;
    }
    if let Some(text) = differing(diff, entry) {
        let text = cut_middle(&text, style.columns() - INDENT);
        writeln!(out, "{:INDENT$}{text}", "")?;
    }
    if options.all_frames {
        for stack in &entry.stacks {
            write_whole(diff, entry, stack, options, out)?;
        }
        return Ok(());
    }
    let (groups, names) = group_stacks(diff, entry);
    for group in groups.iter().take(MAX) {
        write_group(group, &names, options, out)?;
    }
    let rest = groups.get(MAX..).unwrap_or_default();
    if !rest.is_empty() {
        let sum: i64 = rest.iter().map(StackGroup::difference).sum();
        let hint = options.hints.stacks;
        let hint = hint.map_or_else(String::new, |option| format!(" ({option} shows all)"));
        let text = format!(
            "… {} more with {}{hint}",
            count(rest.len() as u64),
            signed(sum)
        );
        writeln!(out, "{:INDENT$}{}", "", style.paint(Role::Location, &text))?;
    }
    Ok(())
}

/// What the text says of an entry besides its figures and its place, a sentence or a phrase
/// each: what differs, through which library function it allocates, and why it may be
/// nothing to worry about. Names are whole and escaped.
pub fn sentences(diff: &Diff, entry: &Entry) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(differing(diff, entry));
    if let (None, [only]) = (entry.differs, &entry.stacks[..]) {
        let place = locations(diff, entry, only, &function(frame(diff, entry.blame)));
        sentences.extend(Some(place).filter(|place| !place.is_empty()));
    }
    let through = entry.through.map(|called| frame(diff, called));
    sentences.extend(through.map(|called| format!("{THROUGH}{}", function(called))));
    sentences.extend(entry.interval.as_ref().map(chance));
    if is_outside(diff, entry) {
        sentences.push(OUTSIDE.to_owned());
    }
    let suppressed = entry.suppressed.as_ref().map(suppressed);
    sentences.extend(suppressed.map(|it| clean(&it)));
    if entry.confidence < 1.0 {
        sentences.push(format!("confidence {:.2}", entry.confidence));
    }
    sentences
}

fn suppressed(rule: &Rule) -> String {
    format!("suppressed by {} in {}", rule.text(), rule.list_in_words())
}

/// Whether the entry is a change of code that is known not to be the repository's.
fn is_outside(diff: &Diff, entry: &Entry) -> bool {
    let is_change = !matches!(entry.kind, Kind::Jitter | Kind::Moved);
    is_change && diff.knows_repository && !is_in_repository(diff, entry.blame)
}

/// Stacks of an entry that have the same abbreviated form: they differ inside libraries,
/// or in callers' lines.
struct StackGroup {
    /// The line in the blamed function; empty if it is unknown or printed above.
    location: String,
    /// The numbers of the functions, innermost first, from the user's innermost one or the
    /// caller of the blamed one.
    names: Rc<[u32]>,
    /// Whether the first function is the caller of the blamed one.
    below_blamed: bool,
    before: u64,
    after: u64,
    /// It is the only group of its entry, so its figures are those of the entry.
    is_only: bool,
}

impl StackGroup {
    fn difference(&self) -> i64 {
        self.after as i64 - self.before as i64
    }
}

/// Numbers the functions of an entry's stacks, which may have very many frames.
#[derive(Default)]
struct Namer {
    /// Names of the functions, by number.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    of_frames: HashMap<u32, u32>,
}

impl Namer {
    fn number(&mut self, diff: &Diff, index: u32) -> u32 {
        if let Some(&number) = self.of_frames.get(&index) {
            return number;
        }
        let number = self.number_of(function(frame(diff, index)));
        self.of_frames.insert(index, number);
        number
    }

    fn number_of(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }
}

/// Groups the stacks of an entry by their abbreviated form; the largest difference
/// comes first. And the names of the functions, by number.
fn group_stacks(diff: &Diff, entry: &Entry) -> (Vec<StackGroup>, Vec<String>) {
    let blamed = function(frame(diff, entry.blame));
    let mut namer = Namer::default();
    let blamed_name = namer.number_of(blamed.clone());
    let mut numbers: HashMap<(String, Rc<[u32]>), usize> = HashMap::new();
    let mut all: Vec<StackGroup> = Vec::new();
    for stack in &entry.stacks {
        let location = locations(diff, entry, stack, &blamed);
        let frames = own_frames(diff, entry, stack).iter();
        let mut names = frames.map(|&index| namer.number(diff, index)).peekable();
        let below_blamed = names.next_if_eq(&blamed_name).is_some();
        let names: Rc<[u32]> = names.collect();
        let number = *numbers
            .entry((location.clone(), Rc::clone(&names)))
            .or_insert(all.len());
        if number == all.len() {
            all.push(StackGroup {
                location,
                names,
                below_blamed,
                before: 0,
                after: 0,
                is_only: false,
            });
        }
        all[number].before += stack.before;
        all[number].after += stack.after;
    }
    if let [only] = &mut all[..] {
        only.is_only = true;
        if entry
            .stacks
            .iter()
            .all(|stack| stack.frames_before.is_none())
        {
            only.location.clear();
        }
    }
    all.sort_by_key(|group| Reverse(group.difference().unsigned_abs()));
    (all, namer.names)
}

/// Writes one line: the figures unless they are the entry's, the location in the blamed
/// function, then the callers.
fn write_group(
    group: &StackGroup,
    names: &[String],
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let room = style.columns() - INDENT;
    let mut head = String::new();
    if !group.is_only {
        head = format!("{} → {}", count(group.before), count(group.after));
    }
    if !group.location.is_empty() {
        head = format!("{head} at {}", group.location)
            .trim_start()
            .to_owned();
    }
    let head = cut_middle(&head, room / 2);
    let gap = if head.is_empty() { "" } else { "  " };
    let room = room.saturating_sub(columns(&head) + columns(gap));
    let names = group.names.iter().map(|&number| &*names[number as usize]);
    let names: Vec<&str> = names.collect();
    let calls = if group.below_blamed {
        callers(&names, room)
    } else {
        // The arrow before the innermost frame has nothing to its left.
        let calls = callers(&names, room + 2);
        calls.trim_start_matches("← ").to_owned()
    };
    if head.is_empty() && calls.is_empty() {
        return Ok(());
    }
    let calls = style.paint(Role::Location, &cut_middle(&calls, room));
    writeln!(out, "{:INDENT$}{head}{gap}{calls}", "")
}

/// Writes a moved entry in one line or two: its form before and after.
pub(super) fn write_folded(
    diff: &Diff,
    entry: &Entry,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let head = format!("  {}  ", count(entry.before));
    let tail = format!("  confidence {:.2}", entry.confidence);
    let room = style
        .columns()
        .saturating_sub(columns(&head) + columns(&tail));
    let text = differing(diff, entry).unwrap_or_else(|| function(frame(diff, entry.blame)));
    if columns(&text) <= room {
        return writeln!(out, "{head}{text}{}", style.paint(Role::Location, &tail));
    }
    let (was, is) = differing_parts(diff, entry);
    let room = style.columns().saturating_sub(columns(&head));
    let Some(was) = was else {
        let text = cut_middle(&text, room);
        let tail = style.paint(Role::Location, tail.trim_start());
        return writeln!(out, "{head}{text}\n{:INDENT$}{tail}", "");
    };
    writeln!(out, "{head}{}", cut_middle(&was, room))?;
    let room = style.columns().saturating_sub(INDENT + 2 + columns(&tail));
    let is = cut_middle(&is.unwrap_or_default(), room);
    writeln!(
        out,
        "{:INDENT$}→ {is}{}",
        "",
        style.paint(Role::Location, &tail)
    )
}

/// The figures, the line of the blamed frame, and the certainty of the match.
fn facts(diff: &Diff, entry: &Entry, room: usize) -> String {
    let mut facts = vec![format!(
        "{} before, {} after",
        count(entry.before),
        count(entry.after)
    )];
    let location = location(frame(diff, entry.blame), room / 2);
    if entry.kind != Kind::Jitter && !location.is_empty() {
        facts.push(location);
    }
    if is_outside(diff, entry) {
        facts.push(OUTSIDE.to_owned());
    }
    if entry.stacks.len() > 1 {
        facts.push(plural(entry.stacks.len(), "stack", "stacks"));
    }
    if entry.confidence < 1.0 {
        facts.push(format!("confidence {:.2}", entry.confidence));
    }
    facts.join(" · ")
}

/// A sentence about the difference between the stacks of a moved entry.
fn differing(diff: &Diff, entry: &Entry) -> Option<String> {
    entry.differs?;
    let (was, is) = differing_parts(diff, entry);
    match (was, is) {
        (Some(was), Some(is)) => Some(format!("{was} → {is}")),
        (Some(was), None) => Some(format!("without {was}")),
        (None, Some(is)) => Some(format!("inserted {is}")),
        (None, None) => None,
    }
}

fn differing_parts(diff: &Diff, entry: &Entry) -> (Option<String>, Option<String>) {
    let Some(differs) = entry.differs else {
        return (None, None);
    };
    let frames = [differs.before, differs.after].map(|index| index.map(|i| frame(diff, i)));
    match frames {
        [Some(was), Some(is)] if function(was) == function(is) => {
            let location = |frame| match short_location(frame) {
                location if location.is_empty() => String::new(),
                location => format!(" {location}"),
            };
            let both = [location(was), location(is)];
            if both[0] == both[1] && was.module != is.module {
                let of = |frame: &StackFrame| Some(format!("{}`{}", frame.module, function(frame)));
                return (of(was), of(is));
            }
            (
                Some(format!("{}{}", function(was), both[0])),
                Some(both[1].trim_start().to_owned()),
            )
        }
        _ => {
            let [was, is] = frames.map(|frame| frame.map(function));
            (was, is)
        }
    }
}

/// The frames from the blamed one, or from the user's innermost one, outwards.
fn own_frames<'a>(diff: &Diff, entry: &Entry, stack: &'a EntryStack) -> &'a [u32] {
    let origins = stack
        .frames
        .iter()
        .map(|&index| Code::from(diff.origins[index as usize]));
    // With wrappers: the user's own innermost line is shown.
    let own = Heads::of(origins).headline as usize;
    let blamed = stack.frames.iter().position(|&index| index == entry.blame);
    &stack.frames[blamed.map_or(own, |blamed| blamed.min(own))..]
}

/// Writes a whole stack, a frame a line.
fn write_whole(
    diff: &Diff,
    entry: &Entry,
    stack: &EntryStack,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let head = stack_head(diff, entry, stack, style.columns() - INDENT);
    if !head.is_empty() {
        writeln!(out, "{:INDENT$}{head}", "")?;
    }
    for &index in &stack.frames {
        let frame = frame(diff, index);
        let room = style.columns() - INDENT - 2;
        let location = location(frame, room / 2);
        let function = name(
            &function(frame),
            room.saturating_sub(columns(&location) + 2),
        );
        let line = format!(
            "{}  {}",
            style.paint(Role::Function, &function),
            style.paint(Role::Location, &location)
        );
        writeln!(out, "{:INDENT$}  {}", "", line.trim_end())?;
    }
    Ok(())
}

/// The label that distinguishes a stack from the others of its entry.
fn stack_head(diff: &Diff, entry: &Entry, stack: &EntryStack, room: usize) -> String {
    let mut head = String::new();
    if entry.stacks.len() > 1 {
        head = format!("{} → {}", count(stack.before), count(stack.after));
    }
    let found = locations(diff, entry, stack, &function(frame(diff, entry.blame)));
    if !found.is_empty() {
        head = format!("{head} at {found}").trim_start().to_owned();
    }
    cut_middle(&head, room)
}

/// The location of a stack in the blamed function, and the location before if it
/// differs. Empty if it is unknown or the entry's only location.
fn locations(diff: &Diff, entry: &Entry, stack: &EntryStack, blamed: &str) -> String {
    let is_blamed = |index: &&u32| function(frame(diff, **index)) == blamed;
    match &stack.frames_before {
        Some(before) => elsewhere(diff, before, &stack.frames, blamed).unwrap_or_default(),
        None if entry.stacks.len() > 1 => {
            let blamed = stack.frames.iter().find(is_blamed);
            blamed.map_or_else(String::new, |&index| short_location(frame(diff, index)))
        }
        None => String::new(),
    }
}

/// The difference between the locations of a stack before and after: in the blamed
/// function if it differs there, otherwise in the innermost frame that differs.
fn elsewhere(diff: &Diff, before: &[u32], after: &[u32], blamed: &str) -> Option<String> {
    let pairs = || {
        let pairs = before.iter().zip(after).filter(|(was, is)| was != is);
        pairs.map(|(&was, &is)| [frame(diff, was), frame(diff, is)])
    };
    let of_blamed = pairs().find(|[_, is]| function(is) == blamed);
    let [was, is] = of_blamed.or_else(|| pairs().next())?;
    let named = match function(is) {
        name if name == blamed => String::new(),
        name => format!("{name} "),
    };
    moved(was, is).map(|moved| format!("{named}{moved}"))
}

/// Writes from where to where a frame moved, as far as both are known and read differently.
fn moved(was: &StackFrame, is: &StackFrame) -> Option<String> {
    let (from, to) = (short_location(was), short_location(is));
    (from != to && !from.is_empty() && !to.is_empty()).then(|| format!("{from}, now {to}"))
}

fn is_in_repository(diff: &Diff, index: u32) -> bool {
    diff.origins.get(index as usize) == Some(&Origin::Repository)
}

fn frame(diff: &Diff, index: u32) -> &StackFrame {
    &diff.frames[index as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_shown_only_where_it_can_be_read() {
        let at = |line, offset| StackFrame {
            line,
            offset,
            ..StackFrame::default()
        };
        let shown = |was: (u32, Option<u64>), is: (u32, Option<u64>)| {
            moved(&at(was.0, was.1), &at(is.0, is.1))
        };
        assert_eq!(
            shown((3, Some(8)), (4, Some(8))).as_deref(),
            Some("line 3, now line 4")
        );
        assert_eq!(
            shown((0, Some(8)), (0, Some(12))).as_deref(),
            Some("+0x8, now +0xc")
        );
        for (was, is) in [
            ((0, None), (0, None)),
            ((0, Some(12)), (0, Some(12))),
            ((3, Some(8)), (3, Some(12))),
            ((0, None), (0, Some(12))),
            ((0, None), (3, None)),
        ] {
            assert_eq!(shown(was, is), None, "{was:?} {is:?}");
        }
    }
}
