//! The output in poireau's lines. Each line has one sampled block with the size that was
//! requested; there are no estimates.
//!
//! Where several processes are watched, the head of each list names the process.

use std::io::{self, Write};

use allotrope_text::{numbers, shown};

use crate::blocks::{self, BlockRow, Which};
use crate::names::{Frame, name_of};
use crate::snapshot::Snapshot;
use crate::watch::Watch;

/// Writes one list for each process.
///
/// # Errors
/// Those of `out`.
pub fn write(
    watch: &mut Watch,
    snapshots: &[Snapshot],
    which: Which,
    out: &mut dyn Write,
) -> io::Result<()> {
    lists(watch, snapshots, which, |_| which.words().to_owned(), out)
}

/// `head`: the words above the list of a process.
fn lists(
    watch: &mut Watch,
    snapshots: &[Snapshot],
    which: Which,
    head: impl Fn(&Snapshot) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    for snapshot in snapshots {
        let (name, head) = (snapshot.name(), head(snapshot));
        let of = (snapshots.len() > 1).then_some((snapshot.process, &*name));
        write_head(snapshot.real_time, &head, of, out)?;
        blocks::each(watch, snapshot, which, &mut |block| line(block, out))?;
    }
    Ok(())
}

/// Writes the head of a list; `of`: the process, if it is named.
pub(crate) fn write_head(
    real_time: u64,
    head: &str,
    of: Option<(u32, &str)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let time = numbers::moment(real_time);
    match of {
        None => writeln!(out, "{time} {head}"),
        Some((process, name)) => {
            writeln!(out, "{time} {head} of process {process} ({})", shown(name))
        }
    }
}

/// Writes the blocks that were live at the high-water mark, if there is one, and how much each
/// process had of it. `is_new`: it is later than the last report.
///
/// # Errors
/// Those of `out`.
pub fn write_high_water(watch: &mut Watch, is_new: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some(snapshots) = watch.high_water() else {
        return Ok(());
    };
    let age = if is_new { "new" } else { "current" };
    let head = |snapshot: &Snapshot| {
        let bytes = snapshot.state.live().map_or(0.0, |it| it.bytes().value);
        format!("allocations at {age} high water mark {:.6} MB", bytes / 1e6)
    };
    lists(watch, &snapshots, Which::Live, head, out)
}

/// Writes a block.
pub(crate) fn line(block: &BlockRow, out: &mut dyn Write) -> io::Result<()> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let stack = names(&block.stack);
    let (size, age) = (block.size, seconds(block.age));
    match (&block.freed, &block.first) {
        (None, None) => writeln!(out, "\tsize={size} c_age={age:.6} alloc={stack}"),
        (None, Some((first_age, first))) => writeln!(
            out,
            "\tsize={size} c_age={:.6} alloc={} m_age={age:.6} realloc={stack}",
            seconds(*first_age),
            names(first),
        ),
        (Some(freed), _) => writeln!(
            out,
            "\tptr={:x} size={size} f_time={:.6} free={} alloc={stack} ctime={:.6}",
            block.address,
            seconds(freed.time),
            names(&freed.stack),
            seconds(block.allocated),
        ),
    }
}

/// The frames, innermost first.
fn names(stack: &[Frame]) -> String {
    let names = stack.iter().map(|it| shown(&name_of(it)).into_owned());
    names.collect::<Vec<_>>().join(";")
}
