//! The first screen: what stands out in a recording.

use std::path::Path;

use allotrope_attribution::{Attributed, Glue};
use allotrope_findings::{Finding, find_together};
use allotrope_formats::Limits;
use allotrope_reading::Wanted;
use allotrope_report::markdown;
use allotrope_report::text::{self, Screen, TextOptions};
use allotrope_text::quoted;

use super::arguments::{Arguments, Format};
use super::request::Request;
use crate::exit_status::Failure;
use crate::findings::FindingArguments;
use crate::pager::PagerArguments;
use crate::progress::reader;
use crate::standard_output;
use crate::style::{Color, style};

/// Prints the first screen of a recording with the default options, if it can be read.
pub fn first_screen(path: &Path) -> Result<(), Failure> {
    let mut recording = reader(Limits::default()).open(path)?;
    let profile = recording.profile_with(Wanted::FINDINGS)?;
    let options = TextOptions {
        style: style(Color::Auto),
        ..TextOptions::default()
    };
    let attributed = Attributed::new(&profile, &Glue::default());
    let findings = findings(&attributed, &options, &FindingArguments::default())?;
    let screen = Screen {
        attributed: &attributed,
        findings: &findings,
        trace: quoted(path.as_os_str()),
        merge: false,
        top: None,
    };
    PagerArguments::default().print(|output| text::write_screen(&screen, &options, output))
}

/// Prints the first screen of a profile, which has [evidence](Wanted::FINDINGS).
pub fn print(
    arguments: &Arguments,
    request: &Request<'_>,
    attributed: &Attributed<'_>,
    options: &TextOptions,
) -> Result<(), Failure> {
    let findings = findings(attributed, options, &arguments.findings)?;
    let screen = Screen {
        attributed,
        findings: &findings,
        trace: quoted(request.path.as_os_str()),
        merge: arguments.merge,
        top: arguments.top.map(|_| arguments.top()),
    };
    match arguments.format {
        Format::Markdown => {
            standard_output::print_log(|output| markdown::write(&screen, options, output))
        }
        _ => arguments.pager.print(|output| {
            request.write_newest(output)?;
            text::write_screen(&screen, options, output)
        }),
    }
}

/// What stands out in a profile, which has [evidence](Wanted::FINDINGS).
pub fn findings(
    attributed: &Attributed<'_>,
    options: &TextOptions,
    arguments: &FindingArguments,
) -> Result<Vec<Finding>, Failure> {
    let how = arguments.options(&options.suppressions)?;
    Ok(find_together(attributed, &how))
}
