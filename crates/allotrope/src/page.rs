//! `allotrope report FILE --html OUT.html`: writes a recording as a page. What is on it, and
//! how large it may be, is the business of `allotrope-page`.

use std::path::Path;

use allotrope_diff::{Glue, Headlines, Suppressions};
use allotrope_findings::find;
use allotrope_page::{Page, boundaries, profile_of_samples};
use allotrope_profile::sampled::SampledProfile;
use allotrope_profile::{Profile, run_times};
use allotrope_text::Shown;

use crate::exit_status::Failure;
use crate::export;
use crate::findings::FindingArguments;
use crate::message;
use crate::progress::Progress;
use crate::sampled;
use crate::trace;

/// What the options of the command say about the page.
pub struct PageOptions<'a> {
    /// Which functions are glue.
    pub glue: Glue,
    /// Leaks that are expected.
    pub suppressions: Suppressions,
    /// Which findings are made.
    pub findings: &'a FindingArguments,
}

/// Writes the page of the recording at `path` to the file `out`.
pub fn write(path: &Path, out: &Path, options: &PageOptions<'_>) -> Result<(), Failure> {
    match sampled::open(path)? {
        Some(sampled) => write_sampled(path, out, &sampled, options),
        None => write_recording(path, out, options),
    }
}

fn write_sampled(
    path: &Path,
    out: &Path,
    sampled: &SampledProfile,
    options: &PageOptions<'_>,
) -> Result<(), Failure> {
    let profile = profile_of_samples(sampled);
    let page = Page {
        profile: &profile,
        headlines: &Headlines::new(&profile, &options.glue),
        findings: &[],
        file: &path.shown(),
        sampled: Some(sampled),
        boundaries: &[],
        peaks: &[],
    };
    create(path, out, &page)
}

fn write_recording(path: &Path, out: &Path, options: &PageOptions<'_>) -> Result<(), Failure> {
    let mut trace = trace::open(path)?;
    let run = run_times(&trace).map_err(|error| trace::unreplayable(path, error))?;
    let times = boundaries(&run);
    let peaks = trace::peaks(path, &mut trace, &Progress::new(false))?;
    let wanted = trace::Wanted {
        times: Some(&times),
        peaks: &peaks,
        thread_times: true,
        evidence: true,
        site_details: true,
    };
    let profile = trace::profile_with(path, &mut trace, wanted, &Progress::new(false))?;
    for note in trace::notes(path, &trace) {
        message::print(note);
    }
    let headlines = Headlines::new(&profile, &options.glue);
    let how = options.findings.options(&options.suppressions)?;
    let findings = match profile.is_counts_only() {
        true => Vec::new(),
        false => find(&profile, &headlines, &how),
    };
    let page = Page {
        profile: &profile,
        headlines: &headlines,
        findings: &findings,
        file: &path.shown(),
        sampled: None,
        boundaries: &times,
        peaks: &peaks,
    };
    create(path, out, &page)?;
    // The process ends: freeing hundreds of thousands of sites would only take time.
    std::mem::forget::<Profile>(profile);
    Ok(())
}

fn create(path: &Path, out: &Path, page: &Page<'_>) -> Result<(), Failure> {
    export::create(out, [&path.to_path_buf()], |output| {
        allotrope_page::write(page, output)
    })?;
    message::print(format_args!("wrote the page {}", out.shown()));
    Ok(())
}
