//! The test's side: starting programs and watchers, and talking to them.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{ANSWER, COMM, KIND};
use crate::support::record::command;

/// A watched program.
pub struct Program {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts a program; see `plays_its_story` for the kinds.
    pub fn new(kind: &str) -> Self {
        Self::named(kind, "story")
    }

    /// Same as [`Program::new`], with this name of the process.
    pub fn named(kind: &str, comm: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("the test's path"))
            .args(["--exact", "program::plays_its_story", "--nocapture"])
            .env(KIND, kind)
            .env(COMM, comm)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let answers = child.stdout.take().expect("a pipe");
        let mut program = Self {
            commands: child.stdin.take(),
            child,
            answers: BufReader::new(answers).lines(),
        };
        assert_eq!(program.answer(), "ready");
        program
    }

    fn answer(&mut self) -> String {
        let mut answers = self.answers.by_ref().map(|it| it.expect("an answer"));
        let found = answers.find_map(|it| it.strip_prefix(ANSWER).map(str::to_owned));
        found.expect("an answer")
    }

    /// Gives a command and waits for the answer.
    pub fn tell(&mut self, command: &str) -> String {
        let commands = self.commands.as_mut().expect("a pipe");
        writeln!(commands, "{command}").expect("a command");
        self.answer()
    }

    /// The period at which it would sample now; 0: off.
    pub fn setting(&mut self) -> u64 {
        self.tell("setting").parse().expect("a period")
    }

    /// Waits until a watcher has switched sampling on; it handles signals then.
    pub fn wait_for_watcher(&mut self) {
        while self.setting() == 0 {
            std::thread::yield_now();
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it.
    pub fn end(mut self) {
        drop(self.commands.take());
        self.child.wait().expect("its end");
    }

    /// The arguments of `watch` for this process.
    pub fn arguments(&self, options: &[&str]) -> Vec<String> {
        let own = ["watch".to_owned(), self.id().to_string()];
        own.into_iter()
            .chain(options.iter().map(|it| (*it).to_owned()))
            .collect()
    }

    /// Runs `watch PID` with these options to its end.
    pub fn watch(&self, options: &[&str]) -> Output {
        command()
            .args(self.arguments(options))
            .output()
            .expect("the command")
    }

    /// Starts `watch PID` with these options.
    pub fn start_watch(&self, options: &[&str]) -> Watcher {
        Watcher::new(&self.arguments(options))
    }

    /// The report in JSON.
    pub fn report(&self, options: &[&str]) -> Value {
        let output = self.watch(&[&["--once", "--format", "json"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        serde_json::from_str(text.lines().next().expect("a report")).expect("JSON")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watcher that runs.
pub struct Watcher {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    /// Starts the command with these arguments.
    pub fn new<T: AsRef<std::ffi::OsStr>>(arguments: &[T]) -> Self {
        let mut child = command()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command");
        let lines = child.stdout.take().expect("a pipe");
        Self {
            child,
            lines: BufReader::new(lines).lines(),
        }
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let line = self.lines.next().expect("a line");
        line.expect("UTF-8")
    }

    /// The next object for which `is_wanted` holds.
    pub fn object(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let object = serde_json::from_str(&self.line()).expect("JSON");
            if is_wanted(&object) {
                return object;
            }
        }
    }

    /// The next report for which `is_wanted` holds.
    pub fn report(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.object(|it| it["kind"] == "report" && is_wanted(it))
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(id, signal).expect("a signal");
    }

    /// Waits for its end; returns the exit status.
    pub fn wait(mut self) -> Option<i32> {
        self.lines.by_ref().for_each(drop);
        self.child.wait().expect("its end").code()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The site in whose stack there is a function of this name.
pub fn site<'r>(report: &'r Value, function: &str) -> &'r Value {
    let sites = report["sites"].as_array().expect("sites");
    let mut found = sites.iter().filter(|it| has_function(it, function));
    let site = found.next();
    site.unwrap_or_else(|| panic!("no {function} in {report:#}"))
}

/// Whether there is a function of this name in the stack of a site. What it has inlined is
/// there, too.
pub fn has_function(site: &Value, function: &str) -> bool {
    let stack = site["stack"].as_array().expect("a stack");
    let mut names = stack.iter().filter_map(|it| it["function"].as_str());
    names.any(|it| it.ends_with(function))
}

/// Whether the interval of a figure has this number in it.
pub fn assert_holds(object: &Value, name: &str, truth: i64) {
    let [value, low, high] =
        ["", "_low", "_high"].map(|end| object[format!("{name}{end}")].as_i64());
    let (value, low, high) = (value.expect(name), low.expect(name), high.expect(name));
    assert!(low <= value && value <= high, "{name}: {object:#}");
    assert!(
        low <= truth && truth <= high,
        "{name} is not {truth}: {object:#}"
    );
}

/// What a command has written to its standard error output.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
