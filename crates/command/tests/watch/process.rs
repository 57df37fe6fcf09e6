//! The test's side: starting programs and watchers, and talking to them.

use std::ops::{Deref, DerefMut};
use std::process::Command;

use serde_json::Value;

use crate::program::{ANSWER, COMM, KIND};
use crate::support::{Ended, Started, command, run};

/// A watched program.
pub struct Program(Started);

impl Program {
    /// Starts a program; see `plays_its_story` for the kinds.
    pub fn new(kind: &str) -> Self {
        Self::named(kind, "story")
    }

    /// Same as [`Program::new`], with this name of the process.
    pub fn named(kind: &str, comm: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the test's path"));
        command.args(["--exact", "program::plays_its_story", "--nocapture"]);
        let mut program = Self(Started::new(command.env(KIND, kind).env(COMM, comm)));
        assert_eq!(program.answer(), "ready");
        program
    }

    #[track_caller]
    fn answer(&mut self) -> String {
        loop {
            if let Some(answer) = self.line().strip_prefix(ANSWER) {
                return answer.to_owned();
            }
        }
    }

    /// Gives a command and waits for the answer.
    #[track_caller]
    pub fn tell(&mut self, command: &str) -> String {
        self.send(command);
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

    /// Ends it.
    pub fn end(self) {
        self.0.end();
    }

    /// The arguments of `watch` for this process.
    pub fn arguments(&self, options: &[&str]) -> Vec<String> {
        let own = ["watch".to_owned(), self.id().to_string()];
        own.into_iter()
            .chain(options.iter().map(|it| (*it).to_owned()))
            .collect()
    }

    /// Runs `watch PID` with these options to its end.
    #[track_caller]
    pub fn watch(&self, options: &[&str]) -> Ended {
        run(command().args(self.arguments(options)), b"")
    }

    /// Starts `watch PID` with these options.
    pub fn start_watch(&self, options: &[&str]) -> Watcher {
        Watcher::new(&self.arguments(options))
    }

    /// The report in JSON.
    #[track_caller]
    pub fn report(&self, options: &[&str]) -> Value {
        let options = [&["--once", "--format", "json"], options].concat();
        let text = self.watch(&options).ok().text();
        serde_json::from_str(text.lines().next().expect("a report")).expect("JSON")
    }
}

impl Deref for Program {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
    }
}

/// A watcher that runs.
pub struct Watcher(Started);

impl Watcher {
    /// Starts the command with these arguments.
    pub fn new<T: AsRef<std::ffi::OsStr>>(arguments: &[T]) -> Self {
        Self(Started::new(command().args(arguments)))
    }

    /// The next report for which `is_wanted` holds.
    #[track_caller]
    pub fn report(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.object(|it| it["kind"] == "report" && is_wanted(it))
    }

    /// Waits for its end; returns the exit status.
    pub fn wait(self) -> Option<i32> {
        self.0.end().status.code()
    }
}

impl Deref for Watcher {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl DerefMut for Watcher {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
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
