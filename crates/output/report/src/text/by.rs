//! Lists by function and by module: a line each, with what they held over time.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{Metric, Process, Profile};
use allotrope_text::TextWriter;

use crate::groups::{Group, Grouping, groups};
use crate::numbers::count;
use crate::selection::processes;
use crate::shorten::{clean, columns, end, name, path};
use crate::style::Role;
use crate::text::{TextOptions, amount, chart, describe};

/// Columns of a curve.
const CURVE: usize = 10;

/// Writes the list.
pub fn write_by(
    attributed: &Attributed<'_>,
    grouping: Grouping,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let metric = options.metric.unwrap_or(Metric::PeakBytes);
    let profile = attributed.profile;
    let shown = processes(profile, options);
    let mut all = groups(profile, shown, &attributed.headlines, grouping);
    all.retain(|group| group.value(metric) > [0, 0]);
    all.sort_by_key(|group| Reverse(group.value(metric)));
    let whole: u64 = all.iter().map(|group| group.value(metric)[0]).sum();
    let by = match grouping {
        Grouping::Function => "function",
        Grouping::Module => "module",
    };
    let title = format!("{}, by {by}", capitalised(describe(metric, options)));
    let top: Vec<&Group<'_>> = all.iter().take(options.top).collect();
    let lines = match grouping {
        Grouping::Function => rows(profile, &title, &top, metric, whole, options),
        Grouping::Module => module_rows(profile, &title, &top, metric, whole, options),
    };
    for line in lines {
        writeln!(out, "{line}")?;
    }
    let rest = &all[top.len()..];
    if !rest.is_empty() {
        let value: u64 = rest.iter().map(|group| group.value(metric)[0]).sum();
        let rest = count(rest.len() as u64);
        writeln!(out, "  … {rest} more with {}", amount(metric, value))?;
    }
    out.flush()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// A title and a line for each function: its curve, the value, its share, its lines.
pub(super) fn rows(
    profile: &Profile,
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
) -> Vec<String> {
    let label = |group: &&Group<'_>| function(profile, group);
    let locations = groups.iter().map(|group| location(profile, group));
    lay_out(
        title,
        groups,
        metric,
        whole,
        options,
        &label,
        locations.collect(),
    )
}

fn module_rows(
    profile: &Profile,
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
) -> Vec<String> {
    let label = |group: &&Group<'_>| match group.frame {
        Some(frame) => match clean(&profile.module_name(frame)) {
            empty if empty.is_empty() => "[no module]".to_owned(),
            module => module,
        },
        None => "[no stack]".to_owned(),
    };
    let none = vec![Location::default(); groups.len()];
    lay_out(title, groups, metric, whole, options, &label, none)
}

/// A source file with the lines in it, or a module.
#[derive(Clone, Default)]
struct Location {
    file: String,
    lines: String,
}

fn function(profile: &Profile, group: &Group<'_>) -> String {
    match group.frame {
        Some(frame) if group.is_unnamed => {
            format!("{} (no names)", clean(&profile.module_name(frame)))
        }
        Some(frame) => frame.function.to_string(),
        None => "[no stack]".to_owned(),
    }
}

fn location(profile: &Profile, group: &Group<'_>) -> Location {
    const MAX: usize = 3;
    let Some((file, lines)) = group.lines(profile) else {
        let frame = group.frame.filter(|_| !group.is_unnamed);
        let module = frame.map(|frame| clean(&profile.module_name(frame)));
        let module = module.filter(|module| !module.is_empty());
        return Location {
            file: module.unwrap_or_default(),
            lines: String::new(),
        };
    };
    let mut shown: Vec<String> = lines.iter().take(MAX).map(u32::to_string).collect();
    if lines.len() > MAX {
        shown.push("…".to_owned());
    }
    // The folders are in the site's own lines.
    let file = file.rsplit('/').next().unwrap_or(file);
    Location {
        file: file.to_owned(),
        lines: format!(":{}", shown.join(" ")),
    }
}

fn lay_out(
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
    label: &dyn Fn(&&Group<'_>) -> String,
    locations: Vec<Location>,
) -> Vec<String> {
    let style = options.style;
    let width = style.columns();
    let curves: Vec<Option<String>> = groups.iter().map(|group| curve(group)).collect();
    let has_curves = curves.iter().any(Option::is_some);
    let values: Vec<String> = groups
        .iter()
        .map(|group| amount(metric, group.value(metric)[0]))
        .collect();
    let value_width = values.iter().map(|value| columns(value)).max().unwrap_or(0);
    let value_width = value_width.max(NOW.len());
    let curve_width = if has_curves { CURVE + 2 } else { 0 };
    // Indent, value, share, and their gaps.
    let fixed = 2 + curve_width + 2 + value_width + 2 + SHARE.len() + 1;
    let locations_width = locations
        .iter()
        .map(|it| columns(&it.file) + columns(&it.lines))
        .max()
        .unwrap_or(0);
    let labels: Vec<String> = groups.iter().map(label).collect();
    let longest = labels.iter().map(|label| columns(label)).max().unwrap_or(0);
    let room = width.saturating_sub(fixed);
    // The location has up to a third, more if names leave it.
    let for_locations = match locations_width {
        0 => 0,
        needed => needed.min((room / 3).max(room.saturating_sub(longest + 2))) + 2,
    };
    let names = room
        .saturating_sub(for_locations)
        .min(longest)
        .max(columns(title).saturating_sub(2).min(room));
    // A narrow terminal has no room for locations.
    let for_locations = match room.saturating_sub(names) {
        left if left < 8 => 0,
        left => for_locations.min(left),
    };
    let mut lines = Vec::new();
    let grows = if has_curves {
        format!("  {:<CURVE$}", "grows")
    } else {
        String::new()
    };
    let now = match metric {
        Metric::PeakBytes | Metric::PeakAllocations => NOW,
        _ => "",
    };
    let first = format!(
        "{:<pad$}{grows}  {now:>value_width$}  {SHARE}",
        end(title, names + 2),
        pad = names + 2
    );
    lines.push(style.paint(Role::Title, first.trim_end()));
    for (index, group) in groups.iter().enumerate() {
        let function = name(&labels[index], names);
        let pad = names - columns(&function);
        let curve = match (&curves[index], has_curves) {
            (Some(curve), _) => format!("  {curve}"),
            (None, true) => " ".repeat(CURVE + 2),
            (None, false) => String::new(),
        };
        let location = &locations[index];
        let left = for_locations.saturating_sub(2 + columns(&location.lines));
        let location = match for_locations {
            0 => String::new(),
            _ if left < 4 => end(&location.lines, for_locations.saturating_sub(2)),
            _ if location.lines.is_empty() => end(&location.file, left),
            _ => format!("{}{}", path(&location.file, left), location.lines),
        };
        let share = match whole {
            0 => String::new(),
            whole => format!(
                "{:.0} %",
                group.value(metric)[0] as f64 * 100.0 / whole as f64
            ),
        };
        let line = format!(
            "  {}{:pad$}{curve}  {:>value_width$}  {share:>5}  {}",
            style.paint(Role::Function, &function),
            "",
            values[index],
            style.paint(Role::Location, &location),
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

const NOW: &str = "at peak";
const SHARE: &str = "share";

/// What the sites of a group held over time: of one process only, for the times of others
/// differ.
fn curve(group: &Group<'_>) -> Option<String> {
    let (process, _): (&Process, _) = *group.sites.first()?;
    if group.sites.iter().any(|(other, _)| other.id != process.id) {
        return None;
    }
    let sites = group.sites.iter().map(|(_, site)| *site);
    let values = chart::of_sites(process, sites, CURVE)?;
    Some(chart::bars(&values))
}
