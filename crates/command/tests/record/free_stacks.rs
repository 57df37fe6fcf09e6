//! Where blocks are freed: `record --free-stacks`. The expected numbers are those of
//! `programs/freeing.c` and `programs/freeing.cc`. Every report is checked to list as many
//! freed blocks for each site as it has (`crate::support::schema`).

use crate::support::{Process, Recording, Text, allotrope, compiled, record};
use serde_json::Value;

fn recorded(case: &str) -> Recording {
    let program = record(compiled("freeing.c")).option("--free-stacks");
    program.arg(case).run().ok()
}

/// The stacks that freed the site's blocks.
fn stacks(site: &Value) -> &[Value] {
    let stacks = site["free_stacks"].as_array();
    stacks.unwrap_or_else(|| panic!("nothing was freed: {site}"))
}

/// How many blocks of the site a function freed, and whether that was by `realloc`.
#[track_caller]
fn freed(process: &Process<'_>, site: &Value) -> Vec<(String, u64, bool)> {
    let mut freed: Vec<_> = (stacks(site).iter())
        .map(|stack| {
            assert_eq!(stack["kind"], "stack", "{stack}");
            let function = process.functions(stack)[0].to_owned();
            let blocks = stack["allocations"].as_u64().expect("checked");
            (function, blocks, stack["reallocation"] == true)
        })
        .collect();
    freed.sort();
    freed
}

fn plainly(function: &str, blocks: u64) -> (String, u64, bool) {
    (function.to_owned(), blocks, false)
}

/// All sites whose innermost function is this one, each with where its blocks are freed.
#[track_caller]
fn freed_of(process: &Process<'_>, function: &str) -> Vec<(String, u64, bool)> {
    let sites = process.sites().iter();
    let of_function = sites.filter(|site| process.functions(site).first() == Some(&function));
    let mut all: Vec<_> = of_function
        .filter(|site| site["leaked_allocations"] != site["allocations"])
        .flat_map(|site| freed(process, site))
        .collect();
    all.sort();
    all.chunk_by(|a, b| (&a.0, a.2) == (&b.0, b.2))
        .map(|alike| {
            let blocks = alike.iter().map(|it| it.1).sum();
            (alike[0].0.clone(), blocks, alike[0].2)
        })
        .collect()
}

#[test]
fn each_block_is_freed_where_the_source_frees_it() {
    let report = recorded("sites").report();
    let process = report.only();
    let expected = [plainly("drop_first", 10), plainly("drop_second", 20)];
    assert_eq!(freed_of(&process, "make"), expected);
}

#[test]
fn another_thread_frees_what_is_taken_from_a_queue() {
    let report = recorded("queue").report();
    let process = report.only();
    let site = process.site_under("produce");
    let expected = [plainly("drop_first", 200), plainly("drop_second", 800)];
    assert_eq!(freed(&process, site), expected);
    for stack in stacks(site) {
        let functions = process.functions(stack);
        assert_eq!(functions[1], "consume", "{functions:?}");
        let threads = stack["threads"].as_array().expect("checked");
        assert_eq!(threads.len(), 1, "{threads:?}");
        // The names of threads that end soon are not always known.
        assert!(threads[0]["thread"].is_u64());
        assert_ne!(threads[0]["thread"], site["frees"][0]["allocated_by"]);
    }
}

#[test]
fn realloc_frees_a_block() {
    let report = recorded("moved").report();
    let process = report.only();
    let replaced = ("enlarge".to_owned(), 5, true);
    let emptied = ("empty".to_owned(), 4, true);
    let expected = [plainly("drop_second", 3), emptied, replaced];
    assert_eq!(freed_of(&process, "make"), expected);
    assert_eq!(freed_of(&process, "enlarge"), [plainly("drop_first", 5)]);
}

#[test]
fn a_small_stack_and_signals_are_no_obstacle() {
    let report = recorded("small_stack").report();
    let found = freed_of(&report.only(), "make");
    assert_eq!(found, [plainly("drop_first", 50)]);
    let report = recorded("signals").report();
    let found = freed_of(&report.only(), "make");
    let expected = [plainly("drop_first", 100), plainly("drop_second", 2_000)];
    assert_eq!(found, expected);
}

#[test]
fn a_forked_child_has_its_own() {
    let report = recorded("forked").report();
    let processes = report.processes();
    assert_eq!(processes.len(), 2);
    let of = |number: usize| freed_of(&processes[number], "make");
    assert_eq!(of(0), [plainly("drop_second", 6)]);
    assert_eq!(
        of(1),
        [plainly("drop_second", 7)],
        "inherited blocks have no site"
    );
    assert_eq!(processes[1].total("inherited_deallocations"), 6);
}

/// A site lists 64 stacks; the other 936 blocks are together.
#[test]
fn the_table_is_bounded_and_says_what_is_together() {
    let recording = recorded("many");
    let report = recording.report();
    let process = report.only();
    let site = process.sites().iter();
    let mut site = site.filter(|site| process.functions(site)[0] == "make");
    let site = site.find(|site| site["allocations"] == 1_000).expect("one");
    let stacks = stacks(site);
    assert_eq!(stacks.len(), 65);
    assert_eq!(stacks[0]["kind"], "others");
    assert_eq!(stacks[0]["allocations"], 936);
    let number = site["number"].to_string();
    let text = shown(&recording, &["--site", &number]);
    text.has("at the stacks beyond the first 64");
}

#[test]
fn operators_of_cplusplus_are_deallocations_too() {
    let program = record(compiled("freeing.cc")).option("--free-stacks");
    let report = program.run().ok().report();
    let process = report.only();
    for (allocating, freeing, blocks) in [
        ("construct()", "destroy(Thing*)", 12),
        ("fill()", "destroy_arrays(long*)", 9),
        ("share()", "forget(std::shared_ptr<Thing>&)", 8),
    ] {
        let name = |function: &str| function.split('(').next().unwrap_or("").to_owned();
        let (allocating, freeing) = (name(allocating), name(freeing));
        let sites = process.sites_under(&allocating);
        let stacks = sites.iter().flat_map(|site| stacks(site));
        let under = stacks.filter(|stack| process.functions(stack).contains(&&*freeing));
        let found: u64 = under
            .filter_map(|stack| stack["allocations"].as_u64())
            .sum();
        assert_eq!(found, blocks, "{allocating} and {freeing}");
    }
}

/// The figures are the same as in an ordinary recording.
#[test]
fn the_figures_do_not_change() {
    for case in ["sites", "moved", "forked", "many"] {
        let with = recorded(case).report();
        let without = record(compiled("freeing.c")).arg(case);
        let without = without.run().ok().report();
        let processes = with.processes().into_iter().zip(without.processes());
        for (with, without) in processes {
            for figure in [
                "allocations",
                "allocated_bytes",
                "deallocations",
                "reallocations",
                "temporary_allocations",
                "leaked_allocations",
                "leaked_bytes",
                "peak_bytes",
                "peak_allocations",
                "inherited_deallocations",
            ] {
                assert_eq!(
                    with.total(figure),
                    without.total(figure),
                    "{case}: {figure}"
                );
            }
            assert_eq!(with.number("lost_events"), 0);
            assert_eq!(with.sites().len(), without.sites().len(), "{case}");
            let listed = without
                .sites()
                .iter()
                .any(|site| site.get("free_stacks").is_some());
            assert!(!listed, "nobody asked for it");
        }
    }
}

/// Other programs of the tests, whose reports are checked as all are: pools that a program
/// reports itself, windows, many threads, and a handler in the middle of a call.
#[test]
fn every_freed_block_is_listed_in_other_programs_too() {
    for (program, case) in [
        ("threads.c", "exact"),
        ("threads.c", "many"),
        ("threads.c", "keys"),
        ("entry_points.c", "realloc"),
        ("operators.cc", "new"),
    ] {
        let run = record(compiled(program)).option("--free-stacks").arg(case);
        let report = run.run().report();
        for process in report.processes() {
            assert_eq!(process.number("lost_events"), 0, "{program} {case}");
        }
    }
}

/// The standard output of `allotrope report` with these options.
fn shown(recording: &Recording, options: &[&str]) -> String {
    let trace = recording.trace.to_str().expect("UTF-8");
    allotrope(["report", trace].iter().chain(options))
        .ok()
        .text()
}

#[test]
fn the_texts_say_where_or_how_to_find_out() {
    let recording = recorded("queue");
    let report = recording.report();
    let number = report.only().site_under("produce")["number"].to_string();
    let text = shown(&recording, &["--site", &number]);
    let freed = text.split("Freed at 2 stacks").nth(1).expect("a section");
    freed.has_all(["▸ drop_second", "80.0 %: 800 blocks", ", by "]);
    let trace = recording.trace.to_str().expect("UTF-8");
    let subject = format!("site:{number}");
    let text = allotrope(["show", trace, &subject]).text();
    text.has("Freed at 2 stacks");
    let lines = shown(
        &recording,
        &["--site", &number, "--events", "--format", "json-lines"],
    );
    let second = lines.lines().filter(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["freed_at"][0] == "drop_second"
    });
    assert_eq!(second.count(), 800);
    let csv = shown(
        &recording,
        &["--site", &number, "--events", "--format", "csv"],
    );
    assert!(
        csv.lines()
            .next()
            .expect("a header")
            .ends_with(",freed_by,freed_at")
    );
    let second = csv
        .lines()
        .filter(|line| line.contains(",\"drop_second;consume;"));
    assert_eq!(second.count(), 800);
    let text = shown(&recording, &["--site", &number, "--events", "--limit", "3"]);
    text.has(", freed at drop_");

    let recording = record(compiled("freeing.c")).arg("sites").run();
    let report = recording.report();
    let number = report.only().sites_under("make")[0]["number"].to_string();
    let text = shown(&recording, &["--site", &number]);
    text.has("record with --free-stacks to see where");
}

#[test]
fn counting_alone_has_no_stacks() {
    let program = record(compiled("freeing.c")).option("--free-stacks");
    let recording = program.option("--counts-only").arg("sites").run();
    let recording = recording.code(125);
    recording.stderr.has("leave out one of the two");
    assert!(!recording.trace.exists());
}
