//! Draws the frames as SVG: the outermost at the bottom, each as wide as its share. A script in it
//! (`zoom.js`) enlarges the frame that is clicked and searches for names; without it the picture
//! is whole.

use std::io::{self, Write};

use super::{Colour, Frame, MARK, Picture, Words};
use crate::numbers::count;

const SCRIPT: &str = include_str!("zoom.js");

/// Width of the image, of its margins, and height of a frame, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const HEIGHT: usize = 16;
/// Height of the title and the line below it; of what is below the frames.
const ABOVE: usize = 66;
const BELOW: usize = 30;
/// Width of a character of a label.
const CHARACTER: f64 = 7.0;
/// A frame without room for so many characters has no label.
const MIN_LABEL: usize = 3;

/// Writes the picture.
pub(super) fn write(picture: &Picture, words: &Words<'_>, out: &mut dyn Write) -> io::Result<()> {
    let depth = picture.frames.iter().map(|it| it.depth).max().unwrap_or(0);
    let height = ABOVE + (depth + 1) * HEIGHT + BELOW;
    let middle = WIDTH / 2.0;
    writeln!(
        out,
        r##"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" onload="begin()"><!--NOTES: {MARK}-->
<style>text{{font:12px monospace}}#frames g{{cursor:pointer}}#frames text{{pointer-events:none}}.command{{cursor:pointer}}.found rect{{fill:#e600e6}}</style>
<script><![CDATA[{SCRIPT}]]></script>
<rect width="100%" height="100%" fill="#f8f8f8"/>
<text x="{middle}" y="24" text-anchor="middle" style="font-size:17px">{title}</text>
<text x="{middle}" y="42" text-anchor="middle" fill="#555">{about}</text>
<text id="whole" class="command" x="{MARGIN}" y="24" visibility="hidden">Whole</text>
<text id="search" class="command" x="{right}" y="24" text-anchor="end">Search</text>
<text id="found" x="{right}" y="{bottom}" text-anchor="end"> </text>
<g id="frames" total_samples="{whole}">"##,
        whole = picture.whole,
        title = Escaped(words.title),
        about = Escaped(words.about),
        right = WIDTH - MARGIN,
        bottom = height - BELOW / 3,
    )?;
    let is_nothing = picture.frames.is_empty();
    let all = Frame {
        depth: 0,
        start: 0,
        width: picture.whole,
        label: match is_nothing {
            true => picture.none.clone(),
            false => "all".to_owned(),
        },
        colour: Colour(240, 240, 240),
    };
    let scale = (WIDTH - 2.0 * MARGIN) / picture.whole.max(1) as f64;
    for frame in std::iter::once(&all).chain(&picture.frames) {
        let x = MARGIN + frame.start as f64 * scale;
        let wide = match is_nothing {
            true => WIDTH - 2.0 * MARGIN,
            false => frame.width as f64 * scale,
        };
        let y = ABOVE + (depth - frame.depth) * HEIGHT;
        let share = frame.width as f64 * 100.0 / picture.whole.max(1) as f64;
        let Colour(red, green, blue) = frame.colour;
        writeln!(
            out,
            r#"<g><title>{label} ({figure} {unit}, {share:.2}%)</title><rect x="{x:.2}" y="{y}" width="{wide:.2}" height="{high}" fill="rgb({red},{green},{blue})"/><text x="{text:.2}" y="{base}">{short}</text></g>"#,
            label = Escaped(&frame.label),
            figure = count(frame.width),
            unit = words.unit,
            high = HEIGHT - 1,
            text = x + 3.0,
            base = y + HEIGHT - 4,
            short = Escaped(&short(&frame.label, wide)),
        )?;
    }
    writeln!(out, "</g>\n</svg>")
}

/// A label in so many pixels.
fn short(label: &str, wide: f64) -> String {
    let room = ((wide - 6.0) / CHARACTER) as usize;
    if label.chars().nth(room).is_none() {
        return label.to_owned();
    }
    if room < MIN_LABEL {
        return String::new();
    }
    label.chars().take(room - 1).chain(['…']).collect()
}

/// Text as XML has it.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        for c in self.0.chars() {
            match c {
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '&' => out.write_str("&amp;")?,
                '"' => out.write_str("&quot;")?,
                // XML has no such characters.
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    out.write_char('\u{fffd}')?;
                }
                c => out.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_to_their_frames() {
        for (wide, text) in [
            (100.0, "function"),
            (55.0, "functi…"),
            (28.0, "fu…"),
            (20.0, ""),
            (0.0, ""),
        ] {
            assert_eq!(short("function", wide), text, "{wide}");
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            Escaped("a<b>&\"c\"\u{1b}").to_string(),
            "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}"
        );
    }
}
