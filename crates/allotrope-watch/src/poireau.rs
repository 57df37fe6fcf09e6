//! The output in poireau's lines. Each line has one sampled block with the size that was
//! requested; there are no estimates.
//!
//! Where several processes are watched, the head of each list names the process.

use std::io::{self, Write};

use allotrope_text::{numbers, shown};

use crate::blocks::{self, BlockRow, Which};
use crate::look::Look;
use crate::names::NamedFrame;
use crate::watch::Watch;

/// Writes one list for each process.
///
/// # Errors
/// Those of `out`.
pub fn write(
    watch: &mut Watch,
    looks: &[Look],
    which: Which,
    out: &mut dyn Write,
) -> io::Result<()> {
    let head = match which {
        Which::Live => "live allocations",
        Which::Old => "old allocations",
        Which::Freed => "recently freed regions",
    };
    lists(watch, looks, which, head, out)
}

fn lists(
    watch: &mut Watch,
    looks: &[Look],
    which: Which,
    head: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    for look in looks {
        let time = numbers::moment(look.real_time);
        match looks.len() {
            1 => writeln!(out, "{time} {head}")?,
            _ => writeln!(
                out,
                "{time} {head} of process {} ({})",
                look.process,
                shown(&look.name())
            )?,
        }
        blocks::each(watch, look, which, &mut |block| line(block, out))?;
    }
    Ok(())
}

/// Writes the blocks that were live at the high-water mark, if there is one. `is_new`: it is
/// later than the last report.
///
/// # Errors
/// Those of `out`.
pub fn write_high_water(watch: &mut Watch, is_new: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some((_, looks)) = watch.high_water() else {
        return Ok(());
    };
    let live = looks.iter().filter_map(|it| it.state.live());
    let bytes: f64 = live.map(|it| it.bytes().value).sum();
    let age = if is_new { "new" } else { "current" };
    let head = format!("allocations at {age} high water mark {:.6} MB", bytes / 1e6);
    let written = lists(watch, &looks, Which::Live, &head, out);
    watch.put_back(looks);
    written
}

fn line(block: &BlockRow, out: &mut dyn Write) -> io::Result<()> {
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
        (Some((time, freed)), _) => writeln!(
            out,
            "\tptr={:x} size={size} f_time={:.6} free={} alloc={stack} ctime={:.6}",
            block.address,
            seconds(*time),
            names(freed),
            seconds(block.allocated),
        ),
    }
}

/// The frames, innermost first.
fn names(stack: &[NamedFrame]) -> String {
    let names = stack.iter().map(|it| shown(&it.name()).into_owned());
    names.collect::<Vec<_>>().join(";")
}
