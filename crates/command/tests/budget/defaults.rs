//! What nobody had to ask for: metrics that are not gated, limits, what is refused.

use crate::project::Project;
use crate::support::Text;

const ENCODE: &str = "[tests.encode]\ncommand = [\"./bench\", \"encode\"]\n";

#[test]
fn an_ungated_metric_that_moved_is_said() {
    let project = Project::new(ENCODE);
    project.accept();
    // Not among the numbers, where two branches would conflict.
    let budget = project.read("allotrope-budgets/encode.toml");
    budget.has("\nallocations = 1000\nremaining = 0\n");
    // 1000 times 17 bytes instead of 16.
    project.replace("bench.c", "take(16)", "take(17)");
    project.compile(&[]);
    project
        .test(&[])
        .ok()
        .has("note: encode: bytes is not gated: 17,000 now, 16,000 accepted (+6 %)");
    project
        .test(&["--accept"])
        .ok()
        .has("encode: bytes 16,000 → 17,000");
    let printed = project.test(&[]).ok();
    printed.text().lacks("note");
    // One byte more is less than 1 % of 17,000.
    project.replace("bench.c", "take(17)", "take(17 + !i)");
    project.compile(&[]);
    let printed = project.test(&[]).ok();
    printed.text().lacks("note");
    // Accepting unchanged code changes no byte, also of what is not gated.
    project.accept();
    let stacks = project.read("allotrope-budgets/encode.stacks");
    stacks.has("\ncase encode\tallocations remaining\tbytes=17001\n");
    assert_eq!(project.read("allotrope-budgets/encode.toml"), budget);
    project.accept();
    assert_eq!(project.read("allotrope-budgets/encode.stacks"), stacks);
}

#[test]
fn what_is_watched_can_be_chosen() {
    let project = Project::new(&format!("watch = [\"peak\"]\n{ENCODE}"));
    project.accept();
    let stacks = project.read("allotrope-budgets/encode.stacks");
    stacks.has("\tpeak=16\n");
    project.replace("bench.c", "take(16)", "take(24)");
    project.compile(&[]);
    project
        .test(&[])
        .ok()
        .has("encode: peak is not gated: 24 now, 16 accepted (+50 %)");
    project.replace("allotrope.toml", "[\"peak\"]", "[]");
    let printed = project.test(&[]).ok();
    printed.text().lacks("note");
}

#[test]
fn a_limit_holds_whatever_is_accepted() {
    let limits = "limit = { peak = \"16 B\", leaked = 0 }\n";
    let project = Project::new(&format!("{limits}{ENCODE}"));
    project.accept();
    project.test(&[]).ok();
    let before = project.read("allotrope-budgets/encode.toml");
    project.replace("bench.c", "take(16)", "take(17)");
    project.compile(&[]);
    let why = "peak: 17, above its limit of 16 B";
    project.test(&[]).code(3).has(why).has("at most 16 B");
    project
        .test(&["--accept"])
        .code(3)
        .has(format!("encode: not accepted: encode: {why}"));
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
    // The regression leaves 50 allocations behind.
    project.replace("allotrope.toml", "\"16 B\"", "\"1 KiB\"");
    project.compile(&["-DWORSE"]);
    let why = "remaining: 50, above its limit of 0";
    project.test(&[]).code(3).has(why);
    project.test(&["--accept"]).code(3).has(why);
    project.replace("allotrope.toml", "leaked = 0", "leaked = 50");
    project.test(&["--accept"]).ok();
    project.replace("allotrope.toml", "\"1 KiB\"", "\"1 kib\"");
    project
        .test(&[])
        .code(2)
        .says("allotrope.toml:3: defaults.limit.peak: \"1 kib\" is no number of bytes");
    project.replace("allotrope.toml", "\"1 kib\"", "1024, leaked_fds = \"1 B\"");
    project
        .test(&[])
        .code(2)
        .says("it counts things that have no unit");
}

#[test]
fn a_test_reads_a_file_from_its_standard_input() {
    let project =
        Project::new("[tests.input]\ncommand = [\"./bench\", \"input\"]\nstdin = \"seven.txt\"\n");
    project
        .test(&[])
        .code(2)
        .says("test input: cannot read its `stdin` ./seven.txt: No such file");
    project.write("seven.txt", "seven..");
    project
        .test(&["--accept"])
        .ok()
        .has("input: allocations none → 7");
    project.test(&[]).ok();
    project.test(&["--no-record"]).ok().has("/seven.txt");
    project.write("folder", "");
    project.replace("allotrope.toml", "seven.txt", "..");
    project.test(&[]).code(2).says("it is a folder");
}

#[test]
fn nothing_is_not_accepted() {
    let project = Project::with_cases(&["encode"]);
    project.replace("allotrope.toml", "\"encode\"]", "\"encod\"]");
    project
        .test(&["--accept"])
        .code(5)
        .has("encode: not accepted: encode: the whole program made no allocation");
    assert!(!project.folder().join("allotrope-budgets").exists());
    project.replace("allotrope.toml", "\"encod\"]", "\"encode\"]");
    project.accept();
    let before = project.read("allotrope-budgets/encode.toml");
    project.replace("allotrope.toml", "\"encode\"]", "\"encod\"]");
    project
        .test(&["--accept"])
        .code(5)
        .has("encode: not accepted: encode: ");
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
}

#[test]
fn accepting_marks_rises_and_can_refuse_them() {
    let project = Project::with_cases(&["encode", "decode"]);
    let improve = ["--accept", "--only-improvements"];
    // What has no number yet has not fallen.
    project
        .test(&improve)
        .code(3)
        .has("not accepted: encode: allocations none → 1,000");
    assert!(
        !project
            .folder()
            .join("allotrope-budgets/encode.toml")
            .exists()
    );
    project.accept();
    let files = ["encode.toml", "encode.stacks"].map(|file| format!("allotrope-budgets/{file}"));
    let before = files.each_ref().map(|file| project.read(file));
    project.compile(&["-DWORSE", "-DBETTER"]);
    let printed = project
        .test(&improve)
        .code(3)
        .has("not accepted: encode: allocations 1,000 → 1,050 (+50, rose)")
        .has("not accepted: encode: remaining 0 → 50 (+50, rose)")
        .has("\ndecode: allocations 500 → 400 (-100)\n");
    printed.text().lacks("\nencode:");
    assert_eq!(files.each_ref().map(|file| project.read(file)), before);
    project.test(&["decode"]).ok();
    // 50 allocations of 7 bytes more.
    project
        .test(&["--accept"])
        .ok()
        .has("encode: allocations 1,000 → 1,050 (+50, rose)")
        .has("\nrose: encode allocations +50, encode remaining +50, encode bytes +350\n");
    project.test(&improve).ok();
    project.test(&["--only-improvements"]).code(2);
}

#[test]
fn a_child_that_dies_is_mentioned() {
    let project = Project::with_cases(&["children"]);
    project.accept();
    project
        .test(&[])
        .ok()
        .has("note: a child process ended with status 3:")
        .has("note: a child process was ended by SIGKILL:");
}

#[test]
fn the_budgets_of_other_configurations_stay() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    let other = "[tests.other]\ncommand = [\"./bench\", \"decode\"]\n";
    project.write("other.toml", other);
    let config = ["--config", "other.toml"];
    project.test(&[&config[..], &["--accept"]].concat()).ok();
    for arguments in [&[][..], &config] {
        let printed = project.test(arguments).ok();
        printed.text().lacks("no longer exist");
        let prune = [arguments, &["--prune"]].concat();
        project.test(&prune).ok().has("every budget has a test");
    }
    // A file that cannot be read may be such a configuration.
    project.write("other.toml", "[tests");
    project
        .test(&["--prune"])
        .code(2)
        .says("other.toml:1: this is no TOML");
    let printed = project.test(&[]).ok();
    printed.text().lacks("no longer exist");
    std::fs::remove_file(project.folder().join("other.toml")).expect("it was written");
    project
        .test(&["--prune"])
        .ok()
        .has("removed ./allotrope-budgets/other.toml");
}

#[test]
fn an_allow_list_names_stacks_a_bound_and_a_reason() {
    let rule = |metric: &str| {
        format!(
            "[[tests.encode.allow]]\nstack = \"encode\"\nmetric = \"{metric}\"\n\
             up-to = 50\nreason = \"the new cache\"\n"
        )
    };
    let project = Project::new(&format!(
        "{ENCODE}{}{}",
        rule("allocations"),
        rule("remaining")
    ));
    project.accept();
    let before = project.read("allotrope-budgets/encode.toml");
    project.compile(&["-DWORSE"]);
    project
        .test(&[])
        .ok()
        .has("encode: allocations +50, 50 of them allowed: the new cache")
        .has("encode: remaining +50, 50 of them allowed: the new cache");
    // What is allowed is not accepted, or the rule would allow as much again.
    project.accept();
    let after = project.read("allotrope-budgets/encode.toml");
    let number = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.map(str::to_owned)
    };
    for name in ["allocations", "remaining"] {
        assert_eq!(number(&after, name), number(&before, name));
    }
    project.replace("bench.c", "i < 50;", "i < 51;");
    project.compile(&["-DWORSE"]);
    let printed = project.test(&[]).code(3).has("50 of them allowed");
    printed.text().lacks("stacks sum");
    // Other stacks are not allowed more.
    project.compile(&[]);
    project.replace(
        "allotrope.toml",
        "\"encode\"\nmetric",
        "\"no_such_function\"\nmetric",
    );
    project
        .test(&[])
        .ok()
        .has("the rule that allows `no_such_function` (the new cache)");
    project.compile(&["-DWORSE"]);
    project.test(&[]).code(3);
    project.replace("allotrope.toml", "up-to", "upto");
    project
        .test(&[])
        .code(2)
        .says("tests.encode.allow.upto: there is no such key; did you mean `up-to`?");
}

#[test]
fn an_unoptimised_build_is_said_and_a_changed_option_is_a_suspect() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    let printed = project.test(&[]).ok();
    printed.text().lacks("optimisation");
    project.compile(&["-O0", "-DWORSE"]);
    project
        .test(&[])
        .code(3)
        .has("note: built without optimisation: bench;")
        .has("compiler options: ")
        .has("optimisation: off, was on");
    project
        .test(&["--accept"])
        .ok()
        .has("encode: note: built without optimisation: bench;");
    let folder = project.folder().join("allotrope-budgets/made-with");
    let files = std::fs::read_dir(folder).expect("it was written");
    let texts: Vec<String> = files
        .map(|file| std::fs::read_to_string(file.expect("one").path()).expect("a text"))
        .collect();
    assert!(
        texts
            .iter()
            .any(|text| text.contains("\noptimised = false\n")),
        "{texts:?}"
    );
    // Green with the numbers of such a build: no news.
    let printed = project.test(&[]).ok();
    printed.text().lacks("optimisation");
}
