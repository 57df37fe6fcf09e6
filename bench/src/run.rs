//! One measured run: a program under a tool, then the tool's reader over what
//! it left.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::job::{Figure, Job};
use crate::processes::Processes;
use crate::server;
use crate::took::Took;
use crate::tool::Tool;
use crate::workshop::{Linked, Workshop};

/// How often a tool's processes are looked at: often enough to see them grow,
/// seldom enough to cost nothing.
const LOOK: Duration = Duration::from_millis(25);

/// What one run gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// The job's figure, in its unit.
    pub figure: f64,
    /// The program, start to exit, seconds.
    pub wall: f64,
    /// Processor time of the program, seconds.
    pub target_cpu: f64,
    /// Largest resident set of the program, KiB.
    pub target_peak_kib: u64,
    /// Processor time of everything else that the tool's command started.
    pub tool_cpu: f64,
    /// Largest resident set of one of those, KiB.
    pub tool_peak_kib: u64,
    /// From the program's exit to the end of the tool's command, seconds.
    pub finish: f64,
    /// Size of the trace; 0 for plain.
    pub trace_bytes: u64,
    /// What reading it took, if it was read.
    pub report: Option<Report>,
}

/// Reading a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Start to exit of the reader, seconds.
    pub wall: f64,
    /// Its largest resident set, KiB.
    pub peak_kib: u64,
    /// What the trace holds, where the reader says it in a form for programs.
    pub events: Option<Events>,
}

/// What a trace holds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Events {
    /// Allocations of all processes.
    pub allocations: u64,
    /// Deallocations of all processes.
    pub deallocations: u64,
}

impl Events {
    /// Both together.
    pub fn all(&self) -> u64 {
        self.allocations + self.deallocations
    }
}

/// Runs jobs.
pub struct Runner<'a> {
    pub workshop: &'a Workshop,
    /// Seconds that a run, and reading its trace, may take.
    pub time_limit: u64,
}

impl Runner<'_> {
    /// Runs `job` under `tool`; with `read`, its trace is read, too.
    pub fn run(&self, tool: &Tool, job: &Job, read: bool) -> Result<Sample> {
        let trace = self.workshop.path("trace");
        let sample = self.recorded(tool, job, &trace, read);
        for suffix in ["", ".zst", ".gz"] {
            let mut name = trace.clone().into_os_string();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
        sample
    }

    fn recorded(&self, tool: &Tool, job: &Job, trace: &Path, read: bool) -> Result<Sample> {
        let inner = self.workshop.path("inner");
        let _ = std::fs::remove_file(&inner);
        let mut command = tool.prefix(trace);
        command.push(self.workshop.launcher(tool.launcher())?.into());
        command.push(inner.clone().into());
        command.push(job.program.clone().into());
        command.extend(job.arguments.iter().cloned());
        let ran = self.launch(command, Some(job), tool.memory_limit())?;
        let target =
            Took::read(&inner).with_context(|| ran.words(&self.workshop.path("errors")))?;
        if let Some(failure) = target.failure().or(ran.took.failure()) {
            bail!("{failure}{}", ran.words(&self.workshop.path("errors")));
        }
        let figure = match job.figure {
            Figure::Wall => target.wall(),
            Figure::NanosecondsPrinted => self.printed()?,
            Figure::Requests => ran.requests.context("no client has used it")?,
        };
        let mut sample = Sample {
            figure,
            wall: target.wall(),
            target_cpu: target.processor.as_secs_f64(),
            target_peak_kib: target.peak_kib,
            tool_cpu: (ran.took.processor.saturating_sub(target.processor)).as_secs_f64(),
            tool_peak_kib: ran.tool_peak_kib,
            finish: ran.took.ended_after(&target),
            trace_bytes: 0,
            report: None,
        };
        if !matches!(tool, Tool::Plain) {
            let file = tool.trace(trace)?;
            sample.trace_bytes = file.metadata()?.len();
            if read {
                sample.report = self.report(tool, &file)?;
            }
        }
        Ok(sample)
    }

    /// The last line that the program printed, as a number.
    fn printed(&self) -> Result<f64> {
        let text = std::fs::read_to_string(self.workshop.path("output"))?;
        let line = text.lines().rev().find_map(|line| line.parse().ok());
        line.context("the program printed no figure")
    }

    /// Reads a trace.
    pub fn report(&self, tool: &Tool, trace: &Path) -> Result<Option<Report>> {
        let Some(command) = tool.report(trace) else {
            return Ok(None);
        };
        let ran = self.launch(command, None, tool.memory_limit())?;
        if let Some(failure) = ran.took.failure() {
            bail!(
                "reading the trace: {failure}{}",
                ran.words(&self.workshop.path("errors"))
            );
        }
        let events = match tool {
            Tool::Allotrope(_) => Some(events(&self.workshop.path("output"))?),
            _ => None,
        };
        Ok(Some(Report {
            wall: ran.took.wall(),
            peak_kib: ran.took.peak_kib,
            events,
        }))
    }

    /// Starts a command through the launcher and waits for its end.
    fn launch(
        &self,
        command: Vec<OsString>,
        job: Option<&Job>,
        memory: Option<u64>,
    ) -> Result<Ran> {
        let launcher = self.workshop.launcher(Linked::Statically)?;
        let outer = self.workshop.path("outer");
        let _ = std::fs::remove_file(&outer);
        let mut start = Command::new(&launcher);
        if let Some(bytes) = memory {
            start.arg("-m").arg(bytes.to_string());
        }
        start.arg(&outer).args(&command);
        start.current_dir(self.workshop.folder());
        start.stdin(match job.and_then(|job| job.input.as_ref()) {
            Some(path) => Stdio::from(File::open(path)?),
            None => Stdio::null(),
        });
        start.stdout(File::create(self.workshop.path("output"))?);
        start.stderr(File::create(self.workshop.path("errors"))?);
        start.envs(
            job.into_iter()
                .flat_map(|job| job.environment.iter().copied()),
        );
        // A group of its own: what hangs is ended with all that it started.
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut child = start.spawn().context("cannot start the launcher")?;
        let launchers = vec![launcher, self.workshop.launcher(Linked::Dynamically)?];
        let processes = Processes::below(child.id(), launchers);
        let client = job.and_then(|job| job.client.clone());
        let (watched, requests) = std::thread::scope(|scope| {
            let client = client.map(|client| scope.spawn(move || server::use_it(&client)));
            let watched = self.watch(&mut child, processes);
            let requests = client.map(|client| client.join().expect("the client does not panic"));
            (watched, requests)
        });
        let tool_peak_kib = watched?.largest_kib();
        Ok(Ran {
            took: Took::read(&outer)?,
            tool_peak_kib,
            requests: requests.transpose()?,
        })
    }

    /// Waits for the end of `child`, or brings it about.
    fn watch(&self, child: &mut Child, mut processes: Processes) -> Result<Processes> {
        let limit = Duration::from_secs(self.time_limit);
        let start = Instant::now();
        loop {
            if child.try_wait()?.is_some() {
                return Ok(processes);
            }
            if start.elapsed() > limit {
                end_group(child);
                bail!("not ended after {} s", self.time_limit);
            }
            processes.look();
            std::thread::sleep(LOOK);
        }
    }
}

/// A command that has ended.
struct Ran {
    took: Took,
    tool_peak_kib: u64,
    requests: Option<f64>,
}

impl Ran {
    /// What it said last on stderr, to be put behind a failure.
    fn words(&self, errors: &PathBuf) -> String {
        let text = std::fs::read(errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!(": {}", line.trim()),
            None => String::new(),
        }
    }
}

fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// The sums of a report in JSON.
fn events(report: &Path) -> Result<Events> {
    #[derive(Deserialize)]
    struct Document {
        processes: Vec<Process>,
    }
    #[derive(Deserialize)]
    struct Process {
        totals: Totals,
        lost_events: u64,
    }
    #[derive(Deserialize)]
    struct Totals {
        allocations: u64,
        deallocations: u64,
    }
    let file = std::io::BufReader::new(File::open(report)?);
    let document: Document = serde_json::from_reader(file).context("the report is no JSON")?;
    let lost: u64 = document
        .processes
        .iter()
        .map(|process| process.lost_events)
        .sum();
    ensure!(lost == 0, "{lost} events were lost");
    let totals = || document.processes.iter().map(|process| &process.totals);
    Ok(Events {
        allocations: totals().map(|totals| totals.allocations).sum(),
        deallocations: totals().map(|totals| totals.deallocations).sum(),
    })
}
