//! A recording as one self-contained HTML page ([`write()`]), which `allotrope report --html`
//! writes; or the comparison of two ([`write_comparison()`]), which `allotrope diff --html`
//! writes; or a report of allocators ([`write_allocators()`]), which `allotrope allocators
//! --html` writes.
//!
//! The page is `page.html`, which is built from `ui/`, with the recording's data in it. The
//! data is columns of numbers (`docs/page-data.md`), compressed and in base64: so nothing of
//! it, such as a function's name, is ever parsed as HTML. The page fetches nothing. Whatever
//! was recorded, it has at most [`MAX_BYTES`]: where there is more, the lightest sites
//! lose their callers or get wider buckets of time, and the page says so.
//!
//! ```text
//!  Profile ─▶ sites     which sites the page has, and the cells of their times
//!               ├─▶ stacks    their trie
//!               ├─▶ names     their names
//!               ├─▶ source    the code around their lines
//!               ▼
//!            encode      all columns ─▶ columns   numbers as bytes
//!               ▼
//!             fit        compresses; encodes again with less while it is too much
//! ```
//!
//! A comparison has parts of its own (`comparison`), with the same columns for names and
//! stacks: the page knows by its parts what it shows. A report of allocators is one part, its
//! JSON.
//!
//! The crate reads no traces, and draws nothing: the scripts of the page do.
#![forbid(unsafe_code)]

mod columns;
mod comparison;
mod encode;
mod fit;
mod gaps;
mod meta;
mod names;
mod policy;
mod processes;
mod sampled;
mod sites;
mod source;
mod stacks;

use std::io::{self, Write};

use allotrope_attribution::Headlines;
use allotrope_findings::Finding;
use allotrope_profile::sampled::SampledProfile;
use allotrope_profile::{MetricSet, Peak, Profile};
use allotrope_report::SourceLines;

pub use comparison::{ComparedSide, Comparison};
pub use encode::boundaries;
pub use policy::content_security_policy;

/// The most bytes of a page.
pub const MAX_BYTES: usize = 5_000_000;

/// The page without data.
const PAGE: &str = include_str!("page.html");
/// How every page begins.
const START: &str = "<!doctype html>\n<!--\nA recording of Allotrope.";
/// Where the data is written.
const DATA: &str = "<!-- data -->";

/// What a page is made of.
pub struct Page<'a> {
    /// The profile, with [time tables](allotrope_profile::Options::time_table), those of
    /// threads, and the details of sites, as far as the recording has them.
    pub profile: &'a Profile,
    /// Which frames head its stacks.
    pub headlines: &'a Headlines,
    /// What stands out in it, best first.
    pub findings: &'a [Finding],
    /// The name of its file.
    pub file: &'a str,
    /// The sampled profile whose [profile](SampledProfile::profile) it is, if it is one's.
    pub sampled: Option<&'a SampledProfile>,
    /// What the stacks are, if another tool wrote them.
    pub imported: Option<ImportedStacks<'a>>,
    /// The times at which the tables of all processes are exact, see [`boundaries`].
    pub boundaries: &'a [u64],
    /// The peaks of processes, just after which their tables are exact, in order of process.
    pub peaks: &'a [Peak],
    /// Where the code around the lines of its frames is read from, if the page has it.
    pub source: Option<&'a SourceLines>,
}

/// Stacks that another tool wrote: sums of some metrics, without times, threads or single blocks.
#[derive(Debug, Clone, Copy)]
pub struct ImportedStacks<'a> {
    /// The program's command or the title that the file has; may be empty.
    pub title: &'a str,
    /// The name of the file's format.
    pub format: &'a str,
    /// The metrics that the file has. The figures of others are 0 in the profile.
    pub known: MetricSet,
    /// What else is to be known of its figures, a sentence each.
    pub notes: &'a [String],
}

/// Writes the page.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_parts(&fit::fit(page, room()), out)
}

/// Writes the page of a comparison.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_comparison(comparison: &Comparison<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_parts(&comparison::parts(comparison, room()), out)
}

/// Writes the page of a report of allocators, from its JSON (`allotrope-allocators/1`). The page
/// has the whole of it, however large it is: tens of kilobytes for each allocator.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_allocators(json: &[u8], out: &mut dyn Write) -> io::Result<()> {
    write_parts(&[("allocators", fit::compressed(json))], out)
}

/// Whether a file that begins so is a page.
pub fn is_page(head: &[u8]) -> bool {
    head.starts_with(START.as_bytes())
}

/// The most bytes of the data of a page.
fn room() -> usize {
    MAX_BYTES.saturating_sub(PAGE.len())
}

fn write_parts(parts: &[(&'static str, String)], out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    out.write_all(before.as_bytes())?;
    for (name, data) in parts {
        writeln!(
            out,
            "<script type=\"text/plain\" id=\"data-{name}\">{data}</script>"
        )?;
    }
    out.write_all(after.as_bytes())?;
    out.flush()
}
