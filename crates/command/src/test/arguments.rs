//! Arguments of `allotrope test`.

use std::path::PathBuf;

use allotrope_budget::configuration::FILE_NAME;
use allotrope_budget::outputs::nio::Generation;
use allotrope_budget::outputs::{self, Form};

use crate::cargo_tests::CargoArguments;
use crate::glue::GlueArguments;
use crate::replacing::{ForceArguments, Kind};
use crate::style::Color;
use crate::suppressions::SuppressionArguments;
use crate::values;

/// Arguments of `allotrope test`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run only tests or cases (TEST/WINDOW) with these names
    ///
    /// `*` stands for anything. With --init: a program and its arguments (after `--`) that the
    /// first test is to run.
    #[arg(value_name = "TEST")]
    pub tests: Vec<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    pub config: PathBuf,
    /// Measure N runs of each test
    ///
    /// Whatever the configuration says.
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1..=10_000))]
    pub runs: Option<u32>,
    /// Accept the measured numbers: write them as the new budgets
    #[arg(long, conflicts_with_all = ["no_record", "from_log"])]
    pub accept: bool,
    /// Store REASON beside the numbers that change
    #[arg(long, requires = "accept", value_name = "REASON", value_parser = reason)]
    pub because: Option<String>,
    /// With --accept: accept only numbers that fell
    ///
    /// Refuses those that rose or are new (status 3).
    #[arg(long, requires = "accept")]
    pub only_improvements: bool,
    /// Accept them for this platform only
    #[arg(long, requires = "accept")]
    pub this_platform: bool,
    /// Use the budgets of the platform NAME
    #[arg(long, value_name = "NAME")]
    pub platform: Option<String>,
    /// The format to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Write a file, too
    ///
    /// Such as `junit=report.xml`. May be given several times.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_write)]
    pub write: Vec<(Format, PathBuf)>,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Show all stacks and frames
    ///
    /// Records them even if the configuration has counts-only.
    #[arg(long)]
    pub stacks: bool,
    /// Show every run's numbers, and what differs between them
    #[arg(long)]
    pub samples: bool,
    /// Show at most N entries that explain a number
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u32>(1..))]
    pub top: u32,
    #[command(flatten)]
    pub glue: GlueArguments,
    #[command(flatten)]
    pub suppressions: SuppressionArguments,
    /// Do not run the build command
    #[arg(long)]
    pub no_build: bool,
    /// Run the tests without recording them
    ///
    /// So that another tool can watch them.
    #[arg(long, hide_short_help = true)]
    pub no_record: bool,
    /// Take the budgets from a log of SwiftNIO's allocation counter tests or its thresholds
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub from_log: Option<PathBuf>,
    /// Put recordings into FOLDER and leave them there
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub scratch: Option<PathBuf>,
    /// Remove the budgets of tests that are in no configuration of this folder, and run nothing
    #[arg(long, conflicts_with_all = ["accept", "no_record", "from_log"], hide_short_help = true)]
    pub prune: bool,
    /// Give the accepted numbers of a test, or of one of its cases, another name
    #[arg(long, hide_short_help = true, num_args = 2, value_names = ["OLD", "NEW"],
          conflicts_with_all = ["tests", "accept", "prune", "no_record", "from_log"])]
    pub rename: Option<Vec<String>>,
    /// Show how the accepted numbers of TEST have changed
    ///
    /// Commits, authors and reasons; as text or JSON (allotrope-history/1).
    #[arg(long, value_name = "TEST", conflicts_with_all = ["tests", "accept", "prune", "rename"])]
    pub history: Option<String>,
    /// List the tests
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub cargo: CargoArguments,
    /// Write an allotrope.toml to start from
    ///
    /// With the tests that Cargo, CTest or Meson list.
    #[arg(long)]
    pub init: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    pub color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs (allotrope-test/1)
    Json,
    /// For CI systems
    Junit,
    /// For a comment or a job's summary
    Markdown,
    /// The text and annotations for GitHub's workflows
    Github,
    /// The log of SwiftNIO's allocation counter tests
    Nio,
    /// The log of their newer version, with file descriptors
    NioNewer,
}

impl Format {
    /// Its files.
    pub fn kind(self) -> Kind<'static> {
        const fn kind(is_own: &'static dyn Fn(&[u8]) -> bool) -> Kind<'static> {
            Kind {
                what: "earlier report of `allotrope test` in this format",
                is_own,
            }
        }
        match self {
            Self::Text => kind(&|head| outputs::is_own(Form::Text, head)),
            Self::Json => kind(&|head| outputs::is_own(Form::Json, head)),
            Self::Junit => kind(&|head| outputs::is_own(Form::Junit, head)),
            Self::Markdown => kind(&|head| outputs::is_own(Form::Markdown, head)),
            Self::Github => kind(&|head| outputs::is_own(Form::Github, head)),
            Self::Nio | Self::NioNewer => {
                kind(&|head| outputs::is_own(Form::Nio(Generation::Structures), head))
            }
        }
    }
}

impl From<Format> for Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Junit => Self::Junit,
            Format::Markdown => Self::Markdown,
            Format::Github => Self::Github,
            Format::Nio => Self::Nio(Generation::Dictionaries),
            Format::NioNewer => Self::Nio(Generation::Structures),
        }
    }
}

/// Refuses the place of a reason in a command that a log proposes.
fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" | "…" => Err("write the reason, such as \"caches the header\"".to_owned()),
        reason => Ok(reason.to_owned()),
    }
}

fn parse_write(text: &str) -> Result<(Format, PathBuf), String> {
    let (format, file) = text
        .split_once('=')
        .ok_or("write it as FORMAT=FILE, for example junit=report.xml")?;
    let format = <Format as clap::ValueEnum>::from_str(format, false)?;
    Ok((format, file.into()))
}
