//! A signal at every single instruction of the recorder: its handler allocates, and
//! then returns, leaves by `siglongjmp`, or unwinds as in a thread that is cancelled
//! there.
//!
//! The tests `cold_call_…` interrupt a call in which the recorder reads call frame
//! information again, some 30,000 instructions: every 997th of them, or every
//! `ALLOTROPE_TEST_STRIDE`th (97 takes a minute).

use crate::support::record;
use crate::unwinding::building::build;
use crate::unwinding::truth;

fn check(handler: &str, call: &str, stride: &str) {
    let program = build("cc", "interrupted.c").run();
    let plugin = build("cc", "plugin.c")
        .flags(["-DNAME=plugin_a"])
        .library("plugin_a.so");
    let recording = record(&program)
        .args([handler, call])
        .env("PLUGIN", plugin.run())
        .env("STRIDE", stride)
        .run()
        .ok();
    let printed = recording.text();
    let count = |name: &str| {
        let mut words = printed.split_whitespace();
        words.find(|word| *word == name);
        let count = words.next().and_then(|word| word.parse::<u64>().ok());
        count.unwrap_or_else(|| panic!("{name} in {printed}"))
    };
    // The shortest path through a hook has more instructions than this.
    assert!(count("interrupted") > 20, "{printed}");

    let report = recording.report();
    let processes = report.processes();
    // The tracer, which allocates nothing, and the child that it forked.
    assert_eq!(processes.len(), 2, "{}", report.summary());
    let child = processes
        .iter()
        .find(|process| process.total("allocations") > 0)
        .unwrap_or_else(|| panic!("{}", report.summary()));
    let (module, what) = (truth::module(&program), format!("{handler} {call}"));
    truth::expect_sound(child, &printed, &what);
    truth::expect_stacks(child, module, &printed, &what);
    // No call is recorded twice, whether it was left or not.
    assert!(child.by(module, "calling").allocations <= count("calls"));
}

fn stride() -> String {
    std::env::var("ALLOTROPE_TEST_STRIDE").unwrap_or_else(|_| "997".to_owned())
}

macro_rules! cases {
    ($handler:ident: $($name:ident $call:literal $stride:expr,)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($handler), $call, $stride);
            }
        )*
    };
}

cases!(returns: malloc_goes_on "malloc" "1", free_goes_on "free" "1",
    realloc_goes_on "realloc" "1", cold_call_goes_on "cold_malloc" &stride(),);
cases!(jumps: malloc_is_left "malloc" "1", free_is_left "free" "1",
    realloc_is_left "realloc" "1", cold_call_is_left "cold_malloc" &stride(),);
cases!(unwinds: malloc_is_cancelled "malloc" "1", free_is_cancelled "free" "1",
    realloc_is_cancelled "realloc" "1", cold_call_is_cancelled "cold_malloc" &stride(),);
