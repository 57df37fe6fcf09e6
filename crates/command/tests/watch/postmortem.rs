//! `allotrope postmortem`: what was live in a process that was killed. With a period of one byte every
//! block is sampled, so that numbers are exact.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use allotrope_shm::samples::file::{Mapped, find, holders, kept};
use allotrope_shm::samples::layout::BYTES;
use allotrope_shm::samples::reader::State;
use serde_json::Value;

use crate::support::record::command;
use crate::support::watched::{Program, wait_for_holder};
use crate::support::{Ended, Text, compiled_with, is_root, run, skip, until};

/// A size that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;

/// A holder of the test's own.
struct Holder {
    name: String,
}

impl Holder {
    fn new(test: &str) -> Self {
        let name = format!("{test}-{}", std::process::id());
        Self { name }
    }

    fn command(&self) -> Command {
        let mut command = command();
        command.env("ALLOTROPE_HOLDER", &self.name);
        command
    }

    fn program(&self) -> Program {
        Program::start(self.command().args(["standby", "--quiet", "--period", "1"]))
    }

    fn postmortem(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command();
        run(command.arg("postmortem").args(arguments), b"")
    }

    /// The name by which it is found.
    fn full_name(&self) -> String {
        format!("{}/{}", env!("CARGO_PKG_VERSION"), self.name)
    }

    fn wait_for(&self, process: u32) {
        wait_for_holder(&self.full_name(), process);
    }

    /// `doctor --clean`. What was unpacked is that of other tests, so root, whose folder everybody
    /// uses, has empty folders of its own. `None`: it cannot have them.
    fn clean(&self, arguments: &[&str]) -> Option<Ended> {
        let folder = tempfile::tempdir().expect("a folder");
        let allotrope = command();
        let mut command = match is_root() {
            false => {
                let mut command = Command::new(allotrope.get_program());
                command.args(["doctor", "--clean"]).args(arguments);
                command
            }
            true => {
                let script = "for it in /run /var/tmp /dev/shm; do mount -t tmpfs none $it || exit 99; done; \
                              exec \"$0\" doctor --clean \"$@\"";
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", script]);
                command.arg(allotrope.get_program()).args(arguments);
                command
            }
        };
        for variable in ["XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME"] {
            command.env(variable, folder.path());
        }
        let ended = run(command.env("ALLOTROPE_HOLDER", &self.name), b"");
        match ended.status.code() {
            Some(99) => None,
            _ => Some(ended),
        }
    }

    /// The report on this process.
    fn report(&self, target: &str) -> Value {
        let words = [target, "--format", "json", "--top", "1000"];
        self.postmortem(&words).ok().json()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        for process in holders(&self.full_name()) {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
    }
}

/// The live blocks and bytes of the sites below a function.
fn live(report: &Value, function: &str) -> (u64, u64) {
    let sites = report["sites"].as_array().expect("sites");
    let is_below = |site: &&Value| {
        let stack = site["stack"].as_array().expect("a stack");
        stack.iter().any(|it| it["function"] == function)
    };
    let sites = sites.iter().filter(is_below);
    let figures = sites.map(|it| {
        let figure = |key: &str| it[key].as_f64().expect("a number").round() as u64;
        (figure("live_blocks"), figure("live_bytes"))
    });
    figures.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// The file that ran is gone when the process has ended.
#[test]
fn a_program_that_was_upgraded_is_not_named_by_its_new_file() {
    for (number, build_id) in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"]
        .iter()
        .enumerate()
    {
        let holder = Holder::new(&format!("upgraded{number}"));
        let folder = tempfile::tempdir().expect("a folder");
        let build = |name: &str, flags: &[&str]| {
            let flags: Vec<&str> = flags.iter().copied().chain([*build_id]).collect();
            let path = folder.path().join(name);
            fs::copy(compiled_with("watched.c", &flags), &path).expect("ours");
            path
        };
        let path = build("program", &[]);
        let new = build("new", &["-Dby_malloc=new_malloc"]);
        let mut command = holder.command();
        command.args(["standby", "--quiet", "--period", "1", "--"]);
        let mut program = Program::start_as(command.arg(&path));
        let process = program.id().to_string();
        program.tell(&format!("malloc 30 {SIZE}"));
        holder.wait_for(program.id());
        fs::rename(new, &path).expect("ours");
        program.kill();
        let report = holder.report(&process);
        assert_eq!(live(&report, "new_malloc"), (0, 0), "{report:#}");
        assert_eq!(live(&report, "by_malloc"), (0, 0), "{report:#}");
        let why = "another build, or not proven to be the one that ran";
        assert!(report["warnings"].to_string().contains(why), "{report:#}");
        let text = holder.postmortem(&[&process]).text();
        text.has_all(["warning: ", "another build"]);
        // With the file that ran back at its path, the build id shows that it is that.
        let old = build("old", &[]);
        fs::rename(old, &path).expect("ours");
        let blocks = if number == 0 { (30, 30 * SIZE) } else { (0, 0) };
        assert_eq!(live(&holder.report(&process), "by_malloc"), blocks);
    }
}

#[test]
fn what_was_live_in_a_killed_process_is_reported() {
    let holder = Holder::new("killed");
    let mut program = holder.program();
    let process = program.id().to_string();
    program.tell(&format!("malloc 30 {SIZE}"));
    holder.wait_for(program.id());
    // What comes after the holder has found it is there, too.
    program.tell(&format!("calloc 12 {SIZE}"));
    holder
        .postmortem(&[&process])
        .fails(2, "allotrope watch")
        .error_lines(1);
    program.kill();
    let report = holder.report(&process);
    assert_eq!(live(&report, "by_malloc"), (30, 30 * SIZE));
    assert_eq!(live(&report, "by_calloc"), (12, 12 * SIZE));
    // A person is told the same.
    let output = holder.postmortem(&[&process]);
    output.says("did not exit by itself").has("by_malloc");
    // The list, which also has processes of other tests that are killed meanwhile.
    let listed = |process: u32| {
        let list = holder.postmortem(&["--format", "json"]).ok().text();
        let objects = list
            .lines()
            .map(|it| serde_json::from_str(it).expect("JSON"));
        let own: Vec<Value> = objects.filter(|it: &Value| it["pid"] == process).collect();
        let [own] = own.try_into().expect("one object");
        own
    };
    let list = listed(program.id());
    assert_eq!(list["samples"], report["samples"]);
    assert_eq!(list["format"], "allotrope-watch/1");
    assert_eq!(list["kind"], "kept_process");
    for figure in [
        "live_bytes",
        "live_bytes_low",
        "live_bytes_high",
        "live_blocks",
    ] {
        assert_eq!(list[figure], report[figure], "{figure}");
    }
    let text = holder.postmortem(&[]).text();
    text.has_all([&process, "watched"]);
    // The path of the program is longer than this.
    let mut narrow = holder.command();
    let narrow = run(narrow.arg("postmortem").env("COLUMNS", "60"), b"").text();
    let own = narrow.lines().filter(|it| it.contains(&process));
    let widths: Vec<usize> = own.map(|it| it.chars().count()).collect();
    assert_eq!(widths, [60], "{narrow}");
    narrow.fits(60);
    // Of a process that was never sampled nothing is known.
    let mut other = Program::start(
        holder
            .command()
            .args(["standby", "--quiet", "--period", "off"]),
    );
    holder.wait_for(other.id());
    other.kill();
    let text = holder.postmortem(&[]).text();
    let line = text.lines().find(|it| it.contains(&other.id().to_string()));
    assert!(
        line.is_some_and(|it| it.contains("  not sampled  ")),
        "{text}"
    );
    assert_eq!(listed(other.id()).get("live_bytes"), None);
    // Of one in standby an upper bound is known.
    let mut third = Program::start(holder.command().args(["standby", "--quiet"]));
    holder.wait_for(third.id());
    third.kill();
    let bound = "nothing was sampled: under 95.9 MiB were live, with 95 %";
    let text = holder.postmortem(&[]).text();
    let line = text.lines().find(|it| it.contains(&third.id().to_string()));
    assert!(line.is_some_and(|it| it.contains(bound)), "{text}");
    assert_eq!(listed(third.id())["is_complete"], true);
    let third = third.id().to_string();
    let text = holder.postmortem(&[&third]).text();
    text.has_all([bound, "one of 32.0 MiB sampled from its start"]);
    // A profile.
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("last");
    holder
        .postmortem(&[&process, "-o", &profile.to_string_lossy()])
        .ok();
    holder
        .postmortem(&[&profile.to_string_lossy()])
        .fails(2, "`allotrope report`")
        .error_lines(1);
    let mut command = command();
    command.args(["report", "--format", "json"]).arg(&profile);
    let profile = run(&mut command, b"").json();
    assert_eq!(profile["totals"]["live_bytes"], report["live_bytes"]);
}

#[test]
fn forked_children_and_programs_after_exec_are_kept() {
    let holder = Holder::new("forked");
    let mut program = holder.program();
    program.tell("malloc 3 5432");
    holder.wait_for(program.id());
    assert_eq!(program.ask("exec"), "ready");
    program.tell(&format!("malloc 20 {SIZE}"));
    holder.wait_for(program.id());
    let child: u32 = program.ask("fork").parse().expect("an id");
    // The first ends the countdown that the child has inherited.
    program.tell("malloc 1 5432");
    program.tell(&format!("calloc 7 {SIZE}"));
    holder.wait_for(child);
    // The child raises it; the parent answers.
    assert_eq!(program.ask("kill 9"), "0");
    program.kill();
    let of_child = holder.report(&child.to_string());
    assert_eq!(live(&of_child, "by_calloc"), (7, 7 * SIZE));
    let of_parent = holder.report(&program.id().to_string());
    assert_eq!(live(&of_parent, "by_malloc"), (20, 20 * SIZE));
    assert_eq!(of_parent["processes"][0]["pid"], program.id());
}

#[test]
fn nothing_is_kept_of_a_process_that_exits() {
    let holder = Holder::new("exits");
    let mut program = holder.program();
    let process = program.id();
    program.tell(&format!("malloc 30 {SIZE}"));
    holder.wait_for(process);
    program.end().ok();
    holder
        .postmortem(&[&process.to_string()])
        .fails(2, "nothing is kept")
        .error_lines(1);
    // It keeps those of others that are killed, too: other tests do that.
    let list = holder.postmortem(&[]).text();
    let id = process.to_string();
    let of_process = |line: &str| line.split_whitespace().next() == Some(&id);
    assert!(!list.is_empty() && !list.lines().any(of_process), "{list}");
    // It may have those of others that run.
    let is_it = |file: &OwnedFd| {
        let mapped = Mapped::new(file).expect("a mapping");
        State::read(mapped.memory()).is_ok_and(|it| it.process.id == u64::from(process))
    };
    until("the holder lets the memory go", || {
        !kept(&holder.full_name()).iter().any(is_it)
    });
}

/// A daemon closes all descriptors. The holder has found the memory before.
#[test]
fn a_program_that_closes_its_descriptors_is_kept() {
    let holder = Holder::new("closes");
    let mut program = holder.program();
    let process = program.id();
    holder.wait_for(process);
    program.tell("close");
    assert!(find(process).is_err());
    program.tell(&format!("malloc 30 {SIZE}"));
    // Longer than it takes until the holder looks again.
    sleep(Duration::from_secs(3));
    assert_eq!(program.ask("malloc 2 5432"), "ok");
    // It runs, although it cannot be found.
    let is_listed = || {
        let list = holder.postmortem(&[]).stdout;
        let list = String::from_utf8(list).expect("UTF-8");
        let own = process.to_string();
        list.lines()
            .any(|it| it.split_whitespace().next() == Some(&own))
    };
    assert!(!is_listed());
    holder
        .postmortem(&[&process.to_string()])
        .fails(2, "runs; its last state can be reported when it has ended")
        .error_lines(1);
    program.kill();
    let report = holder.report(&process.to_string());
    assert_eq!(live(&report, "by_malloc"), (32, 30 * SIZE + 2 * 5432));
    assert!(is_listed());
}

/// Its id is 1 there, and another one here.
///
/// Reported: `postmortem` lists a process that still runs.
#[test]
fn a_process_in_another_namespace_runs_until_it_is_killed() {
    let words = ["unshare", "-Urpf"];
    let can = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    if !can.is_ok_and(|it| it.status.success()) {
        return skip("no PID namespace can be made");
    }
    let holder = Holder::new("namespace");
    let mut standby = holder.command();
    standby.args(["standby", "--quiet", "--period", "1"]);
    let mut program = Program::start_below(&mut standby, &words);
    program.tell(&format!("malloc 30 {SIZE}"));
    let is_first = |file: &OwnedFd| {
        let mapped = Mapped::new(file).expect("a mapping");
        State::read(mapped.memory()).is_ok_and(|it| it.process.id == 1)
    };
    until("the holder has the memory", || {
        kept(&holder.full_name()).iter().any(is_first)
    });
    let is_listed = || {
        let list = String::from_utf8(holder.postmortem(&[]).stdout).expect("UTF-8");
        list.lines()
            .any(|it| it.split_whitespace().next() == Some("1"))
    };
    assert!(!is_listed());
    let output = holder
        .postmortem(&["1"])
        .fails(2, "runs; look at it with `allotrope watch ")
        .error_lines(1);
    // The sentence has its id here.
    let errors = output.errors();
    let mut words = errors.split(' ').skip_while(|it| *it != "process");
    let process = words.nth(1).expect("an id");
    let killed = Command::new("kill").args(["-9", process]).status();
    assert!(killed.expect("kill").success());
    until("it is listed", is_listed);
    assert_eq!(live(&holder.report("1"), "by_malloc"), (30, 30 * SIZE));
}

#[test]
fn a_program_does_not_notice_the_holder() {
    let holder = Holder::new("notice");
    let mut with = holder.program();
    holder.wait_for(with.id());
    let mut without = Program::new(&["--period", "1"]);
    assert_eq!(with.ask("descriptor"), without.ask("descriptor"));
    let process = with.id();
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    assert_eq!(children.expect("the list of children"), "");
    let all = holders(&holder.full_name());
    assert_eq!(all.len(), 1, "{all:?}");
    // A second program has the same one.
    let second = holder.program();
    holder.wait_for(second.id());
    assert_eq!(holders(&holder.full_name()), all);
    // It holds nothing of the terminal, the folder or the pipes of who started it.
    let of_holder = |name: &str| fs::read_link(format!("/proc/{}/{name}", all[0])).expect("a link");
    assert_eq!(of_holder("cwd"), Path::new("/"));
    for number in 0..3 {
        assert_eq!(of_holder(&format!("fd/{number}")), Path::new("/dev/null"));
    }
    let status = fs::read_to_string(format!("/proc/{}/stat", all[0])).expect("its status");
    let fields = status.rsplit_once(") ").expect("fields").1;
    let session: u32 = fields
        .split(' ')
        .nth(3)
        .expect("a session")
        .parse()
        .expect("an id");
    assert_eq!(session, all[0]);
}

#[test]
fn standby_says_that_the_state_is_kept() {
    let holder = Holder::new("says");
    let standby = |options: &[&str]| {
        let mut command = holder.command();
        command.arg("standby").args(options).args(["--", "true"]);
        run(&mut command, b"").ok().errors()
    };
    let text = standby(&[]);
    text.has("allotrope postmortem");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(standby(&["--quiet"]), "");
    assert_eq!(standby(&["--no-holder"]), "");
}

#[test]
fn a_copy_and_a_core_file_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut standby = command();
    // SAFETY: only calls setrlimit.
    unsafe {
        standby.pre_exec(|| {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
            let limit = rustix::process::Rlimit {
                current: limit.maximum,
                ..limit
            };
            Ok(rustix::process::setrlimit(
                rustix::process::Resource::Core,
                limit,
            )?)
        });
    }
    standby.args(["standby", "--no-holder", "--period", "1"]);
    let mut program = Program::start(standby.current_dir(folder.path()));
    program.tell(&format!("malloc 30 {SIZE}"));
    let file = find(program.id()).expect("a memory");
    let copy = folder.path().join("copy");
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    fs::copy(own, &copy).expect("a copy");
    let holder = Holder::new("files");
    let report = holder.report(&copy.to_string_lossy());
    assert_eq!(live(&report, "by_malloc"), (30, 30 * SIZE));
    program.tell(&format!("calloc 12 {SIZE}"));
    // SIGABRT
    program.send("kill 6");
    assert_eq!(program.end().status.signal(), Some(6));
    let names = fs::read_dir(folder.path()).expect("our folder").flatten();
    let mut names = names.map(|it| it.path());
    let Some(core) = names.find(|it| it.file_name() != copy.file_name()) else {
        return skip("no core file is written here");
    };
    let core_name = core.to_string_lossy();
    let report = holder.report(&core_name);
    assert_eq!(live(&report, "by_malloc"), (30, 30 * SIZE));
    assert_eq!(live(&report, "by_calloc"), (12, 12 * SIZE));
    // Half of it, and one that was damaged, give a sentence or a report.
    let bytes = fs::read(&core).expect("the core file");
    for end in [63, 64, 100, 4096, bytes.len() / 2] {
        fs::write(&core, &bytes[..end]).expect("our folder");
        let status = holder.postmortem(&[&core_name]).status.code();
        assert!(matches!(status, Some(0 | 2)), "{end}: {status:?}");
    }
    for step in [40, 55, 61] {
        let mut damaged = bytes.clone();
        let (damaged_part, _) = damaged.split_at_mut(4096);
        damaged_part
            .iter_mut()
            .skip(16)
            .step_by(step)
            .for_each(|it| *it ^= 0x5a);
        fs::write(&core, damaged).expect("our folder");
        let status = holder.postmortem(&[&core_name]).status.code();
        assert!(matches!(status, Some(0 | 2)), "{step}: {status:?}");
    }
}

#[test]
fn what_is_no_state_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = Holder::new("refused");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("our folder");
        path.to_string_lossy().into_owned()
    };
    holder
        .postmortem(&["4194304"])
        .fails(2, "nothing is kept")
        .error_lines(1);
    holder
        .postmortem(&["/nonexistent/core"])
        .fails(2, "cannot read")
        .error_lines(1);
    holder
        .postmortem(&[&folder.path().to_string_lossy()])
        .fails(2, "cannot read")
        .error_lines(1);
    holder
        .postmortem(&[&file("empty", b"")])
        .fails(2, "neither a core file")
        .error_lines(1);
    holder
        .postmortem(&[&file("text", &[b'x'; 5000])])
        .fails(2, "neither a core file")
        .error_lines(1);
    holder
        .postmortem(&[&file("zeros", &vec![0; BYTES])])
        .fails(2, "cannot be read")
        .error_lines(1);
    holder
        .postmortem(&[&file("garbage", &vec![0xa5; BYTES])])
        .fails(2, "cannot be read")
        .error_lines(1);
    let own = fs::read(env!("CARGO_BIN_EXE_allotrope")).expect("our program");
    holder
        .postmortem(&[&file("program", &own)])
        .fails(2, "neither a core file")
        .error_lines(1);
    // A core file without such a memory.
    let mut core = own[..4096].to_vec();
    core[16] = 4; // ET_CORE
    core[56] = 0; // no segments
    core[57] = 0;
    holder
        .postmortem(&[&file("core", &core)])
        .fails(2, "no memory of a watched process")
        .error_lines(1);
    holder
        .postmortem(&["--format", "poireau"])
        .fails(2, "name a process")
        .error_lines(1);
    holder
        .postmortem(&["1", "-o", "x", "--suppressions", "y"])
        .code(2)
        .says("cannot be used with");
}

/// The holder of a process that runs is needed, and that of one that crashed. (Root's holder also has the processes
/// of other tests.)
#[test]
fn a_holder_that_keeps_a_state_is_not_cleaned_away() {
    let holder = Holder::new("cleaned");
    if holder.clean(&[]).is_none() {
        return skip("the kernel refuses a mount namespace");
    }
    let clean = |arguments: &[&str]| holder.clean(arguments).expect("as before").ok();
    let mut program = holder.program();
    program.tell(&format!("malloc 5 {SIZE}"));
    holder.wait_for(program.id());
    let process = program.id().to_string();
    clean(&["--yes", "--with-states"])
        .has("stays")
        .has("running");
    program.kill();
    until("the state is kept", || {
        let left = clean(&["--yes", "--format", "json"]).json();
        let left = left["left"].as_array().expect("a list").clone();
        let mut holders = left.iter().filter(|it| it["kind"] == "holder");
        holders.any(|it| it["states"].as_u64() > Some(0) && it["state"] == "stays")
    });
    assert_eq!(live(&holder.report(&process), "by_malloc"), (5, 5 * SIZE));
    // Unless that is asked for. While a process of another test runs, its holder stays.
    until("the holder is removed", || {
        let said = clean(&["--yes", "--with-states"]).text();
        said.contains("removed")
    });
    assert!(holders(&holder.full_name()).is_empty());
    let report = holder.postmortem(&[&process]);
    report.fails(2, format!("nothing is kept of process {process}"));
}
