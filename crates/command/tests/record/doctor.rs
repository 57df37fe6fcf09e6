//! `doctor`: whether this machine and a program can be recorded.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::support::{
    Ended, Text, allotrope, command, compiled, compiled_with, is_root, run, skip,
};

fn printed(output: &Ended) -> String {
    format!("{}{}", output.text(), output.errors())
}

#[test]
fn this_machine() {
    let output = allotrope(["doctor"]).ok();
    printed(&output).has("glibc");
}

#[test]
fn a_program_that_can_be_recorded() {
    let program = compiled("stream.c");
    allotrope(["doctor".as_ref(), program.as_os_str()]).ok();
}

#[test]
fn a_static_program() {
    let program = compiled_with("stream.c", &["-static"]);
    let output = allotrope(["doctor".as_ref(), program.as_os_str()]);
    assert_ne!(output.status.code(), Some(0), "{}", printed(&output));
    printed(&output).has("static");
}

#[test]
fn a_missing_program() {
    let output = allotrope(["doctor", "/no/such/program"]);
    assert_ne!(output.status.code(), Some(0));
    printed(&output).has("/no/such/program");
}

/// Each line of the script prints what it found; the folder is the user's own.
const CLEAN: &str = r#"
set -e
clean() { "$ALLOTROPE" doctor --clean "$@" 2>&1 | sed "s/^/$1: /"; }
folder=$FOLDER/allotrope
mkdir -p "$folder"
# A hash of its own: other tests have the usual library loaded.
library=$folder/liballotrope_recorder-$(printf %016x $$).so
"$ALLOTROPE" recorder -o "$library" 2> /dev/null
LD_PRELOAD=$library ALLOTROPE_WATCH=standby sleep 60 &
sleeper=$!
until grep -q "$library" /proc/$sleeper/maps; do sleep 0.01; done
clean --yes
kill $sleeper
wait $sleeper || true
echo > "$folder/liballotrope_recorder-0123456789abcdef.so.mine"
ln -s /bin/true "$folder/liballotrope_recorder-0123456789abcdef.so"
clean --format=json
clean --format=text
clean --yes
ls "$folder"
"#;

/// What the script prints: while a process has the recorder loaded, and when it has ended.
fn check_clean(text: &str) {
    let part = |name: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|it| it.strip_prefix(name));
        lines.map(str::to_owned).collect()
    };
    let removed = part("--yes: ");
    let [in_use, gone] = &removed[..] else {
        panic!("{text}");
    };
    in_use.has_all([
        "stays",
        "liballotrope_recorder-",
        "is loaded in process",
        "(sleep)",
    ]);
    gone.has_all(["removed", "liballotrope_recorder-"]);
    let listed = part("--format=text: ");
    assert_eq!(listed.len(), 2, "{text}");
    listed[0].has_all(["removable", "liballotrope_recorder-"]);
    listed[1].has("allotrope doctor --clean --yes");
    let json: serde_json::Value = serde_json::from_str(&part("--format=json: ")[0]).expect("JSON");
    assert_eq!(json["format"], "allotrope-doctor-clean/1");
    assert_eq!(json["left"][0]["kind"], "file", "{json:#}");
    assert_eq!(json["left"][0]["state"], "removable", "{json:#}");
    // What only looks so is still there: a link, and another name.
    let names: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(
        names,
        [
            "liballotrope_recorder-0123456789abcdef.so.mine",
            "liballotrope_recorder-0123456789abcdef.so",
        ],
        "{text}"
    );
}

#[test]
fn what_was_left_in_root_s_folder_is_cleaned_away() {
    if !is_root() {
        return skip("only root has /run/allotrope");
    }
    let script = format!(
        "for it in /run /var/tmp /dev/shm; do mount -t tmpfs none $it || exit 99; done\nFOLDER=/run\n{CLEAN}"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "bash", "-c", &script]);
    let ended = run(
        unshare
            .env("ALLOTROPE", command().get_program())
            .env("ALLOTROPE_HOLDER", "clean-root"),
        b"",
    );
    if ended.status.code() == Some(99) {
        return skip("the kernel refuses a mount namespace");
    }
    check_clean(&ended.ok().text());
}

#[test]
fn what_another_user_has_left_stays() {
    const USER: u32 = 61_234;
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("allotrope");
    std::fs::create_dir(&mine).expect("our folder");
    let foreign = mine.join("liballotrope_recorder-fedcba9876543210.so");
    std::fs::write(&foreign, "x").expect("our folder");
    let mut bash = match is_root() {
        true => {
            let everybody = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), everybody).expect("our folder");
            chown(&mine, Some(USER), Some(USER)).expect("we are root");
            let mut setpriv = Command::new("setpriv");
            let user = format!("--reuid={USER}");
            let group = format!("--regid={USER}");
            setpriv.args([&*user, &*group, "--clear-groups", "bash"]);
            setpriv
        }
        false => {
            std::fs::remove_file(&foreign).expect("our file");
            Command::new("bash")
        }
    };
    bash.args(["-c", CLEAN])
        .env("ALLOTROPE", command().get_program());
    for variable in ["FOLDER", "XDG_RUNTIME_DIR", "HOME"] {
        bash.env(variable, folder.path());
    }
    let ended = run(bash.env("ALLOTROPE_HOLDER", "clean-user"), b"").ok();
    let text = ended.text();
    assert_eq!(text.contains("fedcba9876543210"), is_root(), "{text}");
    assert_eq!(foreign.exists(), is_root());
    // Only `ls` names it.
    let kept = text
        .lines()
        .filter(|it| *it != "liballotrope_recorder-fedcba9876543210.so");
    check_clean(&kept.map(|it| format!("{it}\n")).collect::<String>());
}
