//! Colour and width of text on the standard output, and the option `--color`.

use std::io::{self, IsTerminal};

use allotrope_report::Style;

/// Width of the text, in columns, if the standard output is no terminal.
const WIDTH_ELSEWHERE: usize = 100;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The columns of the standard output, if the user wants a width or it is a terminal.
pub fn columns() -> Option<usize> {
    let is_wanted = std::env::var_os("COLUMNS").is_some_and(|it| !it.is_empty());
    (is_wanted || io::stdout().is_terminal()).then(|| style(Color::Never).width)
}

/// Colour and width of text on the standard output.
pub fn style(color: Color) -> Style {
    let output = io::stdout();
    // https://no-color.org: set and not empty.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    // As POSIX has it for every utility: the user's wish, before the terminal's width.
    let wanted = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let width = wanted.filter(|&columns| columns > 0).unwrap_or_else(|| {
        terminal_size::terminal_size_of(&output)
            .map_or(WIDTH_ELSEWHERE, |(width, _)| usize::from(width.0))
    });
    Style {
        color: match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => output.is_terminal() && !refused && !dumb,
        },
        width,
    }
}
