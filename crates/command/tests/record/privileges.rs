//! Programs that gain rights are not recorded, even where `/etc/ld.so.preload` loads the recorder
//! into every program. The tests run in a mount namespace of their own, below a root folder of
//! their own: in the machine's own `/etc` nothing is written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{compiled, is_root, record, run, skip};
use tempfile::TempDir;

/// The name of the recorder below the root folder. Its own, by which the parts of a recording
/// find it, too.
const RECORDER: &str = "/liballotrope_recorder.so";

/// A root folder with the programs `plain`, `setuid`, `setgid` and `capable`, all of them
/// `privileged.c`, and with the recorder in `/etc/ld.so.preload`.
struct Root(TempDir);

impl Root {
    /// `None`: the test was skipped.
    fn new() -> Option<Self> {
        if !is_root() {
            skip("only root can make another user's setuid program");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = Self(folder);
        let everybody = || fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.path(), everybody()).expect("the folder is ours");
        for folder in ["usr", "proc", "dev", "etc", "tmp"] {
            fs::create_dir(root.path().join(folder)).expect("the folder is ours");
        }
        let tmp = root.path().join("tmp");
        fs::set_permissions(tmp, fs::Permissions::from_mode(0o1777)).expect("the folder is ours");
        for link in ["bin", "lib", "lib64", "sbin"] {
            let target = fs::read_link(Path::new("/").join(link));
            let Ok(target) = target else {
                skip(
                    "the kernel refuses a root folder of links, as this machine has no merged /usr",
                );
                return None;
            };
            symlink(target, root.path().join(link)).expect("the folder is ours");
        }
        root.copy(Path::new(env!("CARGO_BIN_EXE_allotrope")), "allotrope");
        let preloaded = record("sh").args(["-c", "echo $LD_PRELOAD"]).run();
        let preloaded = String::from_utf8(preloaded.expect_status(0).stdout).expect("a path");
        root.copy(Path::new(preloaded.trim()), &RECORDER[1..]);
        fs::write(root.path().join("etc/ld.so.preload"), RECORDER).expect("the folder is ours");
        for (name, mode) in [("plain", 0o755), ("setuid", 0o4755), ("setgid", 0o2755)] {
            let program = root.copy(&compiled("privileged.c"), name);
            fs::set_permissions(program, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let mount = rustix::fs::statvfs(root.path()).expect("it exists");
        if mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
            skip("the temporary folder is mounted nosuid");
            return None;
        }
        if !root.run("", &["/plain"]).status.success() {
            skip("the kernel refuses mount namespaces");
            return None;
        }
        Some(root)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Copies a file, in a process of its own: a child that another test forks meanwhile would
    /// inherit the open copy, which then could not be executed.
    fn copy(&self, from: &Path, name: &str) -> std::path::PathBuf {
        let to = self.path().join(name);
        let copied = Command::new("cp").arg(from).arg(&to).status();
        assert!(copied.expect("cp runs").success());
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("it is ours");
        to
    }

    /// Runs a command below the root folder as nobody, with an assignment to a variable.
    fn run(&self, assignment: &str, command: &[&str]) -> Output {
        let script = "set -e; root=$1; shift
            for it in usr proc dev; do mount --rbind /$it \"$root/$it\"; done
            exec chroot \"$root\" setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        unshare.arg(self.path()).arg("env").arg("HOME=/tmp");
        unshare
            .args(Some(assignment).filter(|it| !it.is_empty()))
            .args(command);
        run(&mut unshare, b"")
    }
}

/// What `privileged.c` printed of one process.
struct Shown {
    pid: u32,
    is_secure: bool,
    recording: i32,
    maps: Vec<String>,
    descriptors: usize,
}

impl Shown {
    /// Returns what all processes printed, in the order in which they did.
    fn all(output: &Output) -> Vec<Self> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut all: Vec<Self> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match (&words[..], all.last_mut()) {
                (["process", pid, "secure", secure, "recording", recording], _) => all.push(Self {
                    pid: pid.parse().expect("an id"),
                    is_secure: *secure == "1",
                    recording: recording.parse().expect("a number"),
                    maps: Vec::new(),
                    descriptors: 0,
                }),
                (["map", ..], Some(last)) => last.maps.push(line.to_owned()),
                (["descriptor", ..], Some(last)) => last.descriptors += 1,
                _ => {}
            }
        }
        all
    }

    fn has_recorder(&self) -> bool {
        self.maps.iter().any(|it| it.contains(RECORDER))
    }

    fn maps_memory_file(&self) -> bool {
        self.maps.iter().any(|it| it.contains("memfd:"))
    }

    /// Pages of anonymous memory.
    fn anonymous(&self) -> usize {
        let of_nothing = self.maps.iter().filter(|it| it.ends_with(" 00:00 0 "));
        let bytes = of_nothing.map(|it| {
            let range = it.split(' ').nth(1).expect("a range");
            let (from, to) = range.split_once('-').expect("a range");
            let number = |text| usize::from_str_radix(text, 16).expect("an address");
            number(to) - number(from)
        });
        bytes.sum::<usize>() >> 12
    }
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The recorder is in the process, and has done nothing there. `without`: the same program where
/// nothing is to be recorded.
fn expect_nothing(what: &str, shown: &Shown, without: &Shown) {
    assert!(shown.is_secure && without.is_secure, "{what}");
    assert!(shown.has_recorder(), "{what}: {:#?}", shown.maps);
    assert_eq!(shown.recording, 0, "{what}");
    assert!(!shown.maps_memory_file(), "{what}: {:#?}", shown.maps);
    assert_eq!(
        shown.anonymous(),
        without.anonymous(),
        "{what}: {:#?}",
        shown.maps
    );
}

/// Records what an ordinary user starts; `program` gains rights.
fn expect_not_recorded(root: &Root, program: &str, why: &str) {
    let without = &Shown::all(&root.run("", &[program]))[0];
    for option in [None, Some("--counts-only"), Some("--free-stacks")] {
        let what = format!("{program} {option:?}");
        let trace = "/tmp/recorded.allotrope";
        let mut command = vec!["/allotrope", "record", "--recorder", RECORDER, "-o", trace];
        command.extend(option);
        command.extend(["/plain", program]);
        let output = root.run("", &command);
        let all = Shown::all(&output);
        let [gained, parent] = &all[..] else {
            panic!("{what}: {}", printed(&output));
        };
        assert!(parent.recording > 0 && parent.maps_memory_file(), "{what}");
        expect_nothing(&what, gained, without);
        assert_eq!(gained.descriptors, parent.descriptors, "{what}");
        let named = format!("{} ({program}) was not recorded: {why}", gained.pid);
        assert!(
            printed(&output).contains(&named),
            "{what}: {}",
            printed(&output)
        );
        let report = root.run("", &["/allotrope", "report", trace, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let images = report["processes"].as_array().expect("processes");
        let pids: Vec<u64> = images.iter().filter_map(|it| it["pid"].as_u64()).collect();
        assert_eq!(
            pids.iter()
                .filter(|it| **it == u64::from(parent.pid))
                .count(),
            pids.len()
        );
    }
    for request in ["watch:1", "watch:0"] {
        let assignment = format!("ALLOTROPE_ARENA={request}");
        let shown = &Shown::all(&root.run(&assignment, &[program]))[0];
        expect_nothing(&format!("{program} {request}"), shown, without);
        assert_eq!(
            shown.descriptors, without.descriptors,
            "{program} {request}"
        );
        // Others are prepared by the same request.
        let plain = &Shown::all(&root.run(&assignment, &["/plain"]))[0];
        assert!(plain.maps_memory_file(), "{:#?}", plain.maps);
    }
}

#[test]
fn a_setuid_program() {
    let Some(root) = Root::new() else { return };
    expect_not_recorded(
        &root,
        "/setuid",
        "it runs with another user's or group's rights",
    );
}

#[test]
fn a_setgid_program() {
    let Some(root) = Root::new() else { return };
    expect_not_recorded(
        &root,
        "/setgid",
        "it runs with another user's or group's rights",
    );
}

#[test]
fn a_program_with_file_capabilities() {
    let Some(root) = Root::new() else { return };
    let program = root.copy(&compiled("privileged.c"), "capable");
    let set = Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(program)
        .status();
    if !set.is_ok_and(|it| it.success()) {
        return skip(
            "file capabilities cannot be set here (root only; Debian package libcap2-bin)",
        );
    }
    expect_not_recorded(&root, "/capable", "it has file capabilities");
}

/// A setuid program becomes root for good and starts another one, as `su` does. The kernel does
/// not mark that one any more, and its environment is still the user's.
#[test]
fn a_child_of_a_setuid_program() {
    let Some(root) = Root::new() else { return };
    let trace = "/tmp/recorded.allotrope";
    let record = ["/allotrope", "record", "--recorder", RECORDER, "-o", trace];
    let command = [&record[..], &["/plain", "/setuid", "--for-good", "/plain"]].concat();
    let output = root.run("", &command);
    let all = Shown::all(&output);
    let [child, gained, parent] = &all[..] else {
        panic!("{}", printed(&output));
    };
    assert!(!child.is_secure && gained.is_secure && !parent.is_secure);
    assert!(child.has_recorder(), "{:#?}", child.maps);
    assert!(!child.maps_memory_file(), "{:#?}", child.maps);
    assert_eq!((child.recording, gained.recording), (0, 0));
    assert!(parent.recording > 0);
}

/// Root's own recording is not affected by who else could have set the environment.
#[test]
fn a_program_of_the_same_user_is_recorded_without_ld_preload() {
    let Some(root) = Root::new() else { return };
    let trace = "/tmp/recorded.allotrope";
    let record = ["/allotrope", "record", "--recorder", RECORDER, "-o", trace];
    let command = [&record[..], &["env", "-u", "LD_PRELOAD", "/plain"]].concat();
    let output = root.run("", &command);
    let shown = &Shown::all(&output)[0];
    assert!(shown.recording > 0, "{}", printed(&output));
}
