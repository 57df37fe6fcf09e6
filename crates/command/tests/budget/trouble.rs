//! Tests that crash, hang or cannot be started, configurations and budgets that
//! cannot be read: each is reported as what it is, and the other tests still run.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::project::Project;
use crate::support::{Started, Text, compiled, is_root, record, run, skip};

#[test]
fn each_way_to_fail_is_reported_as_what_it_is() {
    let cases = ["crash", "status", "hang", "pipe", "encode"];
    let project = Project::with_cases(&cases);
    project.replace("allotrope.toml", "\"hang\"]", "\"hang\"]\ntimeout = 2");
    let printed = project.test(&["--accept"]).code(5).text();
    for (case, what) in [
        ("crash", "ended by SIGSEGV"),
        ("status", "ended with status 7"),
        ("hang", "did not end within 2 s"),
        (
            "pipe",
            "ended by SIGPIPE: it wrote to a pipe that nobody reads any more",
        ),
    ] {
        let line = printed.lines().find(|line| line.starts_with(case));
        let line = line.unwrap_or_else(|| panic!("{case} in {printed}"));
        line.has_all(["not accepted", what]);
    }
    printed.has("encode: allocations none → 1,000");
    // The report shows the end of what the test printed.
    project.test(&["crash"]).code(5).has("| about to crash");
    project.test(&["encode"]).ok();
}

#[test]
fn a_missing_or_unrecordable_program_is_named() {
    let project = Project::new(
        "[tests.missing]\ncommand = [\"./no-such-program\"]\n\
         [tests.folder]\ncommand = [\"./bench\"]\nfolder = \"no/such\"\n\
         [tests.static]\ncommand = [\"./static\"]\n",
    );
    let mut command = std::process::Command::new("cc");
    command.args(["-static", "-o", "static", "bench.c", "-w", "-pthread"]);
    let compiled = run(command.current_dir(project.folder()), b"");
    assert!(compiled.status.success(), "static libc is in libc6-dev");
    let printed = project.test(&[]).code(5);
    let printed = printed
        .has("could not be started: the program ./no-such-program")
        .has("its `folder` ./no/such does not exist")
        .has("was not recorded: cannot record ./static");
    printed.text().lacks("| allotrope");
}

#[test]
fn an_error_in_the_configuration_is_reported_with_line_and_key() {
    let project = Project::with_cases(&["encode"]);
    project.replace("allotrope.toml", "command =", "comand =");
    project.test(&[]).code(2).says(
        "allotrope.toml:4: tests.encode.comand: there is no such key; did you mean `command`?",
    );
    project
        .test(&["--config", "none.toml"])
        .code(2)
        .says("there is no none.toml");
}

#[test]
fn a_malformed_budget_stops_its_test_only_and_is_written_again() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    let before = project.read("allotrope-budgets/encode.toml");
    project.replace(
        "allotrope-budgets/encode.toml",
        "allocations = 1000",
        "allocations = many",
    );
    project
        .test(&[])
        .code(2)
        .has("FAIL  encode")
        .has("allotrope-budgets/encode.toml:8: ")
        .has("ok    decode");
    project.test(&["--accept", "encode"]).ok();
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
    let conflict = format!("<<<<<<< main\n{before}=======\n{before}>>>>>>> branch\n");
    project.write("allotrope-budgets/encode.toml", &conflict);
    project
        .test(&[])
        .code(2)
        .has("merge conflict in ./allotrope-budgets/encode.toml, line 1")
        .has("ok    decode");
    project.test(&["--accept", "encode"]).ok();
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
}

#[test]
fn stacks_that_are_missing_broken_or_of_other_numbers_are_named_and_written_again() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    let (file, before) = (
        "allotrope-budgets/encode.stacks",
        "allotrope-budgets/encode.stacks",
    );
    let before = project.read(before);
    let broken = format!("<<<<<<< main\n{before}");
    let other = before.replace("allocations=1000", "allocations=999");
    assert_ne!(other, before);
    for (text, note) in [
        (None, "encode has no accepted stacks"),
        (
            Some(broken),
            "merge conflict in ./allotrope-budgets/encode.stacks, line 1",
        ),
        (
            Some(other),
            "its accepted stacks sum to 999 allocations, but its number is 1000",
        ),
    ] {
        match text {
            Some(text) => project.write(file, &text),
            None => std::fs::remove_file(project.folder().join(file)).expect("it is there"),
        }
        project.test(&[]).ok().has(note);
        project.accept();
        assert_eq!(project.read(file), before);
        let printed = project.test(&[]).ok();
        printed.text().lacks("note");
    }
}

#[test]
fn a_failed_build_ends_the_command_and_shows_its_output() {
    let project = Project::with_cases(&["encode"]);
    let text = project.read("allotrope.toml");
    project.write(
        "allotrope.toml",
        &format!("build = \"echo no compiler; exit 3\"\n{text}"),
    );
    project
        .test(&[])
        .code(5)
        .says("the build failed: it ended with status 3")
        .says("no compiler");
    project.test(&["--no-build", "--accept"]).ok();
}

#[test]
fn a_closed_stdout_is_no_error() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    let script = "\"$0\" test | head -c 1; exit ${PIPESTATUS[0]}";
    let mut command = std::process::Command::new("bash");
    let program = record::command().get_program().to_owned();
    command
        .args(["-c", script])
        .arg(program)
        .current_dir(project.folder());
    run(&mut command, b"").ok().error_lines(0);
}

#[test]
fn init_does_not_overwrite_a_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let init = || {
        let mut command = record::command();
        run(
            command.args(["test", "--init"]).current_dir(folder.path()),
            b"",
        )
    };
    init().ok();
    assert!(folder.path().join("allotrope.toml").exists());
    init().code(2);
}

#[test]
fn ctrl_c_ends_the_test_and_its_program() {
    let project = Project::with_cases(&["hang", "encode"]);
    let mut command = record::command();
    command.arg("test").current_dir(project.folder());
    let test = Started::new(command.env("TMPDIR", project.recordings()));
    let folder = project.folder().canonicalize().expect("it is there");
    let running = || {
        let processes = std::fs::read_dir("/proc").expect("there is /proc");
        let mut folders = processes.filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = std::fs::read_link(path.join("exe")).ok()?;
            (name.ends_with("bench")).then(|| std::fs::read_link(path.join("cwd")).ok())?
        });
        folders.any(|cwd| cwd == folder)
    };
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !running() && std::time::Instant::now() < limit {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(running(), "the program was not started");
    test.signal(rustix::process::Signal::INT);
    test.end().fails(128 + 2, "stopped; nothing was compared");
    assert!(!running(), "the program runs on");
}

/// A test whose program starts a server in a session of its own, with this text before the
/// server, and ends with this status at once.
fn leaving_a_server(before: &str, status: u8, keys: &str) -> Project {
    let line = format!("({before} exec setsid sleep 3000 >/dev/null 2>&1) & echo $! >server");
    let project = Project::new(&format!(
        "warmup = 0\n[tests.server]\n{keys}\ncommand = [\"sh\", \"./start\"]\n"
    ));
    project.write("start", &format!("{line}\nexit {status}\n"));
    project
}

/// The server of the last run: its process id if it lives. (A zombie has no command line.)
fn living_server(project: &Project) -> Option<Pid> {
    let pid: i32 = project.read("server").trim().parse().expect("a number");
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.starts_with(b"sleep\0").then(|| Pid::from_raw(pid))?
}

#[test]
fn a_server_that_the_program_leaves_behind_is_ended() {
    let project = leaving_a_server("", 0, "");
    project.accept();
    assert_eq!(living_server(&project), None);
    let printed = project.test(&[]).ok();
    let printed = printed
        .has("the program ended and left")
        .has("/sleep behind, which was ended");
    printed.text().lacks("SIGTERM");
    assert_eq!(living_server(&project), None);
}

#[test]
fn a_server_that_ignores_sigterm_is_killed() {
    let project = leaving_a_server("trap '' TERM;", 0, "runs = 1");
    project.accept();
    assert_eq!(living_server(&project), None);
    let printed = project.test(&[]).ok();
    printed.has("/sleep behind, which was ended");
    assert_eq!(living_server(&project), None);
}

#[test]
fn the_verdict_is_that_of_the_program_whatever_it_leaves_behind() {
    let project = leaving_a_server("", 7, "");
    let printed = project.test(&[]).code(5);
    printed
        .has("ended with status 7")
        .has("/sleep behind, which was ended");
    assert_eq!(living_server(&project), None);
    let xml = project.test(&["--format", "junit"]).code(5);
    xml.has("<system-out>the program ended and left")
        .has("/sleep behind, which was ended");
}

#[test]
fn a_server_may_stay() {
    let project = leaving_a_server("", 0, "runs = 1\nleft-behind = \"leave\"");
    let end = || {
        let server = living_server(&project).expect("it was ended");
        kill_process(server, Signal::KILL).expect("it is ours");
    };
    let accepted = project.test(&["--accept"]);
    end();
    accepted.ok();
    let printed = project.test(&[]);
    end();
    printed.ok().has("/sleep behind, which runs on");
}

#[test]
fn what_becomes_of_a_server_is_one_of_two_words() {
    let project = leaving_a_server("", 0, "left-behind = \"kill\"");
    project
        .test(&[])
        .code(2)
        .says("tests.server.left-behind: it is \"end\" or \"leave\"");
}

/// As process 1 of a container, `test` inherits the processes whose parent has ended.
#[test]
fn orphans_are_waited_for_by_process_one() {
    // Status 5: nobody has left a zombie.
    let project = Project::new(&format!(
        "warmup = 0\n[tests.orphans]\nruns = 1\ncommand = [\"sh\", \"-c\", \"{}; test $? = 5\"]\n",
        compiled("orphans.c").display()
    ));
    let flags = if is_root() { "-pf" } else { "-Urpf" };
    let unshare = || {
        let mut command = std::process::Command::new("unshare");
        command
            .args([flags, "--mount-proc"])
            .current_dir(project.folder());
        command
    };
    let is_possible = unshare().arg("true").output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        return skip("the kernel refuses a pid namespace");
    }
    let program = record::command();
    let mut command = unshare();
    command
        .arg(program.get_program())
        .args(["test", "--accept"])
        .env("XDG_CACHE_HOME", project.folder().join(".cache"))
        .env("TMPDIR", project.recordings());
    run(&mut command, b"").ok();
}
