//! Draws the view.

use allotrope_text::numbers::{bytes, count, duration, moment};
use allotrope_text::shown;
use allotrope_watch::report::{Report, SiteRow};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::{AtEnd, Screen, Sort, View, site_name};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Bytes of the unit of the table.
const MIB: f64 = 1_048_576.0;

const HELP: &str = "\
up, down, PgUp, PgDn   select a site
Enter                  its whole stack
s                      sort by live bytes, growth, age, samples
/                      only stacks with a function of this name; Esc: all
m                      mark: growth and the rate count from now on
i                      ignore the selected site; it stays counted
w                      write a sampled profile
q                      quit

A site is a stack. Figures are estimates; ± is half of the 95 % interval.
per min: what the site has gained a minute since the mark.";

impl View {
    /// Draws the view.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let mut lines = self.head(width);
        let left = height.saturating_sub(lines.len() + 2);
        match &self.screen {
            Screen::Help => lines.extend(HELP.lines().map(|it| it.to_owned().into())),
            Screen::Stack(from) => lines.extend(self.stack(usize::from(*from), left)),
            _ => lines.extend(self.table(width, left)),
        }
        lines.truncate(height.saturating_sub(2));
        lines.resize(height.saturating_sub(2), Line::default());
        lines.push(self.prompt().into());
        lines.push(self.style_dim(self.keys(width)));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn style_dim(&self, text: String) -> Line<'static> {
        match self.has_colour {
            true => Span::styled(text, Style::new().fg(Color::DarkGray)).into(),
            false => text.into(),
        }
    }

    fn keys(&self, width: usize) -> String {
        let keys = match &self.screen {
            Screen::Stack(_) => "up, down scroll  Esc back",
            Screen::Help => "Esc back",
            _ if width < 80 => "s sort  / filter  q quit  ? help",
            _ => "s sort  / filter  Enter stack  m mark  i ignore  w write  q quit  ? help",
        };
        format!(" {keys}")
    }

    fn prompt(&self) -> String {
        match &self.screen {
            Screen::Quit => {
                let usual = match self.at_end {
                    AtEnd::Restore => "restore",
                    AtEnd::Leave => "leave",
                    AtEnd::Off => "off",
                };
                format!(" Sampling: (r)estore, (l)eave on, switch (o)ff? Enter: {usual}, Esc: stay")
            }
            Screen::SaveAs(name) => format!(" Write to: {}_", shown(name)),
            _ if self.is_filtering => format!(" Filter: {}_", shown(&self.filter)),
            _ if !self.status.is_empty() => format!(" {}", self.status),
            _ => match &self.ended {
                Some(how) => format!(" {how}. w writes what was live, q quits"),
                None => String::new(),
            },
        }
    }

    fn head(&self, width: usize) -> Vec<Line<'static>> {
        let Some(report) = &self.report else {
            return vec![" waiting for the first look".into()];
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
        lines.push(
            spread(
                &format!(" {name} · watched {watched} · {period}"),
                clock,
                width,
            )
            .into(),
        );
        lines.push(self.bold(self.answer(report)));
        if let [_, _, ..] = &report.processes[..] {
            for row in report.processes.iter().take(8) {
                let live = row.sums.as_ref().map(|it| it.live.bytes().value as u64);
                let live = live.map_or("nothing was sampled yet".to_owned(), bytes);
                let lost = match row.lost() {
                    0 => String::new(),
                    lost => format!(", {} samples are missing", count(lost)),
                };
                lines.push(format!("   {} {}  {live}{lost}", shown(&row.name), row.process).into());
            }
        }
        let bars = width.saturating_sub(24).max(1);
        let live: Vec<f64> = self.memory.iter().map(|it| it.0).collect();
        let resident: Vec<f64> = self.memory.iter().map(|it| it.1 as f64).collect();
        for (name, values) in [("live", live), ("resident", resident)] {
            let last = values.last().copied().unwrap_or(0.0);
            let line = format!(
                " {name:<9}{}  {}",
                bars_of(&values, bars),
                bytes(last as u64)
            );
            lines.push(line.into());
        }
        lines
    }

    /// The second line: how much is live, and what grows.
    fn answer(&self, report: &Report) -> String {
        let Some(total) = &report.total else {
            return " Nothing was sampled yet.".to_owned();
        };
        let live = total.live.bytes();
        let resident = self.memory.last().map_or(0, |it| it.1);
        let mut text = format!(
            " Live {} ± {}, resident {}.",
            bytes(live.value as u64),
            bytes(half(live.low, live.high) as u64),
            bytes(resident)
        );
        // Only what is more than chance.
        let grows = |it: &&SiteRow| it.sums.grown_bytes().low > 0.0;
        let rate = |it: &&SiteRow| it.sums.grown_bytes().value;
        let sites = report.sites.iter().filter(grows);
        let most = sites.max_by(|a, b| rate(a).total_cmp(&rate(b)));
        if let (Some(site), Some(minutes)) = (most, minutes(report)) {
            let rate = bytes((rate(&site) / minutes) as u64);
            text.push_str(&format!(" {} grows {rate} a minute.", site_name(site)));
        }
        text
    }

    fn bold(&self, text: String) -> Line<'static> {
        Span::styled(text, Style::new().add_modifier(Modifier::BOLD)).into()
    }

    fn table(&self, width: usize, height: usize) -> Vec<Line<'static>> {
        let Some(report) = &self.report else {
            return Vec::new();
        };
        let (is_wide, has_pictures) = (width >= 80, width >= 60);
        let mut head = "   live MiB      ±".to_owned();
        if is_wide {
            head.push_str("  share");
        }
        head.push_str("  per min");
        if is_wide {
            head.push_str("    oldest");
        }
        head.push_str("  trend     ");
        if has_pictures {
            head.push_str("         ");
        }
        head.push_str(" function");
        let sort = match self.sort {
            Sort::Live => "live",
            Sort::Growth => "growth",
            Sort::Age => "age",
            Sort::Samples => "samples",
        };
        head.push_str(&format!(" (by {sort})"));
        let mut lines = vec![Line::default(), self.style_dim(head)];
        let sites = self.sites();
        let selected = self.selection().map_or(0, |it| it.0);
        let room = height.saturating_sub(4).max(1);
        let first = selected.saturating_sub(room.saturating_sub(1));
        for site in sites.iter().skip(first).take(room) {
            let text = row(site, report, is_wide, has_pictures);
            let is_selected = Some(site.key) == self.selected;
            let text = format!(" {}{text}", if is_selected { '▸' } else { ' ' });
            lines.push(match is_selected {
                true => self.bold(text),
                false => text.into(),
            });
        }
        let mut notes = Vec::new();
        let below = sites.len().saturating_sub(first + room) + report.more_sites;
        if below > 0 {
            notes.push(format!("{} more sites", count(below as u64)));
        }
        if report.suppressed.sites > 0 {
            notes.push(format!("{} suppressed", report.suppressed.sites));
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
        if !self.filter.is_empty() {
            notes.push(format!("filter: {}", shown(&self.filter)));
        }
        lines.push(format!("   {}", notes.join(" · ")).into());
        if height > lines.len() + 4 {
            lines.push(Line::default());
            lines.extend(self.stack(0, height - lines.len()));
        }
        lines
    }

    fn stack(&self, from: usize, height: usize) -> Vec<Line<'static>> {
        let Some((_, site)) = self.selection() else {
            return Vec::new();
        };
        let live = site.sums.live.bytes();
        let head = format!(
            " {}  {} ± {}, about {} blocks",
            site_name(site),
            bytes(live.value as u64),
            bytes(half(live.low, live.high) as u64),
            count(site.sums.live.blocks(site.smallest).value.round() as u64)
        );
        let mut lines = vec![self.bold(head)];
        let from = from.min(site.stack.len().saturating_sub(1));
        for frame in site.stack.iter().skip(from).take(height.saturating_sub(1)) {
            let place = match frame.line {
                0 => String::new(),
                line => format!("  {}:{line}", shown(&frame.file)),
            };
            lines.push(format!("   ← {}{place}", shown(&frame.name())).into());
        }
        lines
    }
}

fn row(site: &SiteRow, report: &Report, is_wide: bool, has_picture: bool) -> String {
    let live = site.sums.live.bytes();
    let error = half(live.low, live.high);
    let mut text = format!("{:>9.1} {:>6.1}", live.value / MIB, error / MIB);
    if is_wide {
        let all = report
            .total
            .as_ref()
            .map_or(0.0, |it| it.live.bytes().value);
        let share = if all > 0.0 {
            live.value * 100.0 / all
        } else {
            0.0
        };
        text.push_str(&format!(" {share:>4.0} %"));
    }
    let rate = minutes(report).map(|it| site.sums.grown_bytes().value / it / MIB);
    // No negative zero.
    let rate = rate.map(|it| if it.abs() < 0.05 { 0.0 } else { it });
    let rate = rate.map_or(String::new(), |it| format!("{it:+.1}"));
    text.push_str(&format!(" {rate:>8}"));
    if is_wide {
        text.push_str(&format!(" {:>9}", duration(site.oldest as f64 / 1e3)));
    }
    text.push_str(&format!("  {:<10}", site.trend.name()));
    if has_picture {
        text.push_str(&format!(" {:<8}", bars_of(&site.history, 8)));
    }
    text + " " + &site_name(site)
}

fn half(low: f64, high: f64) -> f64 {
    (high - low) / 2.0
}

/// The time since the mark; `None` until it is a second.
fn minutes(report: &Report) -> Option<f64> {
    let time = report.real_time.checked_sub(report.mark_time?)?;
    (time >= 1_000_000_000).then_some(time as f64 / 60e9)
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
    let used = left.chars().count() + right.chars().count() + 1;
    format!(
        "{left}{}{right}",
        " ".repeat(width.saturating_sub(used).max(1))
    )
}
