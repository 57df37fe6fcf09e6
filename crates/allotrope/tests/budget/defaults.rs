//! What nobody had to ask for: metrics that are not gated, limits, what is refused.

use crate::project::Project;

const ENCODE: &str = "[tests.encode]\ncommand = [\"./bench\", \"encode\"]\n";

#[test]
fn an_ungated_metric_that_moved_is_said() {
    let project = Project::new(ENCODE);
    project.accept();
    let budget = project.read("allotrope-budgets/encode.toml");
    assert!(
        budget.contains("\nallocations = 1000\nbytes = 16000\nremaining = 0\n"),
        "{budget}"
    );
    // 1000 times 17 bytes instead of 16.
    project.replace("bench.c", "take(16)", "take(17)");
    project.compile(&[]);
    project
        .test(&[])
        .expect(0)
        .has("note: encode: bytes is not gated: 17,000 now, 16,000 accepted (+6 %)");
    project
        .test(&["--accept"])
        .expect(0)
        .has("encode: bytes 16,000 → 17,000");
    let printed = project.test(&[]).expect(0);
    assert!(!printed.stdout.contains("note"), "{}", printed.stdout);
    // One byte more is less than 1 % of 17,000.
    project.replace("bench.c", "take(17)", "take(17 + !i)");
    project.compile(&[]);
    let printed = project.test(&[]).expect(0);
    assert!(!printed.stdout.contains("note"), "{}", printed.stdout);
    // Accepting unchanged code changes no byte, also of what is not gated.
    project.accept();
    let budget = project.read("allotrope-budgets/encode.toml");
    assert!(budget.contains("\nbytes = 17001\n"), "{budget}");
    project.accept();
    assert_eq!(project.read("allotrope-budgets/encode.toml"), budget);
}

#[test]
fn what_is_watched_can_be_chosen() {
    let project = Project::new(&format!("watch = [\"peak\"]\n{ENCODE}"));
    project.accept();
    let budget = project.read("allotrope-budgets/encode.toml");
    assert!(
        budget.contains("\nallocations = 1000\nremaining = 0\npeak = 16\n"),
        "{budget}"
    );
    project.replace("bench.c", "take(16)", "take(24)");
    project.compile(&[]);
    project
        .test(&[])
        .expect(0)
        .has("encode: peak is not gated: 24 now, 16 accepted (+50 %)");
    project.replace("allotrope.toml", "[\"peak\"]", "[]");
    let printed = project.test(&[]).expect(0);
    assert!(!printed.stdout.contains("note"), "{}", printed.stdout);
}

#[test]
fn a_limit_holds_whatever_is_accepted() {
    let limits = "limit = { peak = \"16 B\", leaked = 0 }\n";
    let project = Project::new(&format!("{limits}{ENCODE}"));
    project.accept();
    project.test(&[]).expect(0);
    let before = project.read("allotrope-budgets/encode.toml");
    project.replace("bench.c", "take(16)", "take(17)");
    project.compile(&[]);
    let why = "peak: 17, above its limit of 16 B";
    project.test(&[]).expect(3).has(why).has("at most 16 B");
    project
        .test(&["--accept"])
        .expect(3)
        .has(&format!("encode: not accepted: encode: {why}"));
    assert_eq!(project.read("allotrope-budgets/encode.toml"), before);
    // The regression leaves 50 allocations behind.
    project.replace("allotrope.toml", "\"16 B\"", "\"1 KiB\"");
    project.compile(&["-DWORSE"]);
    let why = "remaining: 50, above its limit of 0";
    project.test(&[]).expect(3).has(why);
    project.test(&["--accept"]).expect(3).has(why);
    project.replace("allotrope.toml", "leaked = 0", "leaked = 50");
    project.test(&["--accept"]).expect(0);
    project.replace("allotrope.toml", "\"1 KiB\"", "\"1 kib\"");
    project
        .test(&[])
        .expect(2)
        .stderr_has("allotrope.toml:3: defaults.limit.peak: \"1 kib\" is no number of bytes");
    project.replace("allotrope.toml", "\"1 kib\"", "1024, leaked_fds = \"1 B\"");
    project
        .test(&[])
        .expect(2)
        .stderr_has("it counts things that have no unit");
}
