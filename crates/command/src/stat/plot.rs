//! Live and resident bytes over time as an SVG file (SVG 1.1).

use std::io::{self, Write};

use allotrope_report::numbers::{bytes, duration};

use super::rows::{Rows, Total};

/// The picture, and the area of the curves in it, in pixels.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 40.0;
/// Lines across the area.
const LINES: u32 = 4;
/// Largest number of points of a curve: more would be closer than a pixel.
const MAX_POINTS: usize = 2000;

/// Scale from values to pixels.
struct Scale {
    seconds: f64,
    bytes: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, bytes: f64) -> f64 {
        HEIGHT - BOTTOM - bytes / self.bytes * (HEIGHT - TOP - BOTTOM)
    }
}

/// A comment by which a picture is recognised as ours.
const MARK: &str = "<!-- allotrope stat -->";

/// Whether a file that begins so is such a picture.
pub fn is_plot(head: &[u8]) -> bool {
    let start = String::from_utf8_lossy(head.get(..400).unwrap_or(head));
    start.starts_with("<svg ") && start.lines().nth(1) == Some(MARK)
}

/// Writes the picture.
pub fn write(rows: &Rows, out: &mut dyn Write) -> io::Result<()> {
    let totals = rows.totals();
    let most = |of: fn(&Total) -> u64| totals.iter().map(of).max().unwrap_or(0);
    let resident: fn(&Total) -> u64 = |it| it.resident_bytes;
    let scale = Scale {
        seconds: totals.last().map_or(1.0, |last| last.seconds.max(1e-6)),
        bytes: (most(|it| it.most_live_bytes).max(most(resident)).max(1)) as f64,
    };
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">"
    )?;
    writeln!(out, "{MARK}")?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
    for line in 0..=LINES {
        let part = f64::from(line) / f64::from(LINES);
        let (value, time) = (scale.bytes * part, scale.seconds * part);
        let (x, y) = (scale.x(time), scale.y(value));
        let (right, below) = (WIDTH - RIGHT, HEIGHT - BOTTOM + 18.0);
        writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        )?;
        let label = bytes(value as u64);
        text(out, LEFT - 8.0, y + 4.0, "end", &label)?;
        text(out, x, below, "middle", &duration(time * 1e6))?;
    }
    for (name, seconds) in rows.marks.iter().filter(|it| it.1 <= scale.seconds) {
        let (x, bottom) = (scale.x(*seconds), HEIGHT - BOTTOM);
        writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>"
        )?;
        text(out, x, TOP - 4.0, "middle", name)?;
    }
    let curves = [
        (points(&totals, resident), "#e08020", "resident", 0.0),
        (live_points(&totals), "#2060c0", "live", 90.0),
    ];
    for (points, colour, name, at) in curves.into_iter().skip(usize::from(!rows.has_resident)) {
        let points = points.iter().map(|&(seconds, value)| {
            format!("{:.1},{:.1}", scale.x(seconds), scale.y(value as f64))
        });
        let points: Vec<String> = points.collect();
        writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
            points.join(" ")
        )?;
        let x = LEFT + at;
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"4\" fill=\"{colour}\"/>"
        )?;
        text(out, x + 18.0, 16.0, "start", name)?;
    }
    if let Some(most) = totals.iter().max_by_key(|it| it.most_live_bytes) {
        let time = duration(most.most_seconds * 1e6);
        let words = format!("most live: {} at {time}", bytes(most.most_live_bytes));
        text(out, LEFT + 160.0, 16.0, "start", &words)?;
    }
    writeln!(out, "</svg>")
}

fn text(out: &mut dyn Write, x: f64, y: f64, anchor: &str, text: &str) -> io::Result<()> {
    let text = allotrope_text::shown(text);
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

/// The points of what is live, from 0: the most between two samples, and the samples. Of points closer than
/// a pixel the highest.
fn live_points(totals: &[Total]) -> Vec<(f64, u64)> {
    let mut points = vec![(0.0, 0)];
    let together = totals.len().div_ceil(MAX_POINTS).max(1);
    for some in totals.chunks(together) {
        let highest = some.iter().max_by_key(|it| it.most_live_bytes);
        points.extend(highest.map(|it| (it.most_seconds, it.most_live_bytes)));
        points.extend(some.last().map(|it| (it.seconds, it.live_bytes)));
    }
    points.dedup();
    points
}

/// The points of a curve from 0: of points closer than a pixel, the highest.
fn points(totals: &[Total], of: fn(&Total) -> u64) -> Vec<(f64, u64)> {
    let together = totals.len().div_ceil(MAX_POINTS).max(1);
    let highest = totals.chunks(together).filter_map(|some| {
        let highest = some.iter().max_by_key(|total| of(total))?;
        Some((highest.seconds, of(highest)))
    });
    std::iter::once((0.0, 0)).chain(highest).collect()
}
