//! Programs that `allotrope standby` starts: which blocks are sampled, where they are found, and
//! what stays after the end. With a period of one byte every block is sampled, so that numbers are
//! exact: a block of 1,000 bytes is missed with a probability of e^−1000.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{Ended, Started, Text, allotrope, run};
use allotrope_sampling::Period;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::samples::file::find;
use allotrope_shm::samples::reader::State;
use allotrope_shm::samples::writer::Sample;
use serde_json::Value;

use crate::support::compile::compiled_with;
use crate::support::record::command;
use crate::support::watched::{Program, read, state_of};

/// A size that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;

/// The live samples of this size.
fn of_size(state: &State, size: u64) -> Vec<&Sample> {
    let samples = state.samples.iter();
    samples.filter(|it| it.size == size).collect()
}

/// Nothing has been lost or is wrong.
fn assert_whole(state: &State) {
    let counters = &state.counters;
    let lost = [
        counters.lost_samples,
        counters.lost_stacks,
        counters.lost_modules,
        counters.lost_frees,
        counters.lost_totals,
        counters.uncommitted,
        state.malformed,
    ];
    assert_eq!(lost, [0; 7], "{counters:?}");
    let live = counters.sampled - counters.freed;
    assert_eq!(state.samples.len() as u64, live);
}

fn watch(process: u32, options: &[&str]) -> Ended {
    let mut watch = command();
    watch.args(["watch", &process.to_string()]).args(options);
    run(&mut watch, b"")
}

/// The report of `watch --once` in JSON.
fn report(process: u32, options: &[&str]) -> Value {
    let text = watch(
        process,
        &[&["--once", "--format", "json"], options].concat(),
    )
    .ok()
    .text();
    serde_json::from_str(text.lines().next().expect("a report")).expect("JSON")
}

#[test]
fn every_function_is_sampled_once_for_each_block() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 100 {SIZE}"));
    program.tell(&format!("calloc 10 {SIZE}"));
    program.tell(&format!("others {SIZE}"));
    let state = program.state();
    assert_whole(&state);
    let mut entries = BTreeMap::new();
    for sample in of_size(&state, SIZE) {
        *entries.entry(sample.entry).or_insert(0) += 1;
        assert_eq!(sample.thread, program.id());
        assert_eq!(sample.period.bytes(), 1);
    }
    let expected = [
        (EntryPoint::Malloc, 100),
        (EntryPoint::Calloc, 10),
        (EntryPoint::Realloc, 1),
        (EntryPoint::Reallocarray, 1),
        (EntryPoint::PosixMemalign, 1),
        (EntryPoint::AlignedAlloc, 1),
        (EntryPoint::Memalign, 1),
        (EntryPoint::Valloc, 1),
    ];
    assert_eq!(entries, BTreeMap::from(expected));
    program.tell("free");
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE).len(), 0);
    let freed: Vec<_> = state.freed.iter().filter(|it| it.size == SIZE).collect();
    assert_eq!(freed.len(), 116);
    for freed in freed {
        assert!(freed.deallocation.time >= freed.allocated);
        assert_ne!(freed.deallocation.stack, freed.stack);
    }
    program.end().ok();
}

#[test]
fn a_reallocation_is_a_new_block_and_a_failed_one_changes_nothing() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 50 {SIZE}"));
    let before = program.state();
    program.tell("fail");
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE), of_size(&before, SIZE));
    assert_eq!(state.counters.sampled, before.counters.sampled);
    // Two ticks of the slowest kernel's clock.
    std::thread::sleep(Duration::from_millis(20));
    program.tell("realloc 5432");
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE).len(), 0);
    let new = of_size(&state, 5432);
    assert_eq!(new.len(), 50);
    assert!(new.iter().all(|it| it.entry == EntryPoint::Realloc));
    let youngest = of_size(&before, SIZE).iter().map(|it| it.allocated).max();
    assert!(new.iter().all(|it| Some(it.allocated) > youngest));
    // Its first allocation stays known, also after the next reallocation.
    let of = |it: &Sample| (it.first_allocation().allocated, it.first_allocation().stack);
    let mut first: Vec<_> = of_size(&before, SIZE).into_iter().map(of).collect();
    first.sort_unstable();
    for size in [5432, 6543] {
        program.tell(&format!("realloc {size}"));
        let state = program.state();
        let mut now: Vec<_> = of_size(&state, size).into_iter().map(of).collect();
        now.sort_unstable();
        assert_eq!(now, first);
        assert!(of_size(&state, size).iter().all(|it| it.first.is_some()));
    }
}

#[test]
fn all_threads_and_signal_handlers_are_sampled() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("threads 500 {SIZE}"));
    program.tell("handler 7 5432");
    let state = program.state();
    assert_whole(&state);
    let mut threads = BTreeMap::new();
    for sample in of_size(&state, SIZE) {
        *threads.entry(sample.thread).or_insert(0) += 1;
    }
    assert_eq!(threads.values().copied().collect::<Vec<_>>(), [500; 8]);
    assert_eq!(of_size(&state, 5432).len(), 7);
    program.tell("free");
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE).len() + of_size(&state, 5432).len(), 0);
}

#[test]
fn stacks_lead_to_the_functions_of_the_program() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 3 {SIZE}"));
    program.tell(&format!("calloc 2 {SIZE}"));
    let report = report(program.id(), &[]);
    for (function, blocks) in [("by_malloc", 3), ("by_calloc", 2)] {
        let sites = report["sites"].as_array().expect("sites");
        let has_function = |site: &&Value| {
            let stack = site["stack"].as_array().expect("a stack");
            let names: Vec<_> = stack.iter().map(|it| &it["function"]).collect();
            names.contains(&&Value::from(function)) && names.contains(&&Value::from("main"))
        };
        let site = sites.iter().find(has_function).expect(function);
        assert_eq!(site["samples"], blocks, "{site:#}");
        assert_eq!(site["live_bytes"], blocks * SIZE, "{site:#}");
    }
}

/// Its monotonic clock is 500 s behind ours.
///
/// Reported: ages of blocks are wrong in another time namespace.
#[test]
fn ages_in_another_time_namespace_are_right() {
    let words = ["unshare", "-UrT", "--monotonic", "-500"];
    let can = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    if !can.is_ok_and(|it| it.status.success()) {
        return println!("skipped: no time namespace can be made");
    }
    let mut standby = command();
    standby.args(["standby", "--no-holder", "--period", "1"]);
    let mut program = Program::start_below(&mut standby, &words);
    program.tell(&format!("malloc 3 {SIZE}"));
    let report = report(program.id(), &[]);
    let sites = report["sites"].as_array().expect("sites").iter();
    let oldest = sites.filter_map(|it| it["oldest_seconds"].as_f64());
    let oldest = oldest.fold(0.0, f64::max);
    assert!(oldest > 0.0 && oldest < 400.0, "{oldest}");
}

/// Copies a file to the same path below a folder, with what the loader loads for it.
fn copy_below(folder: &Path, file: &Path) {
    let text = run(Command::new("ldd").arg(file), b"").text();
    let words = text.split_whitespace().filter(|it| it.starts_with('/'));
    for file in words.map(Path::new).chain([file]) {
        let target = folder.join(file.strip_prefix("/").expect("an absolute path"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("our folder");
        std::fs::copy(file, target).expect("a copy");
    }
}

/// There is no `/proc`, so that the process does not know its own name.
#[test]
fn a_process_in_a_chroot_has_its_name_and_its_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().to_str().expect("UTF-8");
    let help = Command::new("unshare").args(["-Ur", "true"]).output();
    if !help.is_ok_and(|it| it.status.success()) {
        return println!("skipped: no user namespace can be made");
    }
    let standby = || {
        let mut standby = command();
        standby.args(["standby", "--no-holder", "--period", "1"]);
        standby
    };
    let shown = run(standby().args(["--", "env"]), b"").text();
    let mut lines = shown.lines();
    let list = lines.find_map(|it| it.strip_prefix("LD_PRELOAD="));
    let recorder = list
        .and_then(|it| it.split(':').next())
        .expect("a recorder");
    copy_below(folder.path(), Path::new(recorder));
    copy_below(
        folder.path(),
        &crate::support::compile::compiled("watched.c"),
    );
    let mut program = Program::start_below(&mut standby(), &["unshare", "-Ur", "--root", root]);
    program.tell(&format!("malloc 30 {SIZE}"));
    let state = program.state();
    assert!(state.process.command.is_empty());
    let report = report(program.id(), &[]);
    let name = report["processes"][0]["name"].as_str().expect("a name");
    assert!(name.starts_with("watched"), "{name}");
    let sites = report["sites"].as_array().expect("sites");
    let is_it = |site: &&Value| site["live_bytes"] == 30 * SIZE;
    let stack = &sites.iter().find(is_it).expect("a site")["stack"];
    stack.to_string().has("\"by_malloc\"");
}

/// With a period of one byte figures are exact, and their intervals have no width to speak of.
#[test]
fn a_profile_of_a_running_program_is_saved_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let allotrope = |arguments: &[&str]| {
        run(command().args(arguments).current_dir(folder.path()), b"")
            .ok()
            .text()
    };
    let mut program = Program::new(&["--period", "1"]);
    let process = program.id().to_string();
    let save = |file: &str| allotrope(&["watch", &process, "--output", file]);
    program.tell(&format!("malloc 30 {SIZE}"));
    assert_eq!(save("before"), "");
    program.tell(&format!("calloc 12 {SIZE}"));
    save("after");
    let text = allotrope(&["report", "after", "--format", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let (process, frames) = (&report["processes"][0], &report["frames"]);
    let frames = frames.as_array().expect("frames");
    let sites = process["sites"].as_array().expect("sites");
    for (function, blocks) in [("by_malloc", 30), ("by_calloc", 12)] {
        let frame = frames.iter().position(|it| it["function"] == function);
        let frame = Value::from(frame.expect(function));
        let has_frame = |site: &&Value| {
            let stack = site["stack"].as_array().expect("a stack");
            stack.contains(&frame)
        };
        let site = sites.iter().find(has_frame);
        let site = site.unwrap_or_else(|| panic!("no {function}: {text}"));
        assert_eq!(site["live_blocks"], blocks, "{site:#}");
        assert_eq!(site["live_bytes"], blocks * SIZE, "{site:#}");
    }
    let difference = allotrope(&["diff", "before", "after", "--metric", "leaked"]);
    difference.has("by_calloc");
    // A file that is something else stays.
    std::fs::write(folder.path().join("mine"), "text").expect("our folder");
    watch(
        program.id(),
        &["--output", &folder.path().join("mine").to_string_lossy()],
    )
    .fails(2, "--force");
}

#[test]
fn a_forked_child_has_a_memory_of_its_own() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 20 {SIZE}"));
    let parent = program.id();
    let before = program.state();
    let child: u32 = program.ask("fork").parse().expect("an id");
    // The parent's blocks are freed in the child: they are the parent's samples.
    program.tell("free");
    // What ends the countdown that the child has inherited.
    program.tell("malloc 1 5432");
    program.tell(&format!("malloc 30 {SIZE}"));
    let state = state_of(child);
    assert_whole(&state);
    assert_eq!(state.process.id, u64::from(child));
    assert_eq!(of_size(&state, SIZE).len(), 30);
    assert_eq!(state.counters.freed, 0);
    let of_parent = state_of(parent);
    assert_eq!(of_parent.counters, before.counters);
    assert_eq!(of_size(&of_parent, SIZE).len(), 20);
    // A grandchild, whose parent has a memory of its own, and which ends by itself.
    let grandchild: u32 = program.ask("fork").parse().expect("an id");
    program.tell("malloc 5 5432");
    assert_eq!(of_size(&state_of(grandchild), 5432).len(), 5);
    assert_eq!(program.ask("exit 3"), "3");
    assert_eq!(program.ask("exit 4"), "4");
    program.tell("free");
    assert_whole(&program.state());
}

/// It would be ended if it made a memory.
#[test]
fn a_child_in_a_sandbox_runs_on() {
    let mut program = Program::new(&["--period", "1"]);
    let child: u32 = program.ask("fork").parse().expect("an id");
    if program.ask("sandbox") == "none" {
        return println!("skipped: the kernel refuses a seccomp filter");
    }
    program.tell(&format!("malloc 30 {SIZE}"));
    assert!(find(child).is_err());
    program.tell("free");
    assert_eq!(program.ask("exit 3"), "3");
}

/// `RLIMIT_FSIZE` holds for files in memory, too: `SIGXFSZ` would end the program.
#[test]
fn a_program_that_may_not_write_large_files_runs_on() {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -f 1024; exec \"$@\"", "sh"])
        .arg(command().get_program())
        .args(["standby", "--no-holder", "--period", "1"]);
    let mut program = Program::start(&mut shell);
    program.tell(&format!("malloc 30 {SIZE}"));
    assert!(find(program.id()).is_err());
    program.tell("free");
    program.end().ok();

    let mut program = Program::new(&["--period", "1"]);
    let child: u32 = program.ask("fork").parse().expect("an id");
    program.tell("limit");
    program.tell(&format!("malloc 30 {SIZE}"));
    assert!(find(child).is_err());
    program.tell("free");
    // The limit stays over exec.
    assert_eq!(program.ask("exec"), "ready");
    program.tell(&format!("malloc 30 {SIZE}"));
    assert!(find(child).is_err());
    assert_eq!(program.ask("exit 3"), "3");
    // Who has a memory already goes on sampling.
    program.tell("limit");
    program.tell("malloc 1 5432");
    program.tell(&format!("malloc 30 {SIZE}"));
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE).len(), 30);
}

/// Perhaps before the recorder knew the allocator, which would end a program that gave it the block.
#[test]
fn a_block_that_was_allocated_while_the_program_was_loaded_is_freed() {
    let flags = ["-DLIBRARY", "-shared", "-fPIC", "-fno-plt"];
    let library = compiled_with("early_block.c", &flags);
    let library = library.to_str().expect("cargo's folder has an ASCII name");
    let program = compiled_with("early_block.c", &["-Wl,-z,now,--no-as-needed", library]);
    for options in [&[][..], &["--period", "1"]] {
        let mut standby = command();
        standby.args(["standby", "--no-holder"]).args(options);
        let output = run(standby.arg("--").arg(&program), b"");
        let errors = output.errors();
        assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    }
}

#[test]
fn an_executed_program_is_prepared_too() {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 20 {SIZE}"));
    assert_eq!(program.ask("exec"), "ready");
    program.tell(&format!("malloc 3 {SIZE}"));
    let state = program.state();
    assert_whole(&state);
    assert_eq!(of_size(&state, SIZE).len(), 3);
}

#[test]
fn sampling_is_switched_on_and_off_while_it_runs() {
    let mut program = Program::new(&["--period", "off"]);
    let large = 2 << 20;
    program.tell(&format!("malloc 100 {SIZE}"));
    assert_eq!(program.state().counters.sampled, 0);
    for round in 1..=3 {
        let report = report(
            program.id(),
            &["--period", "1", "--leave", "--every", "100ms"],
        );
        assert_eq!(report["processes"][0]["period_bytes"], 1);
        // The thread looks at the setting after 64 KiB at most.
        program.tell(&format!("malloc 1 {large}"));
        program.tell(&format!("malloc 10 {SIZE}"));
        let state = program.state();
        assert_whole(&state);
        assert_eq!(of_size(&state, SIZE).len(), 10 * round);
        let output = watch(program.id(), &["--once", "--off", "--every", "100ms"]);
        assert!(output.status.success());
        program.tell(&format!("malloc 1 {large}"));
        program.tell(&format!("malloc 10 {SIZE}"));
        assert_eq!(program.state().period, None);
        assert_eq!(of_size(&program.state(), SIZE).len(), 10 * round);
    }
    program.tell("free");
    let state = program.state();
    assert_whole(&state);
    assert_eq!(state.samples.len(), 0);
}

/// Reported: a leak of 1 KB a second in a thread of its own is not seen for 17 minutes.
#[test]
fn a_thread_notices_the_switch_within_64_kib() {
    let mut program = Program::new(&["--period", "off"]);
    report(
        program.id(),
        &["--period", "1", "--leave", "--every", "100ms"],
    );
    program.tell("malloc 1 65536");
    program.tell(&format!("malloc 10 {SIZE}"));
    assert_eq!(of_size(&program.state(), SIZE).len(), 10);
}

/// Nobody would switch it off in a child that `watch PID` does not know.
///
/// Reported: a child that is forked while its parent is watched is sampled for ever.
#[test]
fn a_child_begins_with_the_period_that_stays() {
    let mut program = Program::new(&["--period", "off"]);
    let parent = program.id();
    let large = 2 << 20;
    // A thread looks at the setting after 64 KiB at most; a child makes its memory then.
    let fork = |program: &mut Program| -> u32 {
        program.tell(&format!("malloc 1 {large}"));
        let child = program.ask("fork").parse().expect("an id");
        program.tell(&format!("malloc 1 {large}"));
        program.tell(&format!("malloc 10 {SIZE}"));
        child
    };
    let mut watch = command();
    watch.args(["watch", &parent.to_string(), "--period", "1"]);
    let mut watcher = Started::new(watch.args(["--every", "1h"]));
    while program.state().period.is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let child = fork(&mut program);
    assert_eq!(state_of(parent).period, Period::new(1));
    let state = state_of(child);
    assert_eq!((state.period, state.samples.len()), (None, 0));
    assert_eq!(program.ask("exit 3"), "3");
    watcher.kill();
    // What is left to stay, children have.
    for (option, period) in [("--leave", Period::new(1)), ("--off", None)] {
        report(parent, &["--period", "1", "--every", "100ms", option]);
        let child = fork(&mut program);
        assert_eq!(state_of(parent).period, period);
        let state = state_of(child);
        assert_eq!(state.period, period);
        let expected = if period.is_some() { 10 } else { 0 };
        assert_eq!(of_size(&state, SIZE).len(), expected);
        assert_eq!(program.ask("exit 3"), "3");
    }
}

/// 20,000 blocks of 4 KiB at 64 KiB: 1,212 samples on average, with a standard deviation of 34.
#[test]
fn small_blocks_are_sampled_as_often_as_the_period_says() {
    let mut program = Program::new(&["--period", "64KiB"]);
    program.tell("malloc 20000 4096");
    let state = program.state();
    assert_whole(&state);
    let found = of_size(&state, 4096).len() as f64;
    let p = -(-4096.0_f64 / 65536.0).exp_m1();
    let expected = 20_000.0 * p;
    let deviation = (expected * (1.0 - p)).sqrt();
    assert!((found - expected).abs() < 6.0 * deviation, "{found}");
}

#[test]
fn the_last_state_stays_with_who_has_opened_it() {
    for (command, status) in [("kill 9", None), ("exit 7", Some(7))] {
        let mut program = Program::new(&["--period", "1"]);
        program.tell(&format!("malloc 25 {SIZE}"));
        let file = find(program.id()).expect("a memory");
        assert_eq!(read(&file).process.exit_status, None);
        program.send(command);
        assert_eq!(program.end().status.code(), status);
        let state = read(&file);
        assert_whole(&state);
        assert_eq!(state.process.exit_status, status);
        assert_eq!(of_size(&state, SIZE).len(), 25);
    }
}

#[test]
fn descriptors_of_the_program_have_their_usual_numbers() {
    let mut program = Program::new(&["--period", "1"]);
    assert_eq!(program.ask("descriptor"), "3");
    // A program that closes all descriptors runs on, and is not found any more.
    program.tell("close");
    program.tell(&format!("malloc 10 {SIZE}"));
    assert!(find(program.id()).is_err());
    program.end().ok();
}

/// `ALLOTROPE_SLOW=1`: a thousand times.
#[test]
fn watchers_that_are_killed_lose_nothing() {
    let kills = if std::env::var_os("ALLOTROPE_SLOW").is_some() {
        1000
    } else {
        20
    };
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc 200 {SIZE}"));
    let before = program.state();
    let process = program.id().to_string();
    for kill in 0..kills {
        let mut watch = command();
        watch.args(["watch", &process, "--every", "100ms"]);
        let mut watcher = Started::new(watch.arg("--track-high-water-mark"));
        // From before it has found the process until after its first reports.
        std::thread::sleep(std::time::Duration::from_micros(kill * 7919 % 150_000));
        watcher.kill();
        let state = program.state();
        assert_whole(&state);
        assert_eq!(of_size(&state, SIZE), of_size(&before, SIZE));
    }
    let report = report(program.id(), &[]);
    let process = &report["processes"][0];
    assert_eq!(process["samples"], before.samples.len(), "{process:#}");
    program.tell("free");
    assert_whole(&program.state());
}

#[test]
fn real_programs_run_and_are_sampled() {
    for (program, arguments, output) in [
        (
            "python3",
            &["-c", "print(sum(len(str(i)) for i in range(300000)))"][..],
            "1688890\n",
        ),
        ("sh", &["-c", "echo $(echo a; echo b | cat)"], "a b\n"),
        (
            "perl",
            &["-e", "print join('', map { $_ % 7 } 1..9)"],
            "123456012",
        ),
    ] {
        for period in ["1", "512KiB"] {
            let ran = run(
                command()
                    .args(["standby", "--no-holder", "--period", period, "--", program])
                    .args(arguments),
                b"",
            );
            let errors = ran.errors();
            assert!(ran.status.success(), "{program}: {errors}");
            assert_eq!(ran.text(), output, "{program}");
            assert_eq!(errors, "");
        }
    }
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    run(
        command()
            .args(["standby", "--no-holder", "--"])
            .arg(folder.path().join("none")),
        b"",
    )
    .code(127);
    allotrope("standby --no-holder --period 0 -- true".split(' '))
        .fails(125, "the period is 1 byte to 1 TiB");
    assert!(Period::new(0).is_none());
    // A program that runs without it is not found.
    let plain = Started::new(Command::new("sleep").arg("60"));
    watch(plain.id(), &["--once"]).code(2);
}

/// `two_allocators.c` takes five blocks from a library that it has opened, and three from the
/// allocator that is sampled.
///
/// Reported: `watch` does not say that it sees nothing of an allocator.
#[test]
fn an_allocator_that_is_not_sampled_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libmimalloc.so.2");
    let flags = ["-DLIBRARY", "-shared", "-fPIC", "-fno-builtin"];
    let compiled = compiled_with("own_malloc.c", &flags);
    std::fs::copy(compiled, &library).expect("it is copied");
    let two = compiled_with("two_allocators.c", &["-fno-builtin"]);
    let own = ["-fno-builtin", "-DWAITS", "-DONLY_MALLOC"];
    let own = compiled_with("own_malloc.c", &own);
    for (program, argument, blocks, words) in [
        (
            two,
            Some(&*library),
            3,
            "libmimalloc.so.2 besides libc.so.6",
        ),
        (own, None, 0, "a malloc of its own"),
    ] {
        let mut standby = command();
        standby.args(["standby", "-q", "--no-holder", "--period", "1", "--"]);
        standby.arg(program);
        let mut program = Started::new(standby.args(argument));
        program.line();
        let state = state_of(program.id());
        assert_eq!(of_size(&state, SIZE).len(), blocks);
        let errors = watch(program.id(), &["--once"]).ok().errors();
        assert_eq!(errors.matches(words).count(), 1, "{errors}");
        program.end().ok();
    }
}

/// A program that exports `malloc` and `free` of its own, whose entry points are patched: it has one
/// block, of [`SIZE`].
#[test]
fn an_allocator_that_the_program_exports_is_sampled() {
    let size = format!("-DSIZE={SIZE}");
    let program = compiled_with("own_malloc.c", &["-fno-builtin", "-DWAITS", &size]);
    let mut standby = command();
    standby.args(["standby", "-q", "--no-holder", "--period", "1", "--"]);
    let mut program = Started::new(standby.arg(program));
    program.line();
    let state = state_of(program.id());
    assert_whole(&state);
    let blocks = of_size(&state, SIZE);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].entry, EntryPoint::Malloc);
    let errors = watch(program.id(), &["--once"]).ok().errors();
    errors.lacks("of its own");
    program.end().ok();
}
