//! `report`, `show` and `view` of stacks that another tool wrote: everything that `diff` reads.

use std::path::Path;

use allotrope_attribution::Attributed;
use allotrope_formats::{ExportOptions, Input, exporter};
use allotrope_profile::{Metric, Profile, StackSet};
use allotrope_reading::{Reader, Source};
use allotrope_report::Grouping;
use allotrope_report::text::{self, Imported, TextOptions};
use allotrope_text::{Shown, shown};
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::export;
use crate::glue::GlueArguments;
use crate::message;
use crate::pager::PagerArguments;
use crate::standard_output;

/// Stacks that another tool wrote.
pub struct Stacks {
    pub set: StackSet,
    profile: Profile,
    /// The name of the format.
    format: String,
    file: String,
}

impl Stacks {
    /// Reads the file if it is another tool's; `None` if it is a recording. Notes on its figures
    /// are printed.
    pub fn read(reader: &Reader, path: &Path) -> Result<Option<Self>, Failure> {
        let opened = Self::open(reader, path)?;
        Ok(opened.map(|(stacks, notes)| {
            notes.iter().for_each(message::print);
            stacks
        }))
    }

    /// The same; returns the notes.
    pub fn open(reader: &Reader, path: &Path) -> Result<Option<(Self, Vec<String>)>, Failure> {
        let Some(source) = reader.foreign(path)? else {
            return Ok(None);
        };
        let Source {
            set, format, notes, ..
        } = source;
        let stacks = Self {
            profile: set.to_profile(),
            format: format.map(|it| it.to_string()).unwrap_or_default(),
            file: path.shown().into_owned(),
            set,
        };
        Ok(Some((stacks, notes)))
    }

    /// The name of the format.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// The stacks as a profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Fails if an option is given that needs more than sums.
    pub fn refuse(&self, options: &[(bool, &str)]) -> Result<(), Failure> {
        let Some((_, option)) = options.iter().find(|(is_given, _)| *is_given) else {
            return Ok(());
        };
        let sentence = anyhow!(
            "{} is {}, which has sums of stacks and neither times nor single blocks; leave {option} out",
            self.file,
            self.format
        );
        Err(Failure::new(BAD_INPUT, sentence))
    }

    /// The wanted metric; fails if the file does not have it.
    pub fn metric(&self, wanted: Option<Metric>) -> Result<Option<Metric>, Failure> {
        let Some(metric) = wanted else {
            return Ok(None);
        };
        if self.set.known.has(metric) {
            return Ok(Some(metric));
        }
        let known = Metric::OFFERED.into_iter();
        let known: Vec<&str> = (known.filter(|&it| self.set.known.has(it)))
            .map(Metric::name)
            .collect();
        let sentence = anyhow!(
            "{} is {}, which does not have {}; choose of: {}",
            self.file,
            self.format,
            metric.words(),
            known.join(", ")
        );
        Err(Failure::new(BAD_INPUT, sentence))
    }

    /// The metric of something that has only one: the wanted one, or the first that is known.
    pub fn one_metric(&self, wanted: Option<Metric>) -> Result<Metric, Failure> {
        let known = Metric::OFFERED.into_iter();
        let first = known.clone().find(|&it| self.set.known.has(it));
        Ok(self
            .metric(wanted)?
            .or(first)
            .unwrap_or(Metric::Allocations))
    }

    fn imported<'a>(&'a self, attributed: &'a Attributed<'a>) -> Imported<'a> {
        Imported {
            attributed,
            title: &self.set.title,
            file: &self.file,
            format: &self.format,
        }
    }

    /// Prints lists of stacks, or a list by function or module.
    pub fn print(
        &self,
        glue: &GlueArguments,
        grouping: Option<Grouping>,
        options: TextOptions,
        pager: PagerArguments,
    ) -> Result<(), Failure> {
        let attributed = Attributed::new(&self.profile, &glue.read()?);
        let imported = self.imported(&attributed);
        let options = TextOptions {
            known: self.set.known,
            ..options
        };
        pager.print(|out| match grouping {
            Some(grouping) => text::write_imported_by(&imported, grouping, &options, out),
            None => text::write_imported(&imported, &options, out),
        })
    }

    /// Prints all stacks as JSON, `allotrope-stacks/1`.
    pub fn print_json(&self) -> Result<(), Failure> {
        let exporter = exporter("json")
            .context("there is no exporter of JSON")
            .status(FAILED)?;
        let input = Input {
            set: &self.set,
            recorded: None,
            samples: None,
        };
        let options = ExportOptions {
            metric: Metric::Allocations,
            all_frames: false,
        };
        standard_output::print(|out| export::write(exporter, &input, &options, out))
    }

    /// Prints a site (`site:7`), or the sites with a function in their stacks, in full.
    pub fn show(
        &self,
        what: Option<&str>,
        glue: &GlueArguments,
        options: TextOptions,
        pager: PagerArguments,
    ) -> Result<u8, Failure> {
        let Some(what) = what else {
            self.print(glue, None, options, pager)?;
            return Ok(FINE);
        };
        if what.parse::<u64>().is_ok() {
            let sentence = anyhow!(
                "{} is {}, which has no findings, for it has no times; name a site (site:1) or a function",
                self.file,
                self.format
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        let site = what
            .strip_prefix("site:")
            .or_else(|| what.strip_prefix('#'));
        let (title, numbers) = match site {
            Some(number) => {
                let number = number.parse().unwrap_or(0);
                let site = self.profile.site(number);
                let number = site.map(|(_, site)| site.number);
                let title = format!("Site {}", number.unwrap_or_default());
                (title, Vec::from_iter(number))
            }
            None => (what.to_owned(), self.with_function(what)),
        };
        if numbers.is_empty() {
            let sentence = anyhow!(
                "there is no site or function '{}' in {}, which has {} sites; allotrope report lists them",
                shown(what),
                self.file,
                self.set.stacks.len()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        let attributed = Attributed::new(&self.profile, &glue.read()?);
        let imported = self.imported(&attributed);
        let options = TextOptions {
            known: self.set.known,
            ..options
        };
        pager
            .print(|out| text::write_imported_sites(&imported, &title, &numbers, &options, out))?;
        Ok(FINE)
    }

    /// The sites with a frame of this function, or of one with this in its name.
    fn with_function(&self, name: &str) -> Vec<u32> {
        let frames = &self.profile.frames;
        let with = |matches: &dyn Fn(&str) -> bool| -> Vec<u32> {
            let is_wanted = |frame: &u32| {
                let frame = frames.get(*frame as usize);
                frame.is_some_and(|frame| matches(&frame.function))
            };
            let sites = self.profile.processes.iter().flat_map(|it| &it.sites);
            sites
                .filter(|site| site.stack.iter().any(is_wanted))
                .map(|site| site.number)
                .collect()
        };
        match with(&|function| function == name) {
            none if none.is_empty() => with(&|function| function.contains(name)),
            found => found,
        }
    }
}
