//! Draws the view.

use crate::history::Trend;
use crate::names::name_of;
use crate::report::{Report, SiteRow};
use allotrope_sampling::estimate::Estimate;
use allotrope_text::numbers::{bytes, count, duration, moment};
use allotrope_text::shown;

use crate::live::line::{Colour, Line, Span, Style, wide};
use crate::live::{AtEnd, Screen, Sort, View, site_name};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A name is not cut to fewer characters.
const MIN_NAME: usize = 12;
/// Most processes above the table.
const PROCESSES: usize = 4;

/// A terminal with fewer lines has no curves.
const LINES_FOR_CURVES: usize = 14;

const HELP: &str = "\
up, down, PgUp, PgDn   select a site
Enter                  its whole stack
s                      sort by live bytes, growth, age, samples
/                      only stacks with a function of this name; Esc: all
m                      mark: growth counts from now on
i                      ignore the selected site; it stays counted
p                      choose processes
w                      write a sampled profile
Home                   the first site, sorted anew
q                      quit

A site is a stack. Figures are estimates; from–to is the 95 % interval.
per min: what it gained a minute in the last third of the time.
The sites keep their places for ten reports after a key.";

impl View {
    /// The lines of the view on a terminal of so many columns and lines.
    pub fn lines(&self, width: usize, height: usize) -> Vec<Line> {
        let mut lines = self.head(width, height);
        let left = height.saturating_sub(lines.len() + 2);
        match &self.screen {
            Screen::Help => lines.extend(HELP.lines().map(|it| it.to_owned().into())),
            Screen::Stack(from) => lines.extend(self.stack(usize::from(*from), width, left)),
            Screen::Processes(place) => lines.extend(self.process_list(*place, left)),
            _ => lines.extend(self.table(width, left)),
        }
        lines.truncate(height.saturating_sub(2));
        lines.resize(height.saturating_sub(2), Line::default());
        lines.push(self.prompt(width).into());
        lines.push(self.style_dim(self.keys(width)));
        lines.truncate(height);
        lines
    }

    fn style_dim(&self, text: String) -> Line {
        let style = Style {
            colour: self.has_colour.then_some(Colour::Grey),
            ..Style::default()
        };
        Line::styled(text, style)
    }

    fn keys(&self, width: usize) -> String {
        let keys = match &self.screen {
            Screen::Stack(_) => "up, down scroll  Esc back",
            Screen::Help => "Esc back",
            Screen::Processes(_) => "up, down select  Space choose or remove  Esc back",
            _ if width < 80 => "s sort  / filter  q quit  ? help",
            _ => "s sort  / filter  ⏎ stack  m mark  i ignore  p choose  w write  q quit  ? help",
        };
        format!(" {keys}")
    }

    fn prompt(&self, width: usize) -> String {
        match &self.screen {
            Screen::Quit if width < 74 => match self.at_end {
                AtEnd::Stop => " (e)nd, (l)eave on, (o)ff? Enter: end".to_owned(),
                _ => " (r)estore, (l)eave on, switch (o)ff?".to_owned(),
            },
            Screen::Quit => {
                let usual = match self.at_end {
                    AtEnd::Restore => "restore",
                    AtEnd::Leave => "leave",
                    AtEnd::Off => "off",
                    AtEnd::StandBy => "sparse",
                    AtEnd::Stop => {
                        return " (e)nd the program, (l)eave it sampled, (o)ff: unsampled? Enter: end".to_owned();
                    }
                };
                format!(" Sampling: (r)estore, (l)eave on, switch (o)ff? Enter: {usual}, Esc: stay")
            }
            Screen::SaveAs(name) => format!(" Write to: {}_", shown(name)),
            _ if self.is_filtering => format!(" Filter: {}_", shown(&self.filter)),
            _ if !self.status.is_empty() => cut(&format!(" {}", self.status), width),
            _ => match &self.ended {
                Some(how) => {
                    let [long, short] = ["w writes what was live, q quits", "q quits"]
                        .map(|keys| format!(" {how}. {keys}"));
                    first_that_fits([long, short], width)
                }
                None => String::new(),
            },
        }
    }

    fn head(&self, width: usize, height: usize) -> Vec<Line> {
        let Some(report) = &self.report else {
            return vec![" waiting for the first report".into()];
        };
        let mut lines = Vec::new();
        let began = self.began.unwrap_or(report.real_time);
        let watched = duration(report.real_time.saturating_sub(began) as f64 / 1e3);
        let period = report.processes.iter().find_map(|it| it.period);
        let period = period.map_or("sampling is off".to_owned(), |it| {
            format!("1 sample per {}", bytes(it.bytes()))
        });
        let name = match &report.processes[..] {
            [one] => format!("{} {}", shown(&one.name), one.process),
            all => format!("{} processes", all.len()),
        };
        let clock = moment(report.real_time);
        let clock = clock.get(11..19).unwrap_or_default();
        let all = format!(" {name} · watched {watched} · {period}");
        let heads = [
            all,
            format!(" {name} · watched {watched}"),
            format!(" {name}"),
        ];
        let head = first_that_fits(heads, width.saturating_sub(clock.len() + 2));
        lines.push(spread(&head, clock, width).into());
        lines.push(self.bold(self.answer(report, width)));
        if let [_, _, ..] = &report.processes[..] {
            for row in report.processes.iter().take(PROCESSES) {
                let live = row.sums.as_ref().map(|it| it.live.bytes().value as u64);
                let live = live.map_or("nothing was sampled yet".to_owned(), bytes);
                let lost = match row.lost() {
                    0 => String::new(),
                    lost => format!(", {} samples are missing", count(lost)),
                };
                let figures = format!(" {}  {live}{lost}", row.process);
                let name = fit(&shown(&row.name), width.saturating_sub(figures.len() + 3));
                lines.push(format!("   {name}{figures}").into());
            }
            let more = report.processes.len().saturating_sub(PROCESSES);
            if more > 0 {
                lines.push(format!("   {more} more processes").into());
            }
        } else if let [row] = &report.processes[..]
            && row.lost() > 0
        {
            lines.push(format!("   {} samples are missing", count(row.lost())).into());
        }
        if height < LINES_FOR_CURVES {
            return lines;
        }
        let bars = width.saturating_sub(40).max(1);
        let live: Vec<f64> = self.memory.iter().map(|it| it.0).collect();
        let resident: Vec<f64> = self.memory.iter().map(|it| it.1 as f64).collect();
        for (name, values) in [("live", live), ("resident", resident)] {
            let last = values.last().copied().unwrap_or(0.0);
            let most = values.iter().copied().fold(0.0, f64::max);
            let line = format!(
                " {name:<9}{}  {}, most {}",
                bars_of(&values, bars),
                bytes(last as u64),
                bytes(most as u64)
            );
            lines.push(line.into());
        }
        lines
    }

    /// The second line: how much is live, and what grows most.
    fn answer(&self, report: &Report, width: usize) -> String {
        let Some(total) = &report.total else {
            return " Nothing was sampled yet.".to_owned();
        };
        let live = total.live.bytes();
        let error = error(live);
        let live = bytes(live.value as u64);
        let text = format!(" Live {live}{error}");
        // Only what is more than chance.
        let growing = report.sites.iter().filter(|it| it.trend == Trend::Growing);
        let growing = growing.filter(|it| !self.ignored.contains(&it.key));
        let growing = growing.filter_map(|it| Some((self.rate(it)?, it)));
        let Some((rate, site)) = growing.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return first_that_fits([text + ".", format!(" Live {live}.")], width);
        };
        let rate = bytes(rate.max(0.0) as u64);
        let rest = format!(" grows {rate} a minute.");
        let used = wide(&text) + wide(&rest) + 2;
        let name = site_name(site);
        let room = width.saturating_sub(used);
        if wide(&name).min(MIN_NAME) <= room {
            return format!("{text}. {}{rest}", fit(&name, room));
        }
        let shorter = [
            format!("{text}; one site +{rate} a minute."),
            format!(" Live {live}; one site +{rate}/min."),
            format!(" Live {live}."),
        ];
        first_that_fits(shorter, width)
    }

    fn bold(&self, text: String) -> Line {
        let style = Style {
            bold: true,
            ..Style::default()
        };
        Line::styled(text, style)
    }

    fn table(&self, width: usize, height: usize) -> Vec<Line> {
        let Some(report) = &self.report else {
            return Vec::new();
        };
        let columns = Columns::of(width, self.sort);
        let most = report.sites.iter().map(|it| it.sums.live.bytes().value);
        let unit = Unit::of(most.fold(0.0, f64::max));
        let mut head = format!("   live {}", unit.name);
        head.extend(columns.shown.iter().map(|it| it.head()));
        head.push_str(" function");
        let mut lines = vec![Line::default(), self.style_dim(head)];
        let sites = self.sites();
        let selected = self.selection().map_or(0, |it| it.0);
        let room = height.saturating_sub(3).max(1);
        let first = selected.saturating_sub(room.saturating_sub(1));
        for (place, site) in sites.iter().enumerate().skip(first).take(room) {
            lines.push(self.row(site, report, &unit, &columns, place == selected));
        }
        let mut notes = Vec::new();
        let sort = match self.sort {
            Sort::Live => "",
            Sort::Growth => "sorted by growth",
            Sort::Age => "sorted by age",
            Sort::Samples => "sorted by samples",
        };
        let below = sites.len().saturating_sub(first + room) + report.more_sites;
        if below > 0 {
            notes.push(format!("{} more sites", count(below as u64)));
        }
        if report.suppressed.sites > 0 {
            let live = report.suppressed.live.as_ref();
            let live = live.map_or(0.0, |it| it.bytes().value);
            notes.push(format!(
                "{} suppressed, {}",
                report.suppressed.sites,
                bytes(live as u64)
            ));
        }
        if !self.ignored.is_empty() {
            let ignored = report
                .sites
                .iter()
                .filter(|it| self.ignored.contains(&it.key));
            let ignored: f64 = ignored.map(|it| it.sums.live.bytes().value).sum();
            notes.push(format!(
                "{} ignored, {}",
                self.ignored.len(),
                bytes(ignored as u64)
            ));
        }
        if !sort.is_empty() {
            notes.push(sort.to_owned());
        }
        if !self.filter.is_empty() {
            notes.push(format!("filter: {}", shown(&self.filter)));
        }
        lines.push(format!("   {}", joined(&notes, width.saturating_sub(3))).into());
        if height > lines.len() + 4 {
            lines.push(Line::default());
            lines.extend(self.stack(0, width, height - lines.len()));
        }
        lines
    }

    /// What else is known of a site.
    fn details(&self, site: &SiteRow, width: usize) -> Line {
        let mut parts = vec![format!("oldest {}", duration(site.oldest as f64 / 1e3))];
        let old = site.sums.old.bytes().value;
        if let Some(report) = &self.report
            && old > 0.0
        {
            let age = duration(report.old_age as f64 / 1e3);
            parts.push(format!("older than {age}: {}", bytes(old as u64)));
        }
        let grown = site.sums.grown_bytes();
        if let Some(time) = self.report.as_ref().and_then(|it| it.mark_time) {
            let clock = moment(time);
            let sign = if grown.value < 0.0 { '-' } else { '+' };
            parts.push(format!(
                "since the mark {}: {sign}{}{}",
                clock.get(11..19).unwrap_or_default(),
                bytes(grown.value.abs() as u64),
                error(grown)
            ));
        }
        if let [_, _, ..] = &site.processes[..] {
            parts.push(format!("in {} processes", site.processes.len()));
        }
        self.style_dim(format!(" {}", joined(&parts, width.saturating_sub(1))))
    }

    /// The processes that can be chosen.
    fn process_list(&self, selected: usize, height: usize) -> Vec<Line> {
        let mut lines = vec![self.bold(" Processes of the report".to_owned())];
        let room = height.saturating_sub(1).max(1);
        let first = selected.saturating_sub(room - 1);
        for (place, (process, name)) in self.processes.iter().enumerate().skip(first).take(room) {
            let mark = if self.is_chosen(*process) { 'x' } else { ' ' };
            let pointer = if place == selected { '▸' } else { ' ' };
            lines.push(format!(" {pointer}[{mark}] {process} {}", shown(name)).into());
        }
        lines
    }

    /// A row of the table; the trend has a colour.
    fn row(
        &self,
        site: &SiteRow,
        report: &Report,
        unit: &Unit,
        columns: &Columns,
        is_selected: bool,
    ) -> Line {
        let colour = match site.trend {
            Trend::Growing if self.has_colour => Some(Colour::Red),
            Trend::Saturating if self.has_colour => Some(Colour::Yellow),
            _ => None,
        };
        let span = |text, colour| Span {
            text,
            style: Style {
                bold: is_selected,
                colour,
            },
        };
        let live = site.sums.live.bytes();
        let pointer = if is_selected { '▸' } else { ' ' };
        let first = format!(" {pointer}{:>9.1}", live.value / unit.bytes);
        let cell = |column: &Column| {
            let text = match column {
                Column::Error => {
                    let end = |it: f64| match it.is_finite() {
                        true => format!("{:.1}", it / unit.bytes),
                        false => "?".to_owned(),
                    };
                    format!(" {:>13}", format!("{}–{}", end(live.low), end(live.high)))
                }
                Column::Share => {
                    let total = report.total.as_ref();
                    let all = total.map_or(0.0, |it| it.live.bytes().value);
                    let share = if all > 0.0 {
                        live.value * 100.0 / all
                    } else {
                        0.0
                    };
                    format!(" {share:>4.0} %")
                }
                Column::Rate => {
                    let rate = self.rate(site).map(|it| it / unit.bytes);
                    // No negative zero.
                    let rate = rate.map(|it| if it.abs() < 0.05 { 0.0 } else { it });
                    let rate = rate.map_or(String::new(), |it| format!("{it:+.1}"));
                    format!(" {rate:>8}")
                }
                Column::Oldest => format!(" {:>9}", duration(site.oldest as f64 / 1e3)),
                Column::Trend => format!("  {:<10}", site.trend.name()),
                Column::Bars => format!(" {:<8}", bars_of(&site.history, 8)),
            };
            let is_trend = *column == Column::Trend;
            span(text, colour.filter(|_| is_trend))
        };
        let name = format!(" {}", fit(&site_name(site), columns.function));
        let mut spans = vec![span(first, None)];
        spans.extend(columns.shown.iter().map(cell));
        spans.push(span(name, None));
        Line(spans)
    }

    fn stack(&self, from: usize, width: usize, height: usize) -> Vec<Line> {
        let Some((_, site)) = self.selection() else {
            return Vec::new();
        };
        let live = site.sums.live.bytes();
        let blocks = site.sums.live.blocks(site.smallest()).value.round() as u64;
        let figures = format!(
            "  {}{}, about {} {}",
            bytes(live.value as u64),
            error(live),
            count(blocks),
            if blocks == 1 { "block" } else { "blocks" }
        );
        let room = width.saturating_sub(wide(&figures) + 1);
        let name = fit(&site_name(site), room.max(MIN_NAME));
        let head = cut(&format!(" {name}{figures}"), width);
        let mut lines = vec![self.bold(head), self.details(site, width)];
        let from = from.min(site.stack.len().saturating_sub(1));
        for frame in site.stack.iter().skip(from).take(height.saturating_sub(2)) {
            let name = name_of(frame);
            let name = shown(&name);
            let place = match frame.line {
                0 => String::new(),
                line => {
                    let full = format!("  {}:{line}", shown(&frame.file));
                    let used = wide(&name) + 5;
                    match used + wide(&full) <= width {
                        true => full,
                        false => {
                            let file = frame.file.rsplit('/').next().unwrap_or_default();
                            format!("  {}:{line}", shown(file))
                        }
                    }
                }
            };
            let room = width.saturating_sub(wide(&place) + 5);
            lines.push(format!("   ← {}{place}", fit(&name, room.max(20))).into());
        }
        lines
    }
}

/// A column of the table, besides live bytes and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Error,
    Share,
    Rate,
    Oldest,
    Trend,
    Bars,
}

impl Column {
    /// Its title, which is as wide as the column.
    fn head(self) -> &'static str {
        match self {
            Self::Error => "       from–to",
            Self::Share => "  share",
            Self::Rate => "  per min",
            Self::Oldest => "    oldest",
            Self::Trend => "  trend     ",
            Self::Bars => "         ",
        }
    }
}

/// The columns of the table that there is room for.
struct Columns {
    /// In the order of [`Column`].
    shown: Vec<Column>,
    /// Characters of a function.
    function: usize,
}

impl Columns {
    /// The columns that matter most, as long as there is room for a function.
    fn of(width: usize, sort: Sort) -> Self {
        use Column::{Bars, Error, Oldest, Rate, Share, Trend};
        /// Of the pointer, live bytes and the blank before the function.
        const ALWAYS: usize = 12;
        let function = if width < 60 { 18 } else { 28 };
        let mut order = [Rate, Trend, Error, Bars, Share, Oldest];
        if sort == Sort::Age {
            order.rotate_right(1);
        }
        let mut room = width.saturating_sub(ALWAYS);
        // A column without room leaves out those that matter less, too.
        let fits = |column: &Column| {
            let rest = room.checked_sub(wide(column.head()));
            let rest = rest.filter(|rest| *rest >= function);
            room = rest.unwrap_or(room);
            rest.is_some()
        };
        let mut shown: Vec<Column> = order.into_iter().take_while(fits).collect();
        shown.sort_unstable();
        Self {
            shown,
            function: room,
        }
    }
}

/// The unit of the table.
struct Unit {
    name: &'static str,
    bytes: f64,
}

impl Unit {
    /// The one in which the largest value of a table has two to five digits.
    fn of(largest: f64) -> Self {
        const KIB: f64 = 1024.0;
        let (name, bytes) = match largest {
            it if it < 10.0 * KIB * KIB => ("KiB", KIB),
            it if it < 10.0 * KIB * KIB * KIB => ("MiB", KIB * KIB),
            _ => ("GiB", KIB * KIB * KIB),
        };
        Self { name, bytes }
    }
}

/// What follows the value of an estimate in bytes; an end of its interval may not be known. `±` is
/// only for intervals with the value in their middle.
fn error(it: Estimate) -> String {
    let (below, above) = (it.value - it.low, it.high - it.value);
    match (it.low.is_finite(), it.high.is_finite()) {
        (true, true) if below.max(above) <= 1.25 * below.min(above) => {
            format!(" ± {}", bytes(below.max(above) as u64))
        }
        (true, true) => format!(" ({} to {})", signed(it.low), signed(it.high)),
        (true, false) => " or more".to_owned(),
        (false, true) => " or less".to_owned(),
        (false, false) => " or any other amount".to_owned(),
    }
}

fn signed(it: f64) -> String {
    let sign = if it < 0.0 { "-" } else { "" };
    format!("{sign}{}", bytes(it.abs() as u64))
}

/// The first of these texts that fits into this many columns, or else the last one, cut.
fn first_that_fits<const N: usize>(texts: [String; N], most: usize) -> String {
    let fitting = texts.iter().find(|it| wide(it) <= most);
    let last = || texts.last().map_or_else(String::new, |it| cut(it, most));
    fitting.cloned().unwrap_or_else(last)
}

/// A text in at most this many columns, cut between words.
fn cut(text: &str, most: usize) -> String {
    let short = fit(text, most);
    if short == text {
        return short;
    }
    let words = short.trim_end_matches('…');
    match words.rfind(' ').filter(|it| *it > most / 2) {
        Some(end) => format!("{}…", words[..end].trim_end_matches([' ', ',', '.', '·'])),
        None => short,
    }
}

/// The parts that fit into this many columns, in one line; `…` if some do not.
fn joined(parts: &[String], most: usize) -> String {
    let all = parts.join(" · ");
    if wide(&all) <= most {
        return all;
    }
    let mut text = String::new();
    for part in parts {
        let separator = if text.is_empty() { "" } else { " · " };
        // Room for the sign that something is left out.
        if wide(&text) + wide(separator) + wide(part) + 4 <= most {
            text.push_str(separator);
            text.push_str(part);
        }
    }
    match text.is_empty() {
        true => cut(&all, most),
        false => text + " · …",
    }
}

/// A text in at most this many columns.
fn fit(text: &str, most: usize) -> String {
    if wide(text) <= most {
        return text.to_owned();
    }
    if most == 0 {
        return String::new();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if wide(&short) >= most {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// A picture of the values in at most this many characters; the tallest bar is the largest value.
fn bars_of(values: &[f64], most: usize) -> String {
    let most_value = values.iter().copied().fold(0.0, f64::max);
    let width = values.len().min(most);
    let bar = |place: usize| {
        // The last value of each part, so that the last bar is the present.
        let index = (place + 1) * values.len() / width - 1;
        let part = values[index] / most_value.max(1.0) * 7.0;
        BARS[(part.round() as usize).min(7)]
    };
    (0..width).map(bar).collect()
}

/// Two texts at both ends of a line.
fn spread(left: &str, right: &str, width: usize) -> String {
    let used = wide(left) + wide(right) + 1;
    format!(
        "{left}{}{right}",
        " ".repeat(width.saturating_sub(used).max(1))
    )
}
