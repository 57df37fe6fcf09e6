//! Tests of the keys of `allotrope.toml`.

use super::*;
use crate::configuration::STARTING_FILE;

fn parse(text: &str) -> Result<Configuration, ConfigurationError> {
    Configuration::parse(text, Path::new("dir/allotrope.toml"))
}

#[track_caller]
fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn every_key_is_read() {
    let text = r#"
build = "make -j2"
platform = "{arch}-ci"
dependencies = ["Cargo.lock"]
profile-stacks = 10
[defaults]
runs = 3
[tests.encode]
command = ["./bench", "encode"]
environment = { LANG = "C" }
folder = "sub"
warmup = 0
iterations = 1000
gate = ["allocations", "net"]
tolerance = { allocations = "+0 -1%", net = "±5" }
timeout = 9
counts-only = true
[tests.encode.platforms.other]
runs = 7
"#;
    let configuration = parse(text).expect("it is right");
    assert_eq!(
        configuration.build.as_deref(),
        Some(&["sh".into(), "-c".into(), "make -j2".into()][..])
    );
    let [test] = &configuration.tests[..] else {
        panic!("one test");
    };
    assert_eq!(test.command, ["./bench", "encode"]);
    assert_eq!(test.folder, Path::new("dir/sub"));
    assert_eq!(test.environment["LANG"], "C");
    let protocol = test.protocol_on("this");
    assert_eq!((protocol.runs, protocol.warmup), (3, 0));
    assert_eq!(protocol.iterations, Some(1000));
    assert_eq!(protocol.timeout, Duration::from_secs(9));
    assert!(protocol.counts_only);
    let net = protocol.tolerance_of(Metric::Net);
    assert_eq!(net, Tolerance::absolute(5, 5));
    assert!(protocol.tolerance_of(Metric::PeakBytes).is_exact());
    assert_eq!(test.protocol_on("other").runs, 7);
}

#[test]
fn suppressions_are_rules_or_files() {
    let with = |line: &str| parse(&format!("{line}\n[tests.a]\ncommand = [\"x\"]\n"));
    let configuration = with("suppressions = [\"leak:^known$\"]").expect("it is right");
    let suppressions = &configuration.tests[0].protocol.suppressions;
    assert_ne!(*suppressions, Suppressions::default());
    let error = |line| with(line).expect_err(line).to_string();
    let missing = error("\nsuppressions = [\n\"leak:x\",\n\"none.supp\"]");
    assert!(
        missing.starts_with("dir/allotrope.toml:4: suppressions: cannot read the list none.supp: "),
        "{missing}"
    );
    assert!(error("suppressions = [\"leak:\"]").contains("`leak:` suppresses no leak"));
}

#[test]
fn the_starting_file_is_right_and_names_every_key() {
    let configuration = parse(STARTING_FILE).expect("it is right");
    assert_eq!(configuration.tests.len(), 1);
    for key in ROOT.iter().chain(PROTOCOL).chain(TEST) {
        assert!(STARTING_FILE.contains(key), "{key}");
    }
    for metric in Metric::OF_RUNS {
        assert!(STARTING_FILE.contains(metric.name()), "{metric}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    assert_eq!(
        error("build = \"make\"\n[tests.a]\ncomand = [\"x\"]\n"),
        "dir/allotrope.toml:3: tests.a.comand: there is no such key; did you mean `command`?"
    );
    assert!(error("[test.a]\n").contains("did you mean `tests`?"));
    assert!(error("[tests.a]\nzzz = 1").contains("the keys here are command, environment"));
    let wrong = "[tests.a]\ncommand = [\"x\"]\ntolerance = { allocation = \"+0\" }";
    assert!(error(wrong).contains(":3: tests.a.tolerance.allocation: "));
    assert!(error(wrong).contains("did you mean `allocations`?"));
}

#[test]
fn tests_of_cargo_have_no_command_and_the_budgets_may_be_elsewhere() {
    let text = "budgets = \"../numbers\"\n[defaults]\nruns = 3\n\
                [cargo-tests.\"a.b\"]\nwarmup = 2\n";
    let file = Path::new("dir/allotrope.toml");
    let configuration = Configuration::parse_for_cargo(text, file).expect("it is right");
    assert_eq!(configuration.budgets().path(), Path::new("dir/../numbers"));
    let protocol = &configuration.cargo_tests["a.b"].protocol;
    assert_eq!((protocol.runs, protocol.warmup), (3, 2));
    assert_eq!(configuration.defaults.runs, 3);
    assert!(error(text).contains("there is no test"));
    let wrong = "[cargo-tests.a]\ncommand = [\"x\"]\n";
    let error = Configuration::parse_for_cargo(wrong, file).expect_err("it has a command");
    assert!(
        error
            .to_string()
            .contains("cargo-tests.a.command: there is no such key")
    );
}

#[test]
fn counts_only_checks_the_metrics_it_records() {
    let with = |line: &str| parse(&format!("{line}\n[tests.a]\ncommand = [\"x\"]\n"));
    let configuration = with("[defaults]\ncounts-only = true").expect("it is right");
    assert_eq!(configuration.tests[0].protocol.gate, [Metric::Allocations]);
    let error = with("[defaults]\ncounts-only = true\ngate = [\"peak\"]");
    let error = error.expect_err("peak is not counted").to_string();
    assert!(
        error.contains("`counts-only` does not record peak; it records allocations, bytes, net"),
        "{error}"
    );
}

#[test]
fn a_wrong_value_is_named_with_its_line() {
    let with = |line: &str| error(&format!("[tests.a]\ncommand = [\"x\"]\n{line}\n"));
    for (line, what) in [
        (
            "runs = 0",
            ":3: tests.a.runs: it must be a whole number from 1 to 10000",
        ),
        ("runs = \"3\"", "tests.a.runs: it must be a whole number"),
        (
            "warmup = -1",
            "tests.a.warmup: it must be a whole number from 0",
        ),
        (
            "gate = [\"alocations\"]",
            "\"alocations\" is no metric; there are allocations",
        ),
        ("gate = []", "tests.a.gate: it names no metric"),
        ("gate = [\"net\", \"net\"]", "\"net\" is listed twice"),
        (
            "tolerance = { peak = \"+0\" }",
            "peak has a tolerance, but is not in `gate`",
        ),
        (
            "tolerance = { allocations = \"5\" }",
            "tests.a.tolerance.allocations: \"5\" is no tolerance",
        ),
        (
            "environment = { A = 1 }",
            "tests.a.environment.A: it must be a text",
        ),
        (
            "platforms = { x = { folder = \"y\" } }",
            "tests.a.platforms.x.folder: there is no such key",
        ),
    ] {
        assert!(with(line).contains(what), "{line}: {}", with(line));
    }
    assert!(error("").contains("there is no test"));
    assert!(error("[tests.a]").contains(":1: tests.a: it has no `command`"));
    assert!(error("[tests.\"a/b\"]\ncommand = [\"x\"]").contains("a file's name"));
    assert!(error("[tests.a]\ncommand = \"x y\"").contains("a shell in between"));
    assert!(error("[tests.a]\ncommand = []").contains("it must name a program"));
    assert!(error("tests = 1").contains("tests: it must be a table"));
    assert!(error("\n[tests").contains("dir/allotrope.toml:2: this is no TOML"));
}
