//! Stacks and tables that are partly unreadable: a walk ends there, the program goes
//! on, and no event is lost.

use std::ffi::OsStr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::record;
use crate::unwinding::building::{build, c};
use crate::unwinding::truth;

/// Records a case, which prints how often `allocate` is called by which function.
#[track_caller]
fn check(case: &str, arguments: &[&OsStr]) {
    let recording = record(c("unreadable.c"))
        .arg(case)
        .args(arguments)
        .run()
        .ok();
    let printed = recording.text();
    let (count, body) = printed.trim().split_once(' ').expect("a count and a name");
    let report = recording.report();
    let process = report.only();
    truth::expect_sound(&process, &printed, case);
    assert_eq!(process.under(body).allocations.to_string(), count, "{case}");
    let sites = process.sites_under(body);
    for site in &sites {
        assert_eq!(process.functions(site)[..2], ["allocate", body], "{case}");
    }
}

macro_rules! cases {
    ($($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                check(stringify!($case), &[]);
            }
        )*
    };
}

cases!(last_word last_word_of_all no_word neighbour_goes neighbour_with_frames_goes
    in_a_thread shorter_stack);

macro_rules! cases_of_a_library {
    ($($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                let library = build("cc", "plugin.c")
                    .flags(["-DNAME=plugin_read"])
                    .library("plugin_read.so")
                    .run();
                check(stringify!($case), &[library.as_os_str()]);
            }
        )*
    };
}

cases_of_a_library!(protected_tables protected_headers cut_off);

/// Random words on random stacks, see the program. `ALLOTROPE_SEED` chooses the
/// words (addresses among them move with the program); `ALLOTROPE_SLOW=1`: a
/// million rounds.
#[test]
fn random_stacks() {
    let seed = std::env::var("ALLOTROPE_SEED").unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("it is later").subsec_nanos().to_string()
    });
    let is_long = std::env::var_os("ALLOTROPE_SLOW").is_some_and(|it| it != "0" && !it.is_empty());
    let rounds = if is_long { "1000000" } else { "30000" };
    println!("ALLOTROPE_SEED={seed}");
    let recording = record(c("unreadable.c"))
        .args(["random", &seed, rounds])
        .run()
        .ok();
    let printed = recording.text();
    let report = recording.report();
    let process = report.only();
    truth::expect_sound(&process, &printed, &seed);
    // Each caller is a function of its own, and the innermost frame.
    let found: u64 = process
        .sites()
        .iter()
        .filter(|site| process.functions(site)[0].starts_with("by_"))
        .map(|site| site["allocations"].as_u64().expect("checked"))
        .sum();
    assert_eq!(found.to_string(), printed.trim(), "seed {seed}");
}
