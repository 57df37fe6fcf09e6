//! A recording as a page: `allotrope report FILE --html OUT.html` writes it to a file
//! ([`write()`]), and `allotrope view` serves it ([`bytes`]). What is on it, and how large it may
//! be, is the business of `allotrope-page`.

use std::path::{Path, PathBuf};

use allotrope_attribution::{Attributed, Glue, Headlines, Suppressions};
use allotrope_findings::find;
use allotrope_formats::Limits;
use allotrope_page::{ImportedStacks, Page, boundaries};
use allotrope_profile::Profile;
use allotrope_profile::sampled::SampledProfile;
use allotrope_reading::{Wanted, recorded_at, split};
use allotrope_report::SourceLines;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::findings::FindingArguments;
use crate::imported::Stacks;
use crate::message;
use crate::progress::reader;
use crate::to_write::ToWrite;

/// What the options of the command say about the page.
pub struct PageOptions<'a> {
    /// Which functions are glue.
    pub glue: Glue,
    /// Leaks that are expected.
    pub suppressions: Suppressions,
    /// Which findings are made.
    pub findings: &'a FindingArguments,
    /// Whether the lines of code are on it, and the folders in which they are now, see
    /// [`SourceLines::new`].
    pub source: Option<&'a [(PathBuf, PathBuf)]>,
    /// The process ends after the page, and need not free the recording.
    pub is_last: bool,
    /// What the recording may cost.
    pub limits: Limits,
}

/// Writes the page of the recording at `path` to the file `out`.
pub fn write(path: &Path, out: ToWrite<'_>, options: &PageOptions<'_>) -> Result<(), Failure> {
    let input = path.to_path_buf();
    out.check([&input])?;
    let page = bytes(path, options)?;
    out.create_page([&input], |output| output.write_all(&page))
}

/// The page of the recording at `path`. Notes on the recording are printed on stderr.
pub fn bytes(path: &Path, options: &PageOptions<'_>) -> Result<Vec<u8>, Failure> {
    if let (file, Some(_)) = split(path) {
        let sentence = anyhow!(
            "{} is a moment, and the page has the whole recording; name {}, and choose the moment in its timeline",
            path.shown(),
            file.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let reader = reader(options.limits);
    if let Some(sampled) = reader.sampled(path)? {
        return of_samples(path, &sampled, options);
    }
    match Stacks::open(&reader, path)? {
        Some((stacks, notes)) => of_stacks(path, &stacks, &notes, options),
        None => of_recording(path, options),
    }
}

fn of_stacks(
    path: &Path,
    stacks: &Stacks,
    notes: &[String],
    options: &PageOptions<'_>,
) -> Result<Vec<u8>, Failure> {
    let profile = stacks.profile();
    let source = source(options, profile);
    render(&Page {
        profile,
        headlines: &Headlines::new(profile, &options.glue),
        findings: &[],
        file: &path.shown(),
        sampled: None,
        imported: Some(ImportedStacks {
            title: &stacks.set.title,
            format: stacks.format(),
            known: stacks.set.known,
            notes,
        }),
        boundaries: &[],
        peaks: &[],
        source: source.as_ref(),
    })
}

fn of_samples(
    path: &Path,
    sampled: &SampledProfile,
    options: &PageOptions<'_>,
) -> Result<Vec<u8>, Failure> {
    let profile = &sampled.profile;
    let source = source(options, profile);
    render(&Page {
        profile,
        headlines: &Headlines::new(profile, &options.glue),
        findings: &[],
        file: &path.shown(),
        sampled: Some(sampled),
        imported: None,
        boundaries: &[],
        peaks: &[],
        source: source.as_ref(),
    })
}

fn of_recording(path: &Path, options: &PageOptions<'_>) -> Result<Vec<u8>, Failure> {
    let mut recording = reader(options.limits).open(path)?;
    let times = boundaries(&recording.run_times()?);
    let peaks = recording.peaks()?;
    let wanted = Wanted {
        times: Some(&times),
        peaks: &peaks,
        thread_times: true,
        evidence: true,
        site_details: true,
        stacks: &[],
    };
    let profile = recording.profile_with(wanted)?;
    recording.notes().iter().for_each(message::print);
    let attributed = Attributed::new(&profile, &options.glue);
    let how = options.findings.options(&options.suppressions)?;
    let findings = match profile.is_counts_only() {
        true => Vec::new(),
        false => find(&attributed, &how),
    };
    let source = source(options, &profile);
    let page = render(&Page {
        profile: &profile,
        headlines: &attributed.headlines,
        findings: &findings,
        file: &path.shown(),
        sampled: None,
        imported: None,
        boundaries: &times,
        peaks: &peaks,
        source: source.as_ref(),
    })?;
    if options.is_last {
        // Freeing hundreds of thousands of sites would only take time.
        std::mem::forget::<Profile>(profile);
    }
    Ok(page)
}

fn source(options: &PageOptions<'_>, profile: &Profile) -> Option<SourceLines> {
    let moved = options.source?;
    let lines = SourceLines::new(moved.to_vec(), recorded_at(profile));
    Some(lines.compared_with_build(profile))
}

fn render(page: &Page<'_>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    allotrope_page::write(page, &mut bytes)
        .context("cannot make the page")
        .status(FAILED)?;
    for warning in page.source.iter().flat_map(|source| source.warnings()) {
        message::print(format_args!("warning: {warning}"));
    }
    Ok(bytes)
}
