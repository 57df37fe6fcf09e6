//! What the first screen is made of, and parts of it that a finding has, too.

use allotrope_attribution::Attributed;
use allotrope_findings::Finding;
use allotrope_profile::{Frame, Site};
use allotrope_text::cut;

use crate::text::{TextOptions, frames};

/// What the first screen is made of.
pub struct Screen<'a> {
    /// The profile.
    pub attributed: &'a Attributed<'a>,
    /// What stands out in it, best first.
    pub findings: &'a [Finding],
    /// The trace's name for commands that are proposed, as a shell reads it.
    pub trace: String,
    /// Put processes that run the same program in one line.
    pub merge: bool,
    /// Show so many findings and functions, however many lines that takes.
    pub top: Option<usize>,
}

/// A finding, or its part if only one process is wanted.
pub(crate) fn wanted<'a>(finding: &'a Finding, options: &TextOptions) -> Option<&'a Finding> {
    match options.process {
        Some(id) => finding.of_process(id),
        None => Some(finding),
    }
}

/// The number by which `show` knows a finding: its place among all.
pub(super) fn number(screen: &Screen<'_>, finding: &Finding) -> Option<usize> {
    let at = screen.findings.iter().position(|other| other.has(finding));
    at.map(|index| index + 1)
}

/// The code of a frame's line, if it is to be shown and was found.
pub(super) fn code(frame: Option<&Frame>, indent: &str, options: &TextOptions) -> Option<String> {
    let code = options.source.as_ref()?.line(frame?)?;
    let room = options.style.columns().saturating_sub(indent.len() + 2);
    Some(format!("{indent}│ {}", cut(&code, room)))
}

/// All frames of a site's stack.
pub(super) fn stack(screen: &Screen<'_>, site: &Site, options: &TextOptions) -> Vec<String> {
    let headlines = &screen.attributed.headlines;
    let heads = [headlines.headline(site), headlines.first_shown(site)];
    let mut text = Vec::new();
    let profile = screen.attributed.profile;
    // A vector takes everything.
    let _ = frames::write_frames(profile, &site.stack, heads, options, &mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}
