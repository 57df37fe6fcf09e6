//! The option `--suppressions`, which several commands have: leaks that are expected.

use std::path::PathBuf;

use allotrope_attribution::Suppressions;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, Failure, WithStatus};

/// What `--suppressions` was given.
#[derive(Debug, Default, clap::Args)]
pub struct SuppressionArguments {
    /// Expect the leaks that FILE lists
    ///
    /// FILE has the format of LeakSanitizer (`leak:PATTERN`). May be given several times.
    #[arg(long = "suppressions", value_name = "FILE", hide_short_help = true)]
    suppressions: Vec<PathBuf>,
}

impl SuppressionArguments {
    /// The built-in rules and these.
    pub fn read(&self) -> Result<Suppressions, Failure> {
        let mut suppressions = Suppressions::default();
        self.add_to(&mut suppressions)?;
        Ok(suppressions)
    }

    /// Whether there are any.
    pub fn is_given(&self) -> bool {
        !self.suppressions.is_empty()
    }

    /// Adds these to the rules of `suppressions`.
    pub fn add_to(&self, suppressions: &mut Suppressions) -> Result<(), Failure> {
        for file in &self.suppressions {
            let name = file.shown();
            let list = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the suppressions {name}"))
                .status(BAD_INPUT)?;
            let added = suppressions.add(&name, &list);
            added.map_err(|error| Failure::new(BAD_INPUT, anyhow!("{error}")))?;
        }
        Ok(())
    }
}
