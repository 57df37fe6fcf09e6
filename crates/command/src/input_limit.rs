//! `--input-limit`: how much one file may cost. All commands that read files have it.

use allotrope_formats::Limits;

use crate::values;

/// The option.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct InputLimit {
    /// Take at most SIZE of memory for files
    ///
    /// A file is read only if it has at most SIZE of unpacked data, and 10 million frames a GiB;
    /// names that are longer together than an eighth of SIZE stay mangled. The command takes at
    /// most SIZE of memory, and writes at most so much; for large files 128 times their size.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = values::size,
          hide_short_help = true)]
    input_limit: u64,
}

impl InputLimit {
    /// SIZE.
    pub fn bytes(self) -> u64 {
        self.input_limit
    }

    /// The limits that follow from it.
    pub fn limits(self) -> Limits {
        Limits::of_input(self.input_limit)
    }
}
