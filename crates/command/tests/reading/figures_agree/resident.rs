//! The resident set of a recorded program is that of the program: `figures resident` and
//! `figures mixed_lives` state what is true.

use serde_json::Value;

use crate::figures_agree::compare::Compared;
use crate::figures_agree::text::count;
use crate::support::record::command;
use crate::support::{compiled, record, run};

const MIB: u64 = 1 << 20;
/// The recorder's code and static data, and what else its library brings into the process.
const NOT_MEASURED: u64 = 4 * MIB;
/// Bytes that the recorder has at least: each of 100 threads has filled its buffer of 512 KiB.
const AT_LEAST: u64 = 50 * MIB;

/// The most of a process's samples: as the kernel has it, and without the recorder's.
fn most(json: &Value) -> [u64; 2] {
    let samples = json["processes"][0]["resident"].as_array().expect("a list");
    let bytes = |it: &Value| it["bytes"].as_u64().expect("a number");
    let own = |it: &Value| bytes(it) - it["recorder_bytes"].as_u64().expect("it was measured");
    let most = |of: &dyn Fn(&Value) -> u64| samples.iter().map(of).max().unwrap_or(0);
    [most(&bytes), most(&own)]
}

/// Reported: the resident set has 90 MiB that are the recorder's, of 22 of the program.
#[test]
fn the_resident_set_is_that_of_the_program() {
    let record = record(compiled("figures.c")).arg("resident");
    let kib = |stdout: &[u8]| count(&String::from_utf8_lossy(stdout)).expect("KiB");
    let plain = kib(&record.plain().stdout) * 1024;
    let recording = record.run().ok();
    let by_kernel = kib(&recording.stdout) * 1024;
    let report = recording.report();
    let [all, own] = most(&report.json);
    let mib = |bytes: u64| bytes as f64 / MIB as f64;
    let what = format!(
        "plain {:.1} MiB, recorded {:.1}, in the report {:.1}, without the recorder's {:.1}",
        mib(plain),
        mib(by_kernel),
        mib(all),
        mib(own)
    );
    eprintln!("{what}");
    assert!(all >= plain + AT_LEAST, "{what}");
    assert!(all.abs_diff(by_kernel) <= MIB, "{what}");
    assert!(own >= plain && own <= plain + NOT_MEASURED, "{what}");
    // The page and the exports have the program's.
    let compared = Compared::new(&recording.trace);
    compared.page();
    compared.finish();
}

/// What `stat` writes while the program runs and at its end.
///
/// Reported: the resident set has 90 MiB that are the recorder's, of 22 of the program.
#[test]
fn stat_has_the_resident_set_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = folder.path().join("out.csv");
    let mut stat = command();
    stat.args(["stat", "--every", "100ms", "--csv"]).arg(&csv);
    stat.arg("--").arg(compiled("figures.c")).arg("resident");
    let plain = record(compiled("figures.c")).arg("resident").plain();
    let plain = count(&plain.text()).expect("KiB") * 1024;
    run(stat.current_dir(folder.path()), b"").ok();
    let text = std::fs::read_to_string(&csv).expect("it is written");
    let resident = text
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(5)?.parse::<u64>().ok());
    let most = resident.max().expect("there are rows");
    assert!(
        most >= plain && most <= plain + NOT_MEASURED,
        "{most} of {plain}"
    );
}

/// The mean life that a finding states is that of the blocks of which it speaks.
///
/// Reported: the mean life of `temporaries` is that of all blocks of the group.
#[test]
fn temporaries_live_as_long_as_they_live() {
    let recording = record(compiled("figures.c")).arg("mixed_lives").run();
    let report = recording.ok().report();
    let findings = report.json["findings"].as_array().expect("a list");
    let found = findings.iter().find(|it| it["rule"] == "temporaries");
    let found = found.unwrap_or_else(|| panic!("no such finding: {findings:?}"));
    let number = |name: &str| {
        let number = found["numbers"][name].as_f64();
        number.unwrap_or_else(|| panic!("no {name}: {found}"))
    };
    assert_eq!(number("temporary_allocations"), 50_000.0);
    let ran_ns = report.only().number("duration_us") as f64 * 1000.0;
    let mean = number("mean_life_ns");
    assert!(mean * 50_000.0 <= ran_ns, "{mean} ns each in {ran_ns} ns");
}
