//! Numbers that fluctuate: what is accepted, the verdict, and that accepting unchanged code
//! changes no file.

use std::process::Command;
use std::time::Duration;

use crate::project::Project;
use crate::support::{Text, record, skip};

/// Ten runs after one of warm-up, each with a given number of allocations.
fn project() -> Project {
    Project::new("[tests.listed]\ncommand = [\"./bench\", \"listed\"]\nruns = 10\n")
}

impl Project {
    /// The next runs of the program make these numbers of allocations, in addition to the
    /// same ones of the C library in each run.
    fn list(&self, numbers: [u32; 10]) {
        let _ = std::fs::remove_file(self.folder().join("count"));
        let lines = std::iter::once(0).chain(numbers);
        let lines: String = lines.map(|number| format!("{number}\n")).collect();
        self.write("list", &lines);
    }

    /// The allocations of the C library in each run, from a run without others.
    fn own(&self) -> u32 {
        self.list([0; 10]);
        let json: serde_json::Value = self.test(&["--format", "json"]).code(3).json();
        let samples = &json["tests"][0]["cases"][0]["samples"];
        let number = samples[0]["allocations"].as_u64().expect("it is known");
        u32::try_from(number).expect("it is small")
    }

    /// All files of the budget folder.
    fn budgets(&self) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.folder().join("allotrope-budgets"));
        let mut files: Vec<_> = entries
            .expect("something was accepted")
            .filter_map(|entry| {
                let path = entry.expect("it can be read").path();
                Some((
                    path.display().to_string(),
                    std::fs::read_to_string(path).ok()?,
                ))
            })
            .collect();
        files.sort();
        files
    }
}

const ACCEPTED: [u32; 10] = [1010, 1000, 1020, 1005, 1040, 1006, 1007, 1008, 1009, 1011];

#[test]
fn a_number_that_fluctuates_is_accepted_as_a_range() {
    let project = project();
    let own = project.own();
    project.list(ACCEPTED);
    // The lower median of the ten is 1008.
    let number = |listed: u32| own + listed;
    project.accept();
    let line = format!(
        "\nallocations = {{ least = {}, typical = {}, most = {}, runs = 10 }}\n",
        number(1000),
        number(1008),
        number(1040)
    );
    let budget = project.read("allotrope-budgets/listed.toml");
    budget.has(&line);
    // The stacks are those of the typical run.
    let stacks = project.read("allotrope-budgets/listed.stacks");
    stacks.has("allocations=1008\n");
}

#[test]
fn within_the_noise_is_green_and_accepting_it_changes_no_byte() {
    let project = project();
    project.list(ACCEPTED);
    project.accept();
    let before = project.budgets();
    // The noise is 1000 to 1040 and 20 more on both sides.
    for numbers in [[1060; 10], [980; 10], [500, 1, 2, 3, 4, 5, 6, 7, 8, 980]] {
        project.list(numbers);
        project.test(&[]).ok().has("(within noise)");
        project.list(numbers);
        project.test(&["--accept", "--because", "none"]).ok();
        assert_eq!(project.budgets(), before);
    }
}

#[test]
fn beyond_the_noise_is_red_and_the_proposed_tolerance_allows_it() {
    let project = project();
    project.list(ACCEPTED);
    project.accept();
    let mut numbers = [1061; 10];
    numbers[4] = 1100;
    project.list(numbers);
    // The typical run has 1061 instead of 1008.
    let printed = project.test(&[]).code(3).has("exceeded").has("+53 ").text();
    let mut lines = printed.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with("tolerance = "));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    let text = project.read("allotrope.toml");
    project.write("allotrope.toml", &format!("{text}{line}\n"));
    project.list(numbers);
    project.test(&[]).ok();
    project.replace("allotrope.toml", line, "");
    project.list([979; 10]);
    project.test(&[]).code(4).has("improved");
}

#[test]
fn an_exact_number_is_not_ratcheted_down_by_a_lucky_run() {
    let project = project();
    project.list([1000; 10]);
    project.accept();
    let mut numbers = [1000; 10];
    numbers[7] = 900;
    project.list(numbers);
    project.test(&[]).ok().has("(within noise)");
    project.list([999; 10]);
    project.test(&[]).code(4);
    project.list([1001; 10]);
    project.test(&[]).code(3);
}

#[test]
fn a_reason_stays_beside_its_number_until_the_number_changes() {
    let project = project();
    project.list([1000; 10]);
    project.accept();
    project.list([1001; 10]);
    let accept = ["--accept", "--because", "keeps \"one\" more"];
    project.test(&accept).ok();
    let reason = "because = 'keeps \"one\" more' }";
    let text = project.read("allotrope-budgets/listed.toml");
    text.has(reason);
    // `remaining` did not change.
    text.has("\nremaining = 0");
    project.list([1001; 10]);
    project.test(&["--accept", "--because", "no reason"]).ok();
    assert_eq!(project.read("allotrope-budgets/listed.toml"), text);
    project.list([1002; 10]);
    project.accept();
    let text = project.read("allotrope-budgets/listed.toml");
    text.lacks("because");
}

#[test]
fn comments_in_a_budget_file_are_preserved() {
    let project = project();
    project.list([1000; 10]);
    project.accept();
    let file = "allotrope-budgets/listed.toml";
    let text = project.read(file);
    let text = text.replace("[shared]", "# Ours.\n[shared]");
    let text = text.replace("\nremaining = 0", "\n# None.\nremaining = 0 # really");
    project.write(file, &text);
    project.list([1001; 10]);
    project.accept();
    let line = |text: &str| {
        let mut lines = text.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("allocations"))
    };
    let (was, is) = (line(&text), line(&project.read(file)));
    let [Some(was), Some(is)] = [was, is] else {
        panic!("{text}");
    };
    assert_ne!(was, is);
    assert_eq!(project.read(file), text.replace(&was, &is));
}

/// The short form of `scripts/gate-noise`: real programs that fluctuate, unchanged and
/// with one more allocation for each of 1,000 iterations.
#[test]
fn real_programs_are_green_unchanged_and_red_with_a_planted_regression() {
    let project = Project::with_cases(&["encode"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/gate-noise");
    let mut command = Command::new(script);
    command
        .args(["--short", "--allotrope"])
        .arg(record::command().get_program())
        .arg("--work")
        .arg(project.folder().join("work"));
    // About 80 recordings: half a minute on an idle machine.
    let output = record::run_within(Duration::from_secs(1800), &mut command, b"");
    let printed = output.text();
    let errors = output.errors();
    if output.status.code() == Some(77) {
        skip(errors.trim());
        return;
    }
    assert!(output.status.success(), "{printed}{errors}");
}
