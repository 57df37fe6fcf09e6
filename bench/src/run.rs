//! One measured run: runs a program under a tool, then the tool's reader on the trace.

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
use crate::server::{self, Requests};
use crate::took::Took;
use crate::tool::Tool;
use crate::workshop::{Linked, Workshop};

/// Interval at which the memory of a tool's processes is sampled: short enough to
/// observe their growth, and long enough to cost next to nothing.
const SAMPLING_INTERVAL: Duration = Duration::from_millis(25);

/// The results of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// The job's figure, in its unit.
    pub figure: f64,
    /// Time of the program from start to exit, seconds.
    pub wall: f64,
    /// CPU time of the program, seconds.
    pub target_cpu: f64,
    /// Requests that it answered, if it is a server.
    pub requests: Option<f64>,
    /// Peak resident set of the program, KiB.
    pub target_peak_kib: u64,
    /// CPU time of all other processes that the tool's command started, seconds.
    pub tool_cpu: f64,
    /// Largest peak resident set of one of those, KiB.
    pub tool_peak_kib: u64,
    /// Time from the program's exit to the end of the tool's command, seconds.
    pub finish: f64,
    /// Size of the trace in bytes; 0 for plain.
    pub trace_bytes: u64,
    /// The cost of reading the trace, if it was read.
    pub report: Option<Report>,
}

/// The cost of reading a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Time of the reader from start to exit, seconds.
    pub wall: f64,
    /// Peak of the resident set, in KiB.
    pub peak_kib: u64,
    /// The events in the trace, if the reader prints them as JSON.
    pub events: Option<Events>,
}

/// The number of events in a trace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Events {
    /// Allocations of all processes.
    pub allocations: u64,
    /// Deallocations of all processes.
    pub deallocations: u64,
}

impl Events {
    /// The sum of both.
    pub fn all(&self) -> u64 {
        self.allocations + self.deallocations
    }
}

/// Runs jobs and measures them.
pub struct Runner<'a> {
    pub workshop: &'a Workshop,
    /// Time limit of a run, and of reading its trace, in seconds.
    pub time_limit: u64,
}

impl Runner<'_> {
    /// Runs `job` under `tool`; with `read`, measures reading the trace, too.
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
        let target = Took::read(&inner)
            .with_context(|| ran.last_error_line(&self.workshop.path("errors")))?;
        if let Some(failure) = target.failure().or(ran.took.failure()) {
            bail!(
                "{failure}{}",
                ran.last_error_line(&self.workshop.path("errors"))
            );
        }
        let figure = match job.figure {
            Figure::Wall => target.wall(),
            Figure::NanosecondsPrinted => self.printed()?,
            Figure::Requests => ran.requests.context("it had no client")?.rate,
        };
        let mut sample = Sample {
            figure,
            wall: target.wall(),
            target_cpu: target.processor.as_secs_f64(),
            requests: ran.requests.map(|it| it.number),
            target_peak_kib: target.peak_kib,
            tool_cpu: (ran.took.processor.saturating_sub(target.processor)).as_secs_f64(),
            tool_peak_kib: ran.tool_peak_kib,
            finish: ran.took.ended_after(&target),
            trace_bytes: 0,
            report: None,
        };
        if tool.records() {
            let file = tool.trace(trace)?;
            sample.trace_bytes = file.metadata()?.len();
            if read {
                sample.report = self.report(tool, &file)?;
            }
        }
        Ok(sample)
    }

    /// The last line of the program's output that is a number.
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
                ran.last_error_line(&self.workshop.path("errors"))
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

    /// Starts a command through the launcher, and waits for its end.
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
        // A process group of its own, so that a command that hangs can be killed with
        // all its children.
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut child = start.spawn().context("cannot start the launcher")?;
        let launchers = vec![launcher, self.workshop.launcher(Linked::Dynamically)?];
        let processes = Processes::below(child.id(), launchers);
        let client = job.and_then(|job| job.client.clone());
        let folder = self.workshop.folder();
        let (watched, requests) = std::thread::scope(|scope| {
            let client =
                client.map(|client| scope.spawn(move || server::run_client(&client, folder)));
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

    /// Waits for the end of `child`; kills it at the time limit. Samples memory
    /// meanwhile.
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
            processes.sample();
            std::thread::sleep(SAMPLING_INTERVAL);
        }
    }
}

/// The result of a command.
struct Ran {
    took: Took,
    tool_peak_kib: u64,
    requests: Option<Requests>,
}

impl Ran {
    /// The last line of its standard error, to be appended to a failure.
    fn last_error_line(&self, errors: &PathBuf) -> String {
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

/// Reads the totals of a report in JSON.
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
