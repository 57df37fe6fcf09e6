//! The report as text for people.
//!
//! Lines are never longer than the width that [`Style`] gives; numbers are
//! exact where they are counts and in binary units where they are bytes.

mod blocks;
mod counted;
mod header;
mod lists;
mod site;
mod totals;
mod tree;
mod windows;

use std::io::{self, Write};
use std::rc::Rc;

use allotrope_profile::Profile;
use allotrope_text::TextWriter;
use allotrope_trace::model::ImageId;

pub use blocks::BlockList;
pub use site::write_site;

use crate::selection::{Key, Part, processes, rows};
use crate::source_lines::SourceLines;
use crate::style::{Role, Style};
use crate::warnings::{waits, warnings};

/// How a call tree grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From what allocates to its callers.
    FromAllocation,
    /// From `main` and thread starts to what allocates.
    FromMain,
}

/// What a text shows.
#[derive(Debug, Clone)]
pub struct TextOptions {
    /// How it may look.
    pub style: Style,
    /// One list ranked by this; a list for each key without.
    pub sort: Option<Key>,
    /// Most sites in a list, most branches at a node.
    pub top: usize,
    /// A call tree in place of lists.
    pub tree: Option<Direction>,
    /// Branches with less than this share of the whole are summed up.
    pub least_share: f64,
    /// Only sites with a frame whose function, file or module's file name
    /// contains this text; upper and lower case differ, no character is special.
    pub filter: Option<String>,
    /// Only this process image.
    pub process: Option<ImageId>,
    /// Which blocks count.
    pub part: Part,
    /// The allocator's and the standard libraries' frames too.
    pub all_frames: bool,
    /// The profile is that of windows: which, in a line.
    pub window: Option<String>,
    /// Where lines of code come from, if they are to be shown.
    pub source: Option<Rc<SourceLines>>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            style: Style::default(),
            sort: None,
            top: 10,
            tree: None,
            least_share: 0.01,
            filter: None,
            process: None,
            part: Part::All,
            all_frames: false,
            window: None,
            source: None,
        }
    }
}

/// Writes the report.
pub fn write(profile: &Profile, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let out: &mut dyn Write = &mut out;
    header::write(profile, options, out)?;
    write_warnings(profile, options.style, out)?;
    if processes(profile, options).next().is_none() {
        writeln!(out, "\nNo process was recorded.")?;
        return out.flush();
    }
    totals::write(profile, options, out)?;
    if profile.is_counts_only() {
        counted::write(profile, options, out)?;
        windows::write(profile, options, out)?;
        return out.flush();
    }
    windows::write(profile, options, out)?;
    let rows = rows(profile, options);
    let many = processes(profile, options).nth(1).is_some();
    let keys = options.sort.map_or(Key::ALL.to_vec(), |key| vec![key]);
    if let Some(direction) = options.tree {
        let key = options.sort.unwrap_or(Key::Allocations);
        tree::write(profile, &rows, key, direction, options, out)?;
    } else {
        for key in keys.into_iter().filter(|&key| says_something(key, options)) {
            lists::write(profile, &rows, key, many, options, out)?;
        }
    }
    write_source_remarks(options, out)?;
    out.flush()
}

/// Says once what source was not at hand.
fn write_source_remarks(options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let remarks = options.source.iter().flat_map(|source| source.remarks());
    for remark in remarks {
        let lines = crate::shorten::wrap(&remark, options.style.columns() - 2);
        writeln!(out)?;
        for (index, line) in lines.iter().enumerate() {
            let mark = if index == 0 { "! " } else { "  " };
            writeln!(out, "{mark}{}", options.style.paint(Role::Warning, line))?;
        }
    }
    Ok(())
}

/// A list of leaked blocks adds nothing to persisted or destroyed ones.
fn says_something(key: Key, options: &TextOptions) -> bool {
    let by_part = matches!(key, Key::Allocations | Key::Bytes);
    match options.part {
        Part::All => true,
        _ if options.sort.is_some() => true,
        Part::Persisted => by_part,
        Part::Destroyed => by_part || key == Key::Temporary,
    }
}

fn write_warnings(profile: &Profile, style: Style, out: &mut dyn Write) -> io::Result<()> {
    const MOST: usize = 20;
    let mut all = warnings(profile);
    all.extend(waits(profile));
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let more = all.len().saturating_sub(MOST);
    let last = (more > 0).then(|| format!("{more} more warnings of this kind."));
    for warning in all.iter().take(MOST).chain(last.iter()) {
        let lines = crate::shorten::wrap(warning, style.columns() - 2);
        for (index, line) in lines.iter().enumerate() {
            let mark = if index == 0 { "! " } else { "  " };
            writeln!(out, "{mark}{}", style.paint(Role::Warning, line))?;
        }
    }
    Ok(())
}

/// What one key is about: title, and whether its values are bytes.
fn describe(key: Key, options: &TextOptions) -> (&'static str, bool) {
    match key {
        Key::Allocations => ("allocations", false),
        Key::Bytes => ("allocated bytes", true),
        Key::Peak => ("bytes at the peak", true),
        // What is live at a window's close is not lost yet.
        Key::Leaked if options.window.is_some() => ("remaining bytes", true),
        Key::Leaked => ("leaked bytes", true),
        Key::Temporary => ("temporary allocations", false),
    }
}
