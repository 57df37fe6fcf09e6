//! The option `--glue`, which several commands have: more frames that are not the
//! user's own code.

use std::path::Path;

use allotrope_attribution::Glue;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, Failure, WithStatus};

/// What `--glue` was given.
#[derive(Debug, Default, clap::Args)]
pub struct GlueArguments {
    /// Treat more frames as not your own code
    ///
    /// PATTERN is a function (`mylib::*`), a module and a function (`libbase.so* *`) or a part of
    /// a source file's path (`file:third_party/`); FILE has one of these per line.
    #[arg(long = "glue", value_name = "PATTERN|FILE", hide_short_help = true)]
    patterns: Vec<String>,
}

impl GlueArguments {
    /// The built-in patterns and these.
    pub fn read(&self) -> Result<Glue, Failure> {
        let mut glue = Glue::default();
        self.add_to(&mut glue)?;
        Ok(glue)
    }

    /// Whether there are any.
    pub fn is_given(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Adds these to the patterns of `glue`.
    pub fn add_to(&self, glue: &mut Glue) -> Result<(), Failure> {
        for pattern in &self.patterns {
            let path = Path::new(pattern);
            if !path.is_file() && !pattern.ends_with(".txt") {
                let added = glue.add(pattern);
                added.map_err(|error| Failure::new(BAD_INPUT, anyhow!("--glue: {error}")))?;
                continue;
            }
            let name = path.shown();
            let list = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the glue list {name}"))
                .status(BAD_INPUT)?;
            let added = glue.add(&list);
            added.map_err(|error| Failure::new(BAD_INPUT, anyhow!("{name}: {error}")))?;
        }
        Ok(())
    }
}
