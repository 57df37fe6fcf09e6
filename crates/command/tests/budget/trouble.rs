//! Tests that crash, hang or cannot be started, configurations and budgets that
//! cannot be read: each is reported as what it is, and the other tests still run.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::project::Project;
use crate::support::{compiled, is_root, record, run, skip};

#[test]
fn each_way_to_fail_is_reported_as_what_it_is() {
    let cases = ["crash", "status", "hang", "pipe", "encode"];
    let project = Project::with_cases(&cases);
    project.replace("allotrope.toml", "\"hang\"]", "\"hang\"]\ntimeout = 2");
    let printed = project.test(&["--accept"]).expect(5);
    for (case, what) in [
        ("crash", "ended by SIGSEGV"),
        ("status", "ended with status 7"),
        ("hang", "did not end within 2 s"),
        (
            "pipe",
            "ended by SIGPIPE: it wrote to a pipe that nobody reads any more",
        ),
    ] {
        let lines: Vec<&str> = printed.stdout.lines().collect();
        let line = lines.iter().find(|line| line.starts_with(case));
        let line = line.unwrap_or_else(|| panic!("{case} in {}", printed.stdout));
        assert!(
            line.contains("not accepted") && line.contains(what),
            "{line}"
        );
    }
    assert!(printed.stdout.contains("encode: allocations none → 1,000"));
    // The report shows the end of what the test printed.
    project.test(&["crash"]).expect(5).has("| about to crash");
    project.test(&["encode"]).expect(0);
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
    let printed = project.test(&[]).expect(5);
    let printed = printed
        .has("could not be started: the program ./no-such-program")
        .has("its `folder` ./no/such does not exist")
        .has("was not recorded: cannot record ./static");
    assert!(
        !printed.stdout.contains("| allotrope"),
        "{}",
        printed.stdout
    );
}

#[test]
fn an_error_in_the_configuration_is_reported_with_line_and_key() {
    let project = Project::with_cases(&["encode"]);
    project.replace("allotrope.toml", "command =", "comand =");
    project.test(&[]).expect(2).stderr_has(
        "allotrope.toml:4: tests.encode.comand: there is no such key; did you mean `command`?",
    );
    project
        .test(&["--config", "none.toml"])
        .expect(2)
        .stderr_has("cannot read none.toml");
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
        .expect(2)
        .has("FAIL  encode")
        .has("allotrope-budgets/encode.toml:8: ")
        .has("ok    decode");
    project.test(&["--accept", "encode"]).expect(0);
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
    let conflict = format!("<<<<<<< main\n{before}=======\n{before}>>>>>>> branch\n");
    project.write("allotrope-budgets/encode.toml", &conflict);
    project
        .test(&[])
        .expect(2)
        .has("merge conflict in ./allotrope-budgets/encode.toml, line 1")
        .has("ok    decode");
    project.test(&["--accept", "encode"]).expect(0);
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
        project.test(&[]).expect(0).has(note);
        project.accept();
        assert_eq!(project.read(file), before);
        let printed = project.test(&[]).expect(0);
        assert!(!printed.stdout.contains("note"), "{}", printed.stdout);
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
        .expect(5)
        .stderr_has("the build failed: it ended with status 3")
        .stderr_has("no compiler");
    project.test(&["--no-build", "--accept"]).expect(0);
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
    let output = run(&mut command, b"");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
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
    assert_eq!(init().status.code(), Some(0));
    assert!(folder.path().join("allotrope.toml").exists());
    assert_eq!(init().status.code(), Some(2));
}

#[test]
fn ctrl_c_ends_the_test_and_its_program() {
    let project = Project::with_cases(&["hang", "encode"]);
    let mut command = record::command();
    let child = command
        .arg("test")
        .current_dir(project.folder())
        .env("TMPDIR", project.recordings())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started");
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
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("it is above 0");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = record::finish(child, b"").expect("it ends");
    assert_eq!(output.status.code(), Some(128 + 2));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("stopped; nothing was compared"),
        "{printed}"
    );
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
    let printed = project.test(&[]).expect(0);
    let printed = printed
        .has("the program ended and left")
        .has("/sleep behind, which was ended");
    assert!(!printed.stdout.contains("SIGTERM"), "{}", printed.stdout);
    assert_eq!(living_server(&project), None);
}

#[test]
fn a_server_that_ignores_sigterm_is_killed() {
    let project = leaving_a_server("trap '' TERM;", 0, "runs = 1");
    project.accept();
    assert_eq!(living_server(&project), None);
    let printed = project.test(&[]).expect(0);
    printed.has("/sleep behind, which was ended");
    assert_eq!(living_server(&project), None);
}

#[test]
fn the_verdict_is_that_of_the_program_whatever_it_leaves_behind() {
    let project = leaving_a_server("", 7, "");
    let printed = project.test(&[]).expect(5);
    printed
        .has("ended with status 7")
        .has("/sleep behind, which was ended");
    assert_eq!(living_server(&project), None);
    let xml = project.test(&["--format", "junit"]).expect(5);
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
    accepted.expect(0);
    let printed = project.test(&[]);
    end();
    printed.expect(0).has("/sleep behind, which runs on");
}

#[test]
fn what_becomes_of_a_server_is_one_of_two_words() {
    let project = leaving_a_server("", 0, "left-behind = \"kill\"");
    project
        .test(&[])
        .expect(2)
        .stderr_has("tests.server.left-behind: it is \"end\" or \"leave\"");
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
    let accepted: crate::project::Finished = run(&mut command, b"").into();
    accepted.expect(0);
}
