//! Lists by function and by module: a line each, with what they held over time.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{Metric, Process, Profile};
use allotrope_text::document::{Table, Text, left, right, write_lines};
use allotrope_text::{Role, TextWriter, columns, cut_middle};

use crate::groups::{Group, Grouping, groups};
use crate::numbers::{count, plural};
use crate::selection::processes;
use crate::shorten;
use crate::text::{TextOptions, amount, chart, describe};

/// Columns of a curve.
const CURVE: usize = 10;
/// Least columns of a name, and of a location that is not shorter.
const MIN_NAME: usize = 12;
const MIN_LOCATION: usize = 12;

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
        Grouping::Own => "function of the program's own code",
        Grouping::Module => "module",
        Grouping::Type => "type of blocks",
    };
    let title = format!("{}, by {by}", capitalised(describe(metric, options)));
    let top: Vec<&Group<'_>> = all.iter().take(options.top).collect();
    let lines = match grouping {
        Grouping::Function | Grouping::Own => rows(profile, &title, &top, metric, whole, options),
        Grouping::Module => module_rows(profile, &title, &top, metric, whole, options),
        Grouping::Type => type_rows(&title, &top, metric, whole, options),
    };
    write_lines(&mut out, lines)?;
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
    let name = |group: &Group<'_>| (function(profile, group), location(profile, group));
    lay_out(title, groups, metric, whole, options, &name)
}

fn module_rows(
    profile: &Profile,
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
) -> Vec<String> {
    let name = |group: &Group<'_>| {
        let module = match group.frame {
            Some(frame) => profile.module_name(frame),
            None => "[no stack]".into(),
        };
        let module = match &*module {
            "" => "[no module]".to_owned(),
            module => module.to_owned(),
        };
        (module, String::new())
    };
    lay_out(title, groups, metric, whole, options, &name)
}

fn type_rows(
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
) -> Vec<String> {
    let name = |group: &Group<'_>| {
        let name = group.type_name.as_deref().unwrap_or("[unknown]");
        let sites = plural(group.sites.len(), "site", "sites");
        (name.to_owned(), sites)
    };
    lay_out(title, groups, metric, whole, options, &name)
}

/// Between a function and the one further out that tells what it was called for.
const CALLED_BY: &str = " ← ";

/// After a caller that is one of several.
const OTHERS: &str = ", …";

fn function(profile: &Profile, group: &Group<'_>) -> String {
    let name = match group.frame {
        Some(frame) if group.is_unnamed => {
            format!("{} (no names)", profile.module_name(frame))
        }
        Some(frame) => frame.function.to_string(),
        None => "[no stack]".to_owned(),
    };
    match group.outer() {
        Some((outer, false)) => format!("{name}{CALLED_BY}{outer}"),
        Some((outer, true)) => format!("{name}{CALLED_BY}{outer}{OTHERS}"),
        None => name,
    }
}

/// A source file with the lines in it, or a module.
fn location(profile: &Profile, group: &Group<'_>) -> String {
    const MAX: usize = 3;
    let Some((file, lines)) = group.lines(profile) else {
        let frame = group.frame.filter(|_| !group.is_unnamed);
        let module = frame.map(|frame| profile.module_name(frame).into_owned());
        return module.unwrap_or_default();
    };
    let mut shown: Vec<String> = lines.iter().take(MAX).map(u32::to_string).collect();
    if lines.len() > MAX {
        shown.push("…".to_owned());
    }
    // The folders are in the site's own lines.
    let file = file.rsplit('/').next().unwrap_or(file);
    format!("{file}:{}", shown.join(" "))
}

/// The location in at most `room` columns: further lines are left out first, then the middle of the
/// file's name. A line without its file says nothing.
fn short_location(location: &str, room: usize) -> String {
    if columns(location) <= room {
        return location.to_owned();
    }
    let (file, lines) = location.split_at(location.rfind(':').unwrap_or(location.len()));
    let first = lines.split(' ').next().unwrap_or_default();
    let more = format!("{file}{first} …");
    match columns(&more) <= room && first != lines {
        true => more,
        false => format!(
            "{}{first}",
            cut_middle(file, room.saturating_sub(columns(first)))
        ),
    }
}

/// A function's name that is indented by two columns.
fn short_name(name: &str, room: usize) -> String {
    let (name, room) = (name.trim_start(), room.saturating_sub(2));
    let short = short_with_caller(name, room);
    format!("  {}", short.unwrap_or_else(|| shorten::name(name, room)))
}

/// A function and the one that called it in so many columns, each cut on its own; `None` if there is
/// no caller.
fn short_with_caller(name: &str, room: usize) -> Option<String> {
    let (head, outer) = name.split_once(CALLED_BY)?;
    let room = room.saturating_sub(columns(CALLED_BY));
    let of_head = columns(head).min(room.saturating_sub(columns(outer).min(room / 2)));
    let head = shorten::name(head, of_head);
    let (outer, others) = match outer.strip_suffix(OTHERS) {
        Some(outer) => (outer, OTHERS),
        None => (outer, ""),
    };
    let left = room.saturating_sub(columns(&head) + columns(others));
    let outer = shorten::name(outer, left);
    Some(format!("{head}{CALLED_BY}{outer}{others}"))
}

/// `name` gives the name and the location of a group.
fn lay_out(
    title: &str,
    groups: &[&Group<'_>],
    metric: Metric,
    whole: u64,
    options: &TextOptions,
    name: &dyn Fn(&Group<'_>) -> (String, String),
) -> Vec<String> {
    let curves: Vec<Option<String>> = groups.iter().map(|group| curve(group)).collect();
    let has_curves = curves.iter().any(Option::is_some);
    let grows = match has_curves {
        true => format!("{:<CURVE$}", "grows"),
        false => String::new(),
    };
    let now = match metric {
        Metric::PeakBytes | Metric::PeakAllocations => "at peak",
        _ => "",
    };
    let columns = [
        left(title).cut_by(short_name),
        right(grows),
        right(now),
        right("share"),
        left("").cut_by(short_location),
    ];
    let named: Vec<(String, String)> = groups.iter().map(|group| name(group)).collect();
    let figures = groups.iter().map(|group| {
        let [value, _] = group.value(metric);
        let share = match whole {
            0 => String::new(),
            whole => format!("{:.0} %", value as f64 * 100.0 / whole as f64),
        };
        [amount(metric, value), share]
    });
    let figures: Vec<[String; 2]> = figures.collect();
    let named = fitted(&named, &figures, now, has_curves, options.style.columns());
    let rows = named.into_iter().zip(figures).zip(curves);
    let rows = rows.map(|(((name, location), [value, share]), curve)| {
        [
            Text::of(Role::Function, format!("  {name}")),
            curve.unwrap_or_default().into(),
            value.into(),
            share.into(),
            Text::of(Role::Location, location),
        ]
    });
    let table = Table::new(columns).indent(0).rows(rows);
    table.lines(options.style)
}

/// The names and locations in what the other columns leave of a line: locations get a quarter of the
/// line, and names the rest.
fn fitted(
    named: &[(String, String)],
    figures: &[[String; 2]],
    title: &str,
    has_curves: bool,
    width: usize,
) -> Vec<(String, String)> {
    const GAP: usize = 2;
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(columns).max().unwrap_or(0);
    let value = widest(&mut figures.iter().map(|[value, _]| &**value)).max(columns(title));
    let share = widest(&mut figures.iter().map(|[_, share]| &**share)).max(columns("share"));
    let curve = if has_curves { CURVE + GAP } else { 0 };
    let others = 2 + curve + GAP + value + GAP + share;
    let location = widest(&mut named.iter().map(|(_, location)| &**location));
    let location = location.min((width / 4).max(MIN_LOCATION));
    let gap = if location > 0 { GAP } else { 0 };
    let room = width.saturating_sub(others + location + gap).max(MIN_NAME);
    let names: Vec<&str> = named.iter().map(|(name, _)| &**name).collect();
    let short = shorten::names(&names, room);
    let names = names.iter().zip(short);
    let names = names.map(|(name, short)| short_with_caller(name, room).unwrap_or(short));
    let locations = named.iter().map(|(_, it)| short_location(it, location));
    names.zip(locations).collect()
}

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
