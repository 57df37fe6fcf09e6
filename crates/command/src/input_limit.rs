//! `--input-limit`: how much one file may cost. All commands that read files have it.

use allotrope_formats::Limits;

use crate::values;

/// The option.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct InputLimit {
    /// Read a file only if it has at most SIZE of unpacked data, and 10 million frames a GiB;
    /// names that are longer together than an eighth of SIZE stay mangled. Take at most SIZE of
    /// memory, and write at most so much; for large files 128 times their size
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = values::size)]
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
