//! Arguments of `allotrope completions` and `allotrope man`.

use std::path::PathBuf;

use clap_complete::Shell;

/// Arguments of `allotrope completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArguments {
    /// The shell to write the script for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `allotrope man`.
#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// Write this page and one for each subcommand into FOLDER
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}
