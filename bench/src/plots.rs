//! Draws the plots of `docs/benchmarks.md` as SVG files.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figures::{Median, count};
use crate::growth::{Growth, Point};
use crate::job::Figure;
use crate::row::Aim;
use crate::standard::Measured;

type Drawn = Result<(), Box<dyn Error>>;

const OURS: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const PEER: RGBColor = RGBColor(0xd6, 0x6a, 0x1e);
const THIRD: RGBColor = RGBColor(0x2c, 0x8a, 0x4b);
const GREY: RGBColor = RGBColor(0xc8, 0xc8, 0xc8);
const FONT: &str = "sans-serif";
/// Length of the vertical axis relative to the highest point: the legend is above it.
const HEADROOM: f64 = 1.45;

/// Time as a multiple of the plain time: a dot per tool, a line for its spread, and a
/// vertical tick for the aim.
pub fn ratios(rows: &[Measured], path: &Path) -> Drawn {
    let rows: Vec<&Measured> = rows
        .iter()
        .filter(|row| row.times("allotrope").is_some())
        .collect();
    let highest = rows
        .iter()
        .flat_map(|row| ["allotrope", "heaptrack"].map(|tool| slowdown(row, tool)))
        .flatten()
        .fold(2.0, |highest: f64, median| highest.max(median.greatest));
    let height = 70 + 24 * rows.len() as u32;
    let area = SVGBackend::new(path, (900, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let lines = rows.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(36)
        .y_label_area_size(330)
        .build_cartesian_2d((0.7..highest * 1.1).log_scale(), 0.0..lines)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY)
        .y_labels(0)
        .x_desc("times the plain program's time (logarithmic): blue Allotrope, orange heaptrack, black line the aim")
        .x_label_formatter(&|times| format!("{times}×"))
        .label_style((FONT, 13))
        .draw()?;
    for (index, row) in rows.iter().enumerate() {
        let y = lines - index as f64 - 0.5;
        let at = chart.backend_coord(&(0.7, y));
        let style =
            TextStyle::from((FONT, 13).into_font()).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(row.what.clone(), (at.0 - 8, at.1), style))?;
        for (tool, colour) in [("heaptrack", PEER), ("allotrope", OURS)] {
            let Some(median) = slowdown(row, tool) else {
                continue;
            };
            let spread = [(median.least, y), (median.greatest, y)];
            chart.draw_series(LineSeries::new(spread, colour.stroke_width(2)))?;
            chart.draw_series([Circle::new((median.middle, y), 5, colour.filled())])?;
        }
        if row
            .tools
            .get("heaptrack")
            .is_some_and(|runs| runs.failure.is_some())
        {
            let style = (FONT, 12)
                .into_font()
                .color(&PEER)
                .pos(Pos::new(HPos::Right, VPos::Center));
            chart.draw_series([Text::new("heaptrack failed", (highest, y), style)])?;
        }
        if let Some(aim) = aim_as_times(row) {
            chart.draw_series(LineSeries::new(
                [(aim, y - 0.4), (aim, y + 0.4)],
                BLACK.stroke_width(2),
            ))?;
        }
    }
    area.present()?;
    Ok(())
}

fn slowdown(row: &Measured, tool: &str) -> Option<Median> {
    row.against_plain(tool, |ours, plain| match row.figure {
        Figure::Requests => plain.figure / ours.figure,
        _ => ours.figure / plain.figure,
    })
}

fn aim_as_times(row: &Measured) -> Option<f64> {
    Some(match row.aim? {
        Aim::Over(most) => 1.0 + most / row.median("plain", |sample| sample.figure)?.middle,
        Aim::Times(most) => most,
        Aim::Part(least) => 1.0 / least,
    })
}

/// A line of a growth plot.
struct Line {
    name: &'static str,
    colour: RGBColor,
    of: fn(&Point) -> f64,
}

/// One of the four charts of a growth plot.
struct Panel {
    title: &'static str,
    lines: &'static [Line],
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "CPU while recording, ns an allocation",
        lines: &[
            Line {
                name: "program, beyond plain",
                colour: OURS,
                of: |point| point.over.middle,
            },
            Line {
                name: "collector",
                colour: PEER,
                of: |point| point.collector,
            },
        ],
    },
    Panel {
        title: "memory while recording, MiB",
        lines: &[
            Line {
                name: "program, beyond plain",
                colour: OURS,
                of: |point| point.target_mib,
            },
            Line {
                name: "collector",
                colour: PEER,
                of: |point| point.collector_mib,
            },
        ],
    },
    Panel {
        title: "reading, ns an allocation",
        lines: &[Line {
            name: "allotrope report",
            colour: THIRD,
            of: |point| point.report,
        }],
    },
    Panel {
        title: "memory of reading, MiB",
        lines: &[Line {
            name: "allotrope report",
            colour: THIRD,
            of: |point| point.report_mib,
        }],
    },
];

/// Four charts over the values of the cause: time on the left, memory on the right,
/// recording above, reading below.
pub fn growth(growth: &Growth, path: &Path) -> Drawn {
    let area = SVGBackend::new(path, (900, 540)).into_drawing_area();
    area.fill(&WHITE)?;
    for (part, of) in area.split_evenly((2, 2)).iter().zip(&PANELS) {
        panel(part, growth, of)?;
    }
    area.present()?;
    Ok(())
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, growth: &Growth, panel: &Panel) -> Drawn {
    let values = growth.points.iter().map(|point| point.value as f64);
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    let highest = growth
        .points
        .iter()
        .flat_map(|point| panel.lines.iter().map(|line| (line.of)(point)))
        .fold(1.0, f64::max);
    // A logarithmic axis for causes with a wide range. Depth and threads have a linear
    // axis, on which proportional growth is a straight line.
    if most / least > 300.0 {
        draw(area, growth, panel, (least..most).log_scale(), highest)
    } else {
        draw(area, growth, panel, least.min(0.0)..most, highest)
    }
}

fn draw<X>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    growth: &Growth,
    panel: &Panel,
    x: impl AsRangedCoord<CoordDescType = X, Value = f64>,
    highest: f64,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .caption(panel.title, (FONT, 15))
        .x_label_area_size(34)
        .y_label_area_size(48)
        .build_cartesian_2d(x, 0.0..highest * HEADROOM)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY)
        .x_labels(6)
        .y_labels(6)
        .x_desc(growth.name.as_str())
        .x_label_formatter(&|value| count(value.round() as u64))
        .y_label_formatter(&|value| format!("{}", (value * 10.0).round() / 10.0))
        .label_style((FONT, 12))
        .draw()?;
    for line in panel.lines {
        let points: Vec<(f64, f64)> = growth
            .points
            .iter()
            .map(|point| (point.value as f64, (line.of)(point).max(0.0)))
            .collect();
        let colour = line.colour;
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                colour.stroke_width(2),
            ))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(
            points
                .iter()
                .map(|point| Circle::new(*point, 3, colour.filled())),
        )?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}
