//! Measures the cost of recording: runs each program plain, under Allotrope and
//! under heaptrack, alternating, in one session. `bench/run` builds and starts it.
//!
//! This is not a test: nothing passes or fails by time. Each measurement prints its
//! tables; with `--write` it also updates the tables and plots of `docs/benchmarks.md`.

mod aims;
mod contention;
mod document;
mod figures;
mod growth;
mod instructions;
mod job;
mod machine;
mod plots;
mod processes;
mod real_programs;
mod results;
mod row;
mod run;
mod server;
mod standard;
mod tables;
mod took;
mod tool;
mod watching;
mod workshop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Parser, Subcommand};

use contention::Contention;
use document::Document;
use growth::Growth;
use instructions::HotPath;
use results::{Archive, Results, Standard};
use row::Extent;
use run::Runner;
use standard::{Effort, Measured};
use tool::Tool;
use workshop::Workshop;

/// Measures what recording costs: plain, Allotrope and heaptrack, alternating.
#[derive(Debug, Parser)]
#[command(name = "bench/run")]
struct CommandLine {
    #[command(subcommand)]
    measurement: Option<Measurement>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// The programs that have aims, under each tool (this is the default)
    Standard,
    /// The cost of an allocation with one, two and four threads, and the
    /// system calls of a recording
    Threads,
    /// Instructions on the hot paths, counted by callgrind
    Instructions {
        /// Compare with another version: a commit, or a binary of the command
        #[arg(long, value_name = "VERSION")]
        against: Option<String>,
    },
    /// What watching costs: in standby, sampled, and tcmalloc's own sampling
    Watching,
    /// How the cost grows with depth, threads, stacks, live blocks and events
    Growth,
    /// One run of very many events: memory and trace must stay bounded
    Long {
        /// The number of events
        #[arg(long, default_value_t = 1_000_000_000)]
        events: u64,
    },
    /// Updates the document's tables and plots from the last measurements
    Render,
}

#[derive(Debug, Args)]
struct Options {
    /// Only rows or causes with this in their name (pair-20, churn, cc1plus, depth …)
    #[arg(long, global = true, value_name = "TEXT")]
    only: Option<String>,
    /// A functional check: a twentieth of the work, one run
    #[arg(long, global = true)]
    quick: bool,
    /// Runs of each tool, alternating [default: 5; 3 for growth and threads]
    #[arg(long, global = true, value_name = "N")]
    runs: Option<usize>,
    /// A tool gets no further runs of a row once its runs have taken this long
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 15)]
    a_tool: u64,
    /// A run that takes longer counts as failed
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 120)]
    time_limit: u64,
    /// Without heaptrack
    #[arg(long, global = true)]
    no_peer: bool,
    /// The command to measure [default: the one that `bench/run` built]
    #[arg(long, global = true, value_name = "PATH")]
    allotrope: Option<PathBuf>,
    /// Folder for results and for builds of other versions [default: cargo's target folder]
    #[arg(long, global = true, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write the tables and plots into docs/benchmarks.md
    #[arg(long, global = true, conflicts_with_all = ["quick", "only"])]
    write: bool,
}

fn main() -> Result<()> {
    let CommandLine {
        measurement,
        options,
    } = CommandLine::parse();
    let bench = Bench::new(options)?;
    match measurement.unwrap_or(Measurement::Standard) {
        Measurement::Standard => bench.standard(),
        Measurement::Threads => bench.threads(),
        Measurement::Instructions { against: None } => bench.instructions(),
        Measurement::Instructions {
            against: Some(version),
        } => bench.instructions_against(&version),
        Measurement::Watching => bench.watching(),
        Measurement::Growth => bench.growth(),
        Measurement::Long { events } => bench.long(events),
        Measurement::Render => bench.render(),
    }
}

struct Bench {
    options: Options,
    folder: PathBuf,
    archive: Archive,
    workshop: Workshop,
    allotrope: Tool,
}

impl Bench {
    fn new(options: Options) -> Result<Self> {
        let from_script = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let folder = options
            .folder
            .clone()
            .or_else(|| from_script("ALLOTROPE_BENCH_FOLDER"));
        let folder = folder.context("no folder for results: start bench/run, or give --folder")?;
        let command = options
            .allotrope
            .clone()
            .or_else(|| from_script("ALLOTROPE_BENCH_COMMAND"));
        let command =
            command.context("no command to measure: start bench/run, or give --allotrope")?;
        Ok(Self {
            archive: Archive::in_folder(&folder)?,
            workshop: Workshop::open()?,
            allotrope: Tool::allotrope(&command)?,
            folder,
            options,
        })
    }

    fn runner(&self, time_limit: u64) -> Runner<'_> {
        Runner {
            workshop: &self.workshop,
            time_limit,
        }
    }

    fn extent(&self) -> Extent {
        if self.options.quick {
            Extent::Quick
        } else {
            Extent::Full
        }
    }

    fn runs(&self, usual: usize) -> usize {
        self.options
            .runs
            .unwrap_or(if self.options.quick { 1 } else { usual })
    }

    fn wanted(&self, name: &str) -> bool {
        self.options
            .only
            .as_ref()
            .is_none_or(|text| name.contains(text.as_str()))
    }

    fn standard(&self) -> Result<()> {
        let effort = Effort {
            runs: self.runs(5),
            a_tool: Duration::from_secs(self.options.a_tool),
        };
        let mut tools = vec![Tool::Plain, self.allotrope.clone()];
        match Tool::heaptrack() {
            _ if self.options.no_peer => {}
            Ok(tool) => tools.push(tool),
            Err(error) => eprintln!("without heaptrack: {error:#}"),
        }
        let options = [self.allotrope.counting(), self.allotrope.free_stacks()];
        let options: Vec<Tool> = options.into_iter().flatten().collect();
        let runner = self.runner(self.options.time_limit);
        let (start, load_before) = (Instant::now(), machine::load());
        let mut rows = Vec::new();
        for row in row::rows(self.extent()) {
            if self.wanted(&row.name) {
                match standard::measure(&runner, (&tools, &options), &row, effort) {
                    Ok(measured) => rows.push(measured),
                    Err(error) => eprintln!("{}: not measured: {error:#}", row.name),
                }
            }
        }
        ensure!(!rows.is_empty(), "nothing was measured");
        let failures = rows
            .iter()
            .filter(|row| row.tools["allotrope"].failure.is_some())
            .count();
        let results = Standard {
            when: machine::when_and_what(),
            machine: machine::describe(),
            minutes: start.elapsed().as_secs_f64() / 60.0,
            load_before,
            load_after: machine::load(),
            rows,
        };
        println!("{}", tables::standard(&results));
        self.keep("standard", &results)?;
        ensure!(failures == 0, "Allotrope failed on {failures} rows");
        Ok(())
    }

    fn threads(&self) -> Result<()> {
        let runner = self.runner(self.options.time_limit);
        let results =
            Results::of(|| contention::contention(&runner, &self.allotrope, self.runs(3)))?;
        println!("{}", tables::contention(&results));
        self.keep("threads", &results)
    }

    fn instructions(&self) -> Result<()> {
        let results = Results::of(|| instructions::count(&self.workshop, &self.allotrope))?;
        println!("{}", tables::instructions(&results));
        self.keep("instructions", &results)
    }

    fn instructions_against(&self, version: &str) -> Result<()> {
        let other = instructions::other_version(version, &self.folder)?;
        let before = instructions::count(&self.workshop, &other)?;
        let now = instructions::count(&self.workshop, &self.allotrope)?;
        println!("{}", tables::instructions_against(&now, &before, version));
        Ok(())
    }

    fn watching(&self) -> Result<()> {
        let effort = Effort {
            runs: self.runs(7),
            a_tool: Duration::from_secs(self.options.a_tool.max(60)),
        };
        let runner = self.runner(self.options.time_limit);
        let rows = watching::rows(self.extent()).into_iter();
        let rows = rows.filter(|row| self.wanted(&row.name));
        let results = Results::of(|| watching::measure(&runner, &self.allotrope, rows, effort))?;
        println!("{}", watching::table(&results));
        self.keep("watching", &results)
    }

    fn growth(&self) -> Result<()> {
        let runner = self.runner(self.options.time_limit * 5);
        let causes = growth::causes(self.extent());
        let causes = causes.iter().filter(|cause| self.wanted(cause.name));
        let measure = |cause| growth::measure(&runner, &self.allotrope, cause, self.runs(3));
        let results = Results::of(|| causes.map(measure).collect::<Result<Vec<Growth>>>())?;
        println!("{}", tables::growth(&results));
        self.keep("growth", &results)
    }

    fn long(&self, events: u64) -> Result<()> {
        // An hour: the limit is for runs that never end, not for slow ones.
        let runner = self.runner(3600);
        let cause = growth::long_run(events);
        let results =
            Results::of(|| Ok(vec![growth::measure(&runner, &self.allotrope, &cause, 1)?]))?;
        println!("{}", tables::growth(&results));
        self.keep("long", &results)
    }

    /// Stores the results, unless only a part was measured or the extent was quick.
    fn keep<T: serde::Serialize>(&self, name: &str, results: &T) -> Result<()> {
        if self.options.quick || self.options.only.is_some() {
            return Ok(());
        }
        self.archive.keep(name, results)?;
        if self.options.write {
            self.render()
        } else {
            Ok(())
        }
    }

    fn render(&self) -> Result<()> {
        let mut document = Document::open()?;
        let plots = document.plots();
        std::fs::create_dir_all(&plots)?;
        let drawn = |error: Box<dyn std::error::Error>| anyhow!("cannot draw: {error}");
        if let Some(results) = self.archive.last::<Standard>("standard")? {
            document.set("standard", &tables::standard(&results))?;
            plots::ratios(&results.rows, &plots.join("ratios.svg")).map_err(drawn)?;
        }
        if let Some(results) = self.archive.last::<Results<Contention>>("threads")? {
            document.set("threads", &tables::contention(&results))?;
        }
        if let Some(results) = self.archive.last::<Results<Vec<HotPath>>>("instructions")? {
            document.set("instructions", &tables::instructions(&results))?;
        }
        if let Some(results) = self.archive.last::<Results<Vec<Measured>>>("watching")? {
            document.set("watching", &watching::table(&results))?;
        }
        for name in ["growth", "long"] {
            let Some(results) = self.archive.last::<Results<Vec<Growth>>>(name)? else {
                continue;
            };
            document.set(name, &tables::growth(&results))?;
            for growth in &results.measured {
                let path = plots.join(&growth.name).with_extension("svg");
                plots::growth(growth, &path).map_err(drawn)?;
            }
        }
        document.save()
    }
}
