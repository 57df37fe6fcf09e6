//! The view with reports as the watcher makes them, drawn on terminals of several sizes.

use super::key::Key;
use super::line::wide;
use super::*;
use crate::history::Trend;
use crate::names::Place;
use crate::report::{ProcessRow, Together};
use crate::sites::Sums;
use allotrope_sampling::Period;

const SECOND: u64 = 1_000_000_000;
/// A moment: 2001-09-09 01:46:40.
const START: u64 = 1_000_000_000 * SECOND;
const MIB: u64 = 1 << 20;

fn frame(function: &str, file: &str) -> Frame {
    Frame {
        function: function.into(),
        file: file.into(),
        line: 7,
        module: Place {
            module: "/srv/server".into(),
            address: 1,
            missing: None,
        },
        ..Frame::default()
    }
}

/// A site of this many blocks of 1 MiB, each of which was sampled.
fn site(key: SiteKey, function: &str, blocks: u64) -> SiteRow {
    let mut sums = Sums::new(Period::DEFAULT);
    for _ in 0..blocks {
        sums.live.add(MIB, Period::DEFAULT);
    }
    SiteRow {
        oldest: key * SECOND,
        trend: Trend::Flat,
        evidence: None,
        key,
        history: vec![blocks as f64; 6],
        processes: vec![(4711, sums.live)],
        sums,
        stack: vec![
            frame("malloc", ""),
            frame(function, "/srv/source/server.cc"),
            frame("main", "/srv/source/main.cc"),
        ],
        headline: 1,
    }
}

fn process(process: u32, name: &str) -> ProcessRow {
    ProcessRow {
        process,
        name: name.to_owned(),
        since: None,
        period: Some(Period::DEFAULT),
        sums: None,
        resident: None,
        counters: Default::default(),
        unreadable: 0,
    }
}

fn report(seconds: u64, sites: Vec<SiteRow>) -> Report {
    let mut total = Sums::new(Period::DEFAULT);
    sites.iter().for_each(|it| total.merge(&it.sums));
    Report {
        real_time: START + seconds * SECOND,
        mark_time: Some(START),
        old_age: 300 * SECOND,
        total: Some(total),
        processes: vec![process(4711, "gateway")],
        sites,
        more_sites: 0,
        suppressed: Together::default(),
        few: Together::default(),
        high_water: None,
    }
}

fn view() -> View {
    View::new(AtEnd::Restore, false)
}

/// The screen's lines without styles, as wide as the screen.
fn drawn(view: &View, width: usize, height: usize) -> Vec<String> {
    let lines = view.lines(width, height);
    assert_eq!(lines.len(), height);
    let line = |mut line: line::Line| {
        line.0
            .iter_mut()
            .for_each(|it| it.style = Default::default());
        let text = line.encoded(width);
        let blank = " ".repeat(width - wide(&text));
        text + &blank
    };
    lines.into_iter().map(line).collect()
}

fn press(view: &mut View, key: Key) -> Option<Action> {
    view.key(key)
}

fn type_text(view: &mut View, text: &str) {
    for c in text.chars() {
        press(view, Key::Char(c));
    }
}

/// The functions of the table's rows, in order, and whether each is selected.
fn rows(view: &View) -> Vec<(String, bool)> {
    let lines = drawn(view, 120, 60);
    let head = lines.iter().position(|it| it.contains(" trend "));
    let rows = lines.iter().skip(head.expect("a table") + 1);
    let rows = rows.take_while(|it| it.contains('%'));
    let row = |it: &String| {
        let name = it.split_whitespace().last().unwrap_or_default();
        (name.to_owned(), it.contains('▸'))
    };
    rows.map(row).collect()
}

fn names(view: &View) -> Vec<String> {
    rows(view).into_iter().map(|it| it.0).collect()
}

#[test]
fn a_view_without_a_report_waits() {
    assert!(drawn(&view(), 80, 24)[0].contains("waiting for the first report"));
}

#[test]
fn the_first_lines_answer() {
    let mut view = view();
    let mut growing = site(1, "open_session", 30);
    growing.trend = Trend::Growing;
    // From the first snapshot to the last, 90 s: 10 MiB in each of the thirds.
    growing.history = (0..7).map(|it| (it * 5 * MIB) as f64).collect();
    view.update(report(0, Vec::new()), 0);
    view.update(report(90, vec![growing, site(2, "load", 10)]), 64 * MIB);
    let lines = drawn(&view, 80, 24);
    assert!(
        lines[0].starts_with(" gateway 4711 · watched 90.00 s ·"),
        "{}",
        lines[0]
    );
    assert!(lines[0].trim_end().ends_with("01:48:10"), "{}", lines[0]);
    assert!(lines[1].contains("Live 46.3 MiB ± "), "{}", lines[1]);
    assert!(
        lines[1].contains("open_session grows 20.0 MiB a minute."),
        "{}",
        lines[1]
    );
    assert!(
        lines[3].contains("resident") && lines[3].contains("64.0 MiB"),
        "{}",
        lines[3]
    );
}

#[test]
fn nothing_is_said_to_grow_by_chance() {
    let mut view = view();
    let mut flat = site(1, "load", 30);
    flat.history = (0..7).map(|it| (it * 5 * MIB) as f64).collect();
    view.update(report(0, Vec::new()), 0);
    view.update(report(90, vec![flat]), 0);
    assert!(!drawn(&view, 80, 24)[1].contains("grows"));
}

#[test]
fn a_process_that_was_never_sampled_has_no_figures() {
    let mut view = view();
    let mut report = report(0, Vec::new());
    (report.total, report.processes[0].period) = (None, None);
    view.update(report, 0);
    let lines = drawn(&view, 80, 24);
    assert!(lines[0].contains("sampling is off") && lines[1].contains("Nothing was sampled yet"));
}

#[test]
fn every_size_of_a_terminal_can_be_drawn() {
    let mut view = view();
    let sites = (1..50).map(|it| site(it, "f", it)).collect();
    view.update(report(0, Vec::new()), 0);
    view.update(report(60, sites), MIB);
    for key in [Key::Esc, Key::Char('?'), Key::Enter, Key::Char('p')] {
        press(&mut view, Key::Esc);
        press(&mut view, key);
        for (width, height) in [
            (1, 1),
            (2, 3),
            (10, 5),
            (40, 10),
            (80, 24),
            (160, 50),
            (500, 200),
        ] {
            drawn(&view, width, height);
        }
    }
}

#[test]
fn at_80_columns_nothing_is_cut() {
    let mut view = View::new(AtEnd::Stop, false);
    let long = "n".repeat(300);
    view.update(report(0, vec![site(1, &long, 3)]), 0);
    for key in ["", "?", "q"] {
        type_text(&mut view, key);
        // What is wider than 80 columns would go on at 81.
        let (narrow, wide) = (drawn(&view, 80, 24), drawn(&view, 82, 24));
        for (narrow, wide) in narrow.iter().zip(&wide) {
            let is_name = wide.contains("nnnn") || wide.contains("01:46:40");
            assert!(
                is_name || wide.trim_end().chars().count() <= 80,
                "{wide}\n{narrow}"
            );
        }
        press(&mut view, Key::Esc);
    }
}

#[test]
fn the_function_has_room_and_what_is_cut_is_marked() {
    let mut view = view();
    let long = "n".repeat(300);
    let mut growing = site(1, &long, 30);
    growing.trend = Trend::Growing;
    growing.history = (0..7).map(|it| (it * 5 * MIB) as f64).collect();
    let snapshot = |seconds| {
        let mut report = report(seconds, vec![growing.clone(), site(2, "load", 5)]);
        report.more_sites = 1234;
        report.suppressed.sites = 17;
        report.suppressed.live = Some(growing.sums.live);
        report
    };
    view.update(snapshot(0), 0);
    view.update(snapshot(90), 0);
    for (width, least) in [(40, 18), (60, 28), (79, 28), (80, 28), (81, 28), (120, 28)] {
        let lines = drawn(&view, width, 24);
        let row = lines.iter().find(|it| it.starts_with(" ▸")).expect("a row");
        let name = row.split_whitespace().last().expect("a name");
        assert!(
            name.chars().count() >= least && name.ends_with('…'),
            "{row}"
        );
        assert!(row.chars().count() <= width, "{row}");
    }
    press(&mut view, Key::Char('s'));
    type_text(&mut view, "/load");
    for width in [40, 60, 80] {
        let lines = drawn(&view, width, 24);
        // Numbers are not cut: 30 MiB / (1 - e^-2) + 5 MiB / (1 - e^-2); 30 MiB in 90 s.
        assert!(lines[1].contains("Live 40.5 MiB"), "{}", lines[1]);
        assert!(lines[1].contains("20.0 MiB"), "{}", lines[1]);
        let notes = lines
            .iter()
            .find(|it| it.contains("1,234 more"))
            .expect("notes");
        let is_cut = !notes.contains("sorted by growth");
        assert_eq!(notes.trim_end().ends_with('…'), is_cut, "{notes}");
    }
    let wide = drawn(&view, 120, 24).concat();
    // 30 MiB / (1 - e^-2).
    assert!(wide.contains("17 suppressed, 34.7 MiB"), "{wide}");
}

#[test]
fn a_small_terminal_has_rows() {
    let mut view = view();
    view.update(report(0, vec![site(1, "one", 9), site(2, "two", 5)]), 0);
    let lines = drawn(&view, 40, 10);
    for function in ["one", "two"] {
        assert!(lines.iter().any(|it| it.trim_end().ends_with(function)));
    }
    // The sites sorted by age have their ages.
    for _ in 0..2 {
        press(&mut view, Key::Char('s'));
    }
    let screen = drawn(&view, 80, 24).concat();
    assert!(screen.contains("    oldest  trend") || screen.contains("per min    oldest"));
}

#[test]
fn an_ignored_site_is_not_what_grows() {
    let mut view = view();
    let mut growing = site(1, "known", 30);
    growing.trend = Trend::Growing;
    growing.history = (0..7).map(|it| (it * 5 * MIB) as f64).collect();
    view.update(report(0, Vec::new()), 0);
    view.update(report(90, vec![growing, site(2, "load", 5)]), 0);
    assert!(drawn(&view, 80, 24)[1].contains("known grows"));
    press(&mut view, Key::Char('i'));
    assert!(!drawn(&view, 80, 24)[1].contains("grows"));
}

#[test]
fn names_that_control_a_terminal_are_escaped() {
    let mut view = view();
    let mut evil = site(1, "a\x1b[2Jb\nc\u{202e}d", 3);
    evil.stack[0].file = "/x\x1b]0;t\x07.c".into();
    let mut report = report(0, vec![evil]);
    report.processes = vec![process(1, "x\r\n\x1b[31m"), process(2, "y\u{7}")];
    view.set_processes(vec![(1, "x\r\n\x1b[31m".into()), (2, "y\u{7}".into())]);
    view.update(report, 0);
    view.set_status("z\x1bc");
    for key in [Key::Esc, Key::Enter, Key::Char('p')] {
        press(&mut view, Key::Esc);
        press(&mut view, key);
        view.set_status("z\x1bc");
        let screen = drawn(&view, 160, 40).concat();
        let is_bad = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!screen.contains(is_bad), "{screen:?}");
    }
}

#[test]
fn sites_are_sorted_by_what_is_chosen() {
    let mut view = view();
    let mut grows = site(3, "grows", 1);
    grows.history = vec![0.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9e6];
    let sites = vec![site(9, "old", 2), site(5, "large", 5), grows];
    view.update(report(0, Vec::new()), 0);
    view.update(report(60, sites), 0);
    assert_eq!(names(&view), ["large", "old", "grows"]);
    press(&mut view, Key::Char('s'));
    assert_eq!(names(&view)[0], "grows");
    press(&mut view, Key::Char('s'));
    assert_eq!(names(&view), ["old", "large", "grows"]);
    press(&mut view, Key::Char('s'));
    assert_eq!(names(&view), ["large", "old", "grows"]);
}

#[test]
fn sites_keep_their_places_while_a_person_reads() {
    let mut view = view();
    let snapshot = |first| vec![site(1, "first", first), site(2, "second", 5)];
    view.update(report(0, snapshot(9)), 0);
    press(&mut view, Key::Down);
    assert_eq!(
        rows(&view),
        [("first".into(), false), ("second".into(), true)]
    );
    let mut with_new = snapshot(1);
    with_new.push(site(3, "new", 7));
    for _ in 0..QUIET {
        view.update(report(1, with_new.clone()), 0);
        assert_eq!(names(&view), ["first", "second", "new"]);
    }
    // Nobody reads any more. The selection stays where it is.
    view.update(report(1, with_new), 0);
    let expected = [("new", false), ("second", true), ("first", false)];
    assert_eq!(rows(&view), expected.map(|it| (it.0.to_owned(), it.1)));
    press(&mut view, Key::Home);
    assert!(rows(&view)[0].1);
}

#[test]
fn the_first_site_is_selected_until_a_person_selects_another() {
    let mut view = view();
    view.update(report(0, vec![site(1, "one", 9), site(2, "two", 5)]), 0);
    view.update(report(1, vec![site(1, "one", 1), site(2, "two", 5)]), 0);
    assert_eq!(rows(&view), [("two".into(), true), ("one".into(), false)]);
    // A site that is gone cannot stay selected.
    press(&mut view, Key::Down);
    view.update(report(2, vec![site(2, "two", 5)]), 0);
    assert_eq!(rows(&view), [("two".into(), true)]);
}

#[test]
fn a_filter_takes_the_stacks_with_a_function_of_that_name() {
    let mut view = view();
    view.update(
        report(0, vec![site(1, "open_session", 9), site(2, "load", 5)]),
        0,
    );
    press(&mut view, Key::Char('/'));
    type_text(&mut view, "SESS");
    assert_eq!(names(&view), ["open_session"]);
    press(&mut view, Key::Enter);
    assert!(drawn(&view, 120, 60).concat().contains("filter: SESS"));
    press(&mut view, Key::Esc);
    assert_eq!(names(&view).len(), 2);
    // Both have it in their stacks.
    press(&mut view, Key::Char('/'));
    type_text(&mut view, "main");
    assert_eq!(names(&view).len(), 2);
    type_text(&mut view, &"x".repeat(10_000));
    assert!(view.filter.chars().count() <= MAX_TYPED);
}

#[test]
fn an_ignored_site_stays_counted() {
    let mut view = view();
    view.update(report(0, vec![site(1, "known", 9), site(2, "load", 5)]), 0);
    press(&mut view, Key::Char('i'));
    assert_eq!(names(&view), ["load"]);
    let screen = drawn(&view, 120, 60).concat();
    // 9 MiB / (1 - e^-2), and 14 MiB / (1 - e^-2).
    assert!(
        screen.contains("1 ignored, 10.4 MiB") && screen.contains("Live 16.2 MiB"),
        "{screen}"
    );
}

#[test]
fn keys_ask_the_watcher() {
    let mut view = view();
    view.update(report(0, vec![site(1, "load", 9)]), 0);
    assert_eq!(press(&mut view, Key::Char('m')), Some(Action::Mark));
    press(&mut view, Key::Char('w'));
    assert_eq!(
        press(&mut view, Key::Enter),
        Some(Action::Save("live.allotrope".into()))
    );
    let control = Key::Control;
    assert_eq!(view.key(control('z')), Some(Action::Suspend));
    assert_eq!(view.key(control('c')), Some(Action::Quit(AtEnd::Restore)));
    for (key, at_end) in [
        ('l', AtEnd::Leave),
        ('o', AtEnd::Off),
        ('r', AtEnd::Restore),
    ] {
        press(&mut view, Key::Char('q'));
        assert_eq!(press(&mut view, Key::Char(key)), Some(Action::Quit(at_end)));
        press(&mut view, Key::Esc);
    }
    // What was not started cannot be ended.
    press(&mut view, Key::Char('q'));
    assert_eq!(press(&mut view, Key::Char('e')), None);
}

#[test]
fn a_program_that_was_started_can_be_ended() {
    let mut view = View::new(AtEnd::Stop, false);
    view.update(report(0, Vec::new()), 0);
    press(&mut view, Key::Char('q'));
    assert!(drawn(&view, 80, 24)[22].contains("(e)nd the program"));
    assert_eq!(
        press(&mut view, Key::Enter),
        Some(Action::Quit(AtEnd::Stop))
    );
}

#[test]
fn processes_are_chosen_and_one_stays() {
    let mut view = view();
    view.set_processes(vec![(1, "one".into()), (2, "two".into())]);
    view.update(report(0, Vec::new()), 0);
    press(&mut view, Key::Char('p'));
    assert_eq!(press(&mut view, Key::Char(' ')), Some(Action::Choose));
    assert!(!view.is_chosen(1) && view.is_chosen(2));
    press(&mut view, Key::Down);
    assert_eq!(press(&mut view, Key::Char(' ')), None);
    assert!(view.is_chosen(2));
    assert!(
        drawn(&view, 80, 24)
            .concat()
            .contains("one process stays chosen")
    );
    // A process that has ended and comes again under the same id is chosen.
    view.set_processes(vec![(2, "two".into())]);
    assert!(view.is_chosen(1));
}

#[test]
fn when_the_chosen_processes_have_ended_the_others_are_shown() {
    let mut view = view();
    let both = || vec![(1, "one".into()), (2, "two".into())];
    assert!(!view.set_processes(both()));
    view.update(report(0, Vec::new()), 0);
    press(&mut view, Key::Char('p'));
    press(&mut view, Key::Char(' '));
    assert!(!view.set_processes(both()) && !view.is_chosen(1));
    // The selected line is that of a process that is there.
    press(&mut view, Key::Down);
    assert!(view.set_processes(vec![(1, "one".into())]));
    assert!(view.is_chosen(1) && view.memory.is_empty());
    assert!(drawn(&view, 80, 24).concat().contains("▸[x] 1 one"));
}

#[test]
fn the_end_of_the_processes_leaves_what_was_live() {
    let mut view = view();
    view.update(report(0, vec![site(1, "load", 9)]), 0);
    view.set_ended("Process 4711 has ended with status 3");
    let screen = drawn(&view, 100, 24).concat();
    assert!(screen.contains("ended with status 3. w writes what was live, q quits"));
    assert_eq!(names(&view), ["load"]);
    // There is nothing to ask for.
    assert!(matches!(
        press(&mut view, Key::Char('q')),
        Some(Action::Quit(_))
    ));
}

#[test]
fn a_long_watch_keeps_its_beginning_in_bounds() {
    let mut view = view();
    for snapshot in 0..3 * MAX_POINTS as u64 {
        view.update(report(snapshot, Vec::new()), snapshot);
    }
    assert!(view.memory.len() < MAX_POINTS);
    assert_eq!(view.memory[0].1, 0);
}

#[test]
fn thousands_of_sites_fit() {
    let mut view = view();
    let mut report = report(0, (1..5000).map(|it| site(it, "f", 1)).collect());
    report.more_sites = 17;
    view.update(report, 0);
    let lines = drawn(&view, 80, 24);
    let more = lines
        .iter()
        .find(|it| it.contains("more sites"))
        .expect("a line");
    let shown = lines.iter().filter(|it| it.contains("  flat ")).count();
    let expected = format!("{} more sites", 4999 + 17 - shown);
    assert!(
        more.replace([',', ' '], "")
            .contains(&expected.replace(' ', "")),
        "{more}"
    );
    // The selected one is always seen.
    for _ in 0..100 {
        press(&mut view, Key::PageDown);
        assert!(drawn(&view, 80, 24).iter().any(|it| it.starts_with(" ▸")));
    }
}

#[test]
fn colours_are_only_there_if_they_are_wanted() {
    for has_colour in [true, false] {
        let mut view = View::new(AtEnd::Restore, has_colour);
        let mut growing = site(1, "load", 9);
        growing.trend = Trend::Growing;
        view.update(report(0, vec![growing]), 0);
        let lines = view.lines(80, 24);
        let spans = lines.iter().flat_map(|it| &it.0);
        let colours = spans.filter(|it| it.style.colour.is_some());
        assert_eq!(colours.count() > 0, has_colour);
    }
}
