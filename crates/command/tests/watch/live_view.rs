//! The live view in a terminal, tmux's: what a person sees and types.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::compile::compiled;
use crate::support::record::command;
use crate::support::watched::Program;
use crate::support::{Started, Text, run, skip};

/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A terminal in which a shell runs one command, and says its exit status at the end.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// `None`: there is no tmux.
    fn new(columns: u32, lines: u32, folder: &Path, command: &str) -> Option<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = format!("allotrope-test-{}-{number}", std::process::id());
        let terminal = Self { socket };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = format!("{command}; echo status=$?; exec sleep 1000");
        let started = terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "-c",
            folder.to_str().expect("UTF-8"),
            &shell,
        ]);
        let Some(started) = started else {
            skip("tmux is not installed");
            return None;
        };
        assert!(started.status.success(), "{started:?}");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Option<Output> {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-f", "/dev/null", "-L", &self.socket])
            .args(arguments);
        // Not the terminal of whoever runs the tests.
        tmux.env_remove("TMUX")
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        tmux.env_remove("NO_COLOR");
        tmux.output().ok()
    }

    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]).expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    #[track_caller]
    fn wait_for(&self, what: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if what(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{screen}");
            sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn wait_for_text(&self, text: &str) -> String {
        self.wait_for(|it| it.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn watch(options: &str) -> String {
    let program = command();
    let program = program.get_program().to_str().expect("UTF-8");
    format!("'{program}' watch {options}")
}

/// Whether a line begins with live bytes.
fn is_row(line: &str) -> bool {
    let words = line.trim_start_matches([' ', '▸']);
    let first = words.split_whitespace().next();
    first.is_some_and(|it| it.parse::<f64>().is_ok())
}

/// The row of the table with this function: its words.
fn row(screen: &str, function: &str) -> Option<Vec<String>> {
    let row = screen
        .lines()
        .find(|it| it.ends_with(function) && is_row(it))?;
    let words = row.trim_start_matches([' ', '▸']).split_whitespace();
    Some(words.map(str::to_owned).collect())
}

#[test]
fn a_person_sees_what_is_live_and_switches_sampling_off() {
    let mut program = Program::new(&["--period", "off"]);
    let folder = tempfile::tempdir().expect("a folder");
    let command = watch(&format!("--period 1 {}", program.id()));
    let Some(terminal) = Terminal::new(80, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("1 sample per 1 B");
    program.tell("malloc 100 4096");
    program.tell("calloc 50 2048");
    // 400 KiB and 100 KiB.
    let screen = terminal.wait_for(|it| row(it, "by_calloc").is_some());
    assert_eq!(
        row(&screen, "by_malloc").expect("a row")[0],
        "400.0",
        "{screen}"
    );
    assert_eq!(
        row(&screen, "by_calloc").expect("a row")[0],
        "100.0",
        "{screen}"
    );

    terminal.keys(&["/"]);
    terminal.keys(&["-l", "CALLOC"]);
    terminal.keys(&["Enter"]);
    let screen = terminal.wait_for_text("filter: CALLOC");
    assert!(row(&screen, "by_malloc").is_none(), "{screen}");
    terminal.keys(&["Enter"]);
    terminal.wait_for(|it| it.contains("← main") && it.contains("watched.c:"));
    terminal.keys(&["q"]);
    terminal.wait_for(|it| row(it, "by_calloc").is_some());

    for (columns, lines) in [("160", "50"), ("40", "10"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", lines]);
        terminal.wait_for(|it| {
            let last = it.lines().rfind(|it| !it.trim().is_empty());
            it.lines().count() == lines.parse().unwrap_or(0)
                && last.is_some_and(|it| it.contains("? help"))
        });
    }

    terminal.keys(&["w"]);
    terminal.wait_for_text("Write to: live.allotrope");
    terminal.keys(&["Enter"]);
    terminal.wait_for_text("wrote");
    let mut report = crate::support::command();
    report.args(["report", "live.allotrope", "--format", "json"]);
    run(report.current_dir(folder.path()), b"").has("by_malloc");

    terminal.keys(&["q"]);
    terminal.wait_for_text("(r)estore");
    terminal.keys(&["o"]);
    terminal.wait_for_text("status=0");
    assert_eq!(program.state().period, None);
    program.end().ok();
}

#[test]
fn the_screen_stays_when_the_process_ends() {
    let mut program = Program::new(&["--period", "off"]);
    let folder = tempfile::tempdir().expect("a folder");
    let command = watch(&format!("--period 1 {}", program.id()));
    let Some(terminal) = Terminal::new(100, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("1 sample per 1 B");
    program.tell("malloc 10 4096");
    terminal.wait_for(|it| row(it, "by_malloc").is_some());
    program.end().ok();
    let screen = terminal.wait_for_text("has ended with status 0");
    assert_eq!(
        row(&screen, "by_malloc").expect("a row")[0],
        "40.0",
        "{screen}"
    );
    terminal.keys(&["q"]);
    terminal.wait_for_text("status=0");
}

#[test]
fn a_process_that_has_ended_is_removed_while_others_run() {
    let [mut one, mut two] = [
        Program::new(&["--period", "off"]),
        Program::new(&["--period", "off"]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (one.id(), two.id());
    let options = format!("--period 1 --prometheus 127.0.0.1:0 {first} {second}");
    let Some(terminal) = Terminal::new(100, 24, folder.path(), &watch(&options)) else {
        return;
    };
    terminal.wait_for_text("1 sample per 1 B");
    one.tell("malloc 10 4096");
    two.tell("calloc 20 4096");
    terminal.wait_for(|it| row(it, "by_malloc").is_some() && row(it, "by_calloc").is_some());
    two.kill();
    // Nobody but its parent knows the signal.
    let text = format!("process {second} has ended");
    terminal.wait_for_text(&text);
    let screen = terminal.wait_for(|it| row(it, "by_calloc").is_none());
    screen.has(format!("watched {first} ·"));
    assert_eq!(
        row(&screen, "by_malloc").expect("a row")[0],
        "40.0",
        "{screen}"
    );
    terminal.keys(&["q"]);
    terminal.wait_for_text("(r)estore");
    terminal.keys(&["Enter"]);
    let screen = terminal.wait_for_text("status=0");
    // Messages are printed at the end; the other process runs.
    screen.has(&text);
    screen.lacks("no process is left");
    assert_eq!(one.state().period, None);
}

#[test]
fn of_a_program_that_the_view_has_started_the_signal_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    // The program leaves a process behind, and is killed.
    let shell = "sh -c 'sleep 1000 & sleep 2; kill -9 $$'";
    let command = watch(&format!("--period 1 -- {shell}"));
    let Some(terminal) = Terminal::new(100, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("has ended by signal 9");
    terminal.keys(&["q"]);
    terminal.wait_for_text("(e)nd the program");
    terminal.keys(&["l"]);
    terminal.wait_for_text("status=137");
}

/// What was live before stays on the screen, with what has become of it.
#[test]
fn a_program_that_was_replaced_is_not_shown_as_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "sleep 2; exec env -i sleep 20";
    let command = watch(&format!("--period 1 -- sh -c '{script}'"));
    let Some(terminal) = Terminal::new(100, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("the program that was watched has executed another one");
    terminal.wait_for_text("has executed a program that is not prepared");
}

#[test]
fn a_message_is_shown_again_and_printed_at_the_end() {
    let program = Program::new(&["--period", "1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let command = watch(&program.id().to_string());
    let Some(terminal) = Terminal::new(100, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("? help");
    let refusal = "name another file";
    std::fs::write(folder.path().join("live.allotrope"), "text").expect("our folder");
    for _ in 0..2 {
        terminal.keys(&["w"]);
        terminal.wait_for_text("Write to: live.allotrope");
        terminal.keys(&["Enter"]);
        terminal.wait_for_text(refusal);
        // A key removes it.
        terminal.keys(&["Home"]);
        terminal.wait_for(|it| !it.contains(refusal));
    }
    // After some time it goes by itself.
    terminal.keys(&["w"]);
    terminal.wait_for_text("Write to: live.allotrope");
    terminal.keys(&["Enter"]);
    terminal.wait_for_text(refusal);
    terminal.wait_for(|it| !it.contains(refusal));
    terminal.keys(&["q"]);
    terminal.wait_for_text("(r)estore");
    terminal.keys(&["Enter"]);
    let screen = terminal.wait_for_text("status=0");
    assert_eq!(screen.matches(refusal).count(), 3, "{screen}");
    // There is no option here.
    screen.lacks("--force");
}

#[test]
fn a_signal_ends_the_view_and_gives_the_terminal_back() {
    let program = Program::new(&["--period", "off"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("watcher");
    // The shell becomes the watcher, so that its id is known.
    let command = format!(
        "sh -c 'echo $$ > watcher; exec {}'",
        watch(&program.id().to_string()).replace('\'', "")
    );
    let Some(terminal) = Terminal::new(80, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("? help");
    let id = std::fs::read_to_string(file).expect("the id");
    let id = id
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let signal = rustix::process::Signal::TERM;
    rustix::process::kill_process(id.expect("an id"), signal).expect("a signal");
    terminal.wait_for_text("status=143");
    assert_eq!(program.state().period, None);
}

#[test]
fn without_colour_the_words_are_the_same() {
    let mut program = Program::new(&["--period", "off"]);
    program.tell("malloc 10 4096");
    let folder = tempfile::tempdir().expect("a folder");
    let command = format!("NO_COLOR=1 {}", watch(&program.id().to_string()));
    let Some(terminal) = Terminal::new(80, 24, folder.path(), &command) else {
        return;
    };
    terminal.wait_for_text("? help");
    let output = terminal.tmux(&["capture-pane", "-e", "-p"]).expect("tmux");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    // Bold and normal are no colours.
    let codes = screen.split("\x1b[").skip(1).map(|it| it.split('m').next());
    let is_colour = |it: &str| {
        it.split(';')
            .any(|it| it.len() == 2 && it.starts_with(['3', '9']))
    };
    let colours: Vec<&str> = codes.flatten().filter(|it| is_colour(it)).collect();
    assert!(colours.iter().all(|it| *it == "39"), "{colours:?}");
}

#[test]
fn a_dumb_terminal_gets_reports() {
    let mut program = Program::new(&["--period", "off"]);
    program.tell("malloc 10 4096");
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("--period 1 --every 100ms {}", program.id());
    let command = format!("TERM=dumb {}", watch(&options));
    let Some(terminal) = Terminal::new(80, 24, folder.path(), &command) else {
        return;
    };
    let screen = terminal.wait_for_text("nothing was sampled yet");
    screen.lacks("? help");
}

#[test]
fn a_program_that_the_view_starts_writes_to_a_file_and_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    // It reads its commands from the terminal, which it does not get: its input is at its end.
    let shell = format!(
        "sh -c '(echo malloc 100 4096; sleep 1000) | \"$0\"' {}",
        compiled("watched.c").display()
    );
    let command = watch(&format!("--period 1 -- {shell}"));
    let Some(terminal) = Terminal::new(120, 30, folder.path(), &command) else {
        return;
    };
    // The first view may come between two of its allocations.
    terminal.wait_for(|it| row(it, "by_malloc").is_some_and(|row| row[0] == "400.0"));
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    let names = files.map(|it| it.expect("a file").file_name().into_string());
    let outputs: Vec<String> = names.map(|it| it.expect("UTF-8")).collect();
    let [output] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert!(
        output.starts_with("sh.") && output.ends_with(".output"),
        "{output}"
    );
    let text = std::fs::read_to_string(folder.path().join(output)).expect("the output");
    assert!(text.starts_with("ready\nok\n"), "{text}");
    terminal.keys(&["q"]);
    terminal.wait_for_text("(e)nd the program");
    terminal.keys(&["Enter"]);
    // By SIGTERM.
    let screen = terminal.wait_for_text("status=143");
    screen.has(output);
}

/// `figures resident_stacks` lives until its input ends; plain it has 2.3 MiB, watched 68.
///
/// Reported: the resident set has 90 MiB that are the recorder's, of 22 of the program.
#[test]
fn the_resident_set_is_that_of_the_program() {
    let mut standby = command();
    standby.args(["standby", "--no-holder", "--period", "1", "--"]);
    let mut program = Started::new(standby.arg(compiled("figures.c")).arg("resident_stacks"));
    let line = program.line();
    let folder = tempfile::tempdir().expect("a folder");
    let options = program.id().to_string();
    let terminal = Terminal::new(100, 30, folder.path(), &watch(&options));
    if let Some(terminal) = terminal {
        // `resident  2.9 MiB`
        let found = |screen: &str| {
            let (_, rest) = screen.split_once("resident")?;
            let mut words = rest.split_whitespace();
            let number: f64 = words.find_map(|it| it.parse().ok())?;
            words.next()?.starts_with("MiB").then_some(number)
        };
        let screen = terminal.wait_for(|it| found(it).is_some());
        let mib = found(&screen).expect("it was found");
        assert!((1.0..8.0).contains(&mib), "{line}{screen}");
    }
    program.end();
}
