//! The live view of `allotrope watch`: what a person sees and selects. It gets reports and keys,
//! and draws; it knows nothing of processes and terminals (the command has the loop).
//!
//! Names come from the watched processes: each is escaped before it is drawn.

mod draw;
pub mod key;
mod keys;
pub mod line;

use std::collections::BTreeSet;

use crate::names::{Frame, name_of};
use crate::report::{Report, SiteRow};
use crate::snapshot::SiteKey;
use allotrope_text::shown;
use rustc_hash::{FxHashMap, FxHashSet};

/// What happens to sampling when the watcher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// It is set to what it was.
    Restore,
    /// It stays.
    Leave,
    /// It is switched off.
    Off,
    /// The program, which the watcher has started, is sampled as sparsely as one that nobody watches.
    StandBy,
    /// The program, which the watcher has started, is asked to end.
    Stop,
}

/// What a key asks of the watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To end.
    Quit(AtEnd),
    /// To compare with the present moment from now on.
    Mark,
    /// To write a sampled profile to this path.
    Save(String),
    /// To watch other ones of the processes: see [`View::is_chosen`].
    Choose,
    /// To give the terminal back to the shell for a while.
    Suspend,
}

/// By what the sites are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Live,
    Growth,
    Age,
    Samples,
}

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Screen {
    #[default]
    Table,
    /// The stack of the selected site, from this line on.
    Stack(u16),
    Help,
    /// The list of processes, with the place of the selected one.
    Processes(usize),
    /// The question how to quit.
    Quit,
    /// A name is being typed.
    SaveAs(String),
}

/// The view.
#[derive(Debug)]
pub struct View {
    report: Option<Report>,
    /// Live and resident bytes at the snapshots, the oldest first.
    memory: Vec<(f64, u64)>,
    began: Option<u64>,
    selected: Option<SiteKey>,
    /// The sites as they are shown. While a person reads, they keep their places.
    order: Vec<SiteKey>,
    /// Snapshots since the last key.
    quiet: u32,
    /// All processes, chosen or not.
    processes: Vec<(u32, String)>,
    unchosen: BTreeSet<u32>,
    sort: Sort,
    filter: String,
    is_filtering: bool,
    ignored: FxHashSet<SiteKey>,
    screen: Screen,
    status: String,
    ended: Option<String>,
    at_end: AtEnd,
    has_colour: bool,
}

/// Most points of the timeline; then every other one is dropped.
const MAX_POINTS: usize = 4096;
/// Most characters that are typed into a line.
const MAX_TYPED: usize = 200;
/// After this many snapshots without a key nobody reads, and the sites are sorted anew at each snapshot.
const QUIET: u32 = 10;

impl View {
    /// Without a report yet. `at_end` is what Enter answers to the question at the end, and
    /// what Ctrl-C does; [`AtEnd::Stop`] says that the watcher has started the program.
    pub fn new(at_end: AtEnd, has_colour: bool) -> Self {
        Self {
            report: None,
            memory: Vec::new(),
            began: None,
            selected: None,
            order: Vec::new(),
            quiet: QUIET,
            processes: Vec::new(),
            unchosen: BTreeSet::new(),
            sort: Sort::default(),
            filter: String::new(),
            is_filtering: false,
            ignored: FxHashSet::default(),
            screen: Screen::default(),
            status: String::new(),
            ended: None,
            at_end,
            has_colour,
        }
    }

    /// Takes the ids and names of all processes. Those that are not chosen are in no report. If
    /// none of the chosen ones is left, all are chosen: returns whether that is so, and the
    /// watcher begins anew with them.
    pub fn set_processes(&mut self, processes: Vec<(u32, String)>) -> bool {
        let ids: BTreeSet<u32> = processes.iter().map(|it| it.0).collect();
        self.unchosen.retain(|it| ids.contains(it));
        self.processes = processes;
        if let Screen::Processes(place) = &mut self.screen {
            *place = (*place).min(self.processes.len().saturating_sub(1));
        }
        let is_other = !ids.is_empty() && self.unchosen.len() == ids.len();
        if is_other {
            self.unchosen.clear();
            self.begin_anew();
        }
        is_other
    }

    /// The watcher begins anew with other processes.
    fn begin_anew(&mut self) {
        (self.began, self.memory) = (None, Vec::new());
    }

    /// Whether a process is one of those that the report is about. All are until one is removed.
    pub fn is_chosen(&self, process: u32) -> bool {
        !self.unchosen.contains(&process)
    }

    /// Takes a new report of the chosen processes, and their resident set in bytes.
    pub fn update(&mut self, report: Report, resident: u64) {
        self.began.get_or_insert(report.real_time);
        let live = report.total.as_ref().map(|it| it.live.bytes().value);
        self.memory.push((live.unwrap_or(0.0), resident));
        if self.memory.len() >= MAX_POINTS {
            self.memory = self.memory.iter().step_by(2).copied().collect();
        }
        self.report = Some(report);
        self.quiet = self.quiet.saturating_add(1);
        match self.quiet > QUIET {
            true => self.sort_sites(),
            false => self.keep_order(),
        }
        self.keep_selection();
    }

    /// Shows a message in the last line but one; an empty one removes it.
    pub fn set_status(&mut self, status: &str) {
        self.status = shown(status).into_owned();
    }

    /// The processes have ended, in this way.
    pub fn set_ended(&mut self, how: &str) {
        let mut how = shown(how).into_owned();
        // It becomes a sentence.
        if let Some(first) = how.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.ended = Some(how);
    }

    /// The sites that are shown, in order.
    fn sites(&self) -> Vec<&SiteRow> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |site: &&SiteRow| {
            let has = |it: &Frame| name_of(it).to_lowercase().contains(&wanted);
            !self.ignored.contains(&site.key) && (wanted.is_empty() || site.stack.iter().any(has))
        };
        let rows = self.report.iter().flat_map(|it| &it.sites);
        let rows: FxHashMap<SiteKey, &SiteRow> = rows.map(|it| (it.key, it)).collect();
        let ordered = self.order.iter().filter_map(|it| rows.get(it).copied());
        ordered.filter(is_wanted).collect()
    }

    /// Sorts the sites.
    fn sort_sites(&mut self) {
        self.order = self.sorted();
    }

    fn sorted(&self) -> Vec<SiteKey> {
        let rows = self.report.iter().flat_map(|it| &it.sites);
        let mut rows: Vec<&SiteRow> = rows.collect();
        let rank = |it: &&SiteRow| match self.sort {
            Sort::Live => it.sums.live.bytes().value,
            Sort::Growth => self.rate(it).unwrap_or(0.0),
            Sort::Age => it.oldest as f64,
            Sort::Samples => it.sums.live.samples() as f64,
        };
        rows.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(a.key.cmp(&b.key)));
        rows.into_iter().map(|it| it.key).collect()
    }

    /// Keeps the places of the sites; new ones come last.
    fn keep_order(&mut self) {
        let sorted = self.sorted();
        let present: FxHashSet<SiteKey> = sorted.iter().copied().collect();
        self.order.retain(|it| present.contains(it));
        let placed: FxHashSet<SiteKey> = self.order.iter().copied().collect();
        let new = sorted.into_iter().filter(|it| !placed.contains(it));
        self.order.extend(new);
    }

    /// The selected site and its place: the first one until a person selects another.
    fn selection(&self) -> Option<(usize, &SiteRow)> {
        let mut sites = self.sites().into_iter().enumerate();
        match self.selected {
            None => sites.next(),
            Some(key) => sites.find(|(_, it)| it.key == key),
        }
    }

    /// Selects the first site if the selected one is not shown any more.
    fn keep_selection(&mut self) {
        if self.selection().is_none() && !matches!(self.screen, Screen::Stack(_)) {
            self.selected = None;
        }
    }

    /// What a site gains a minute: in the last third of the time that was watched, as for its
    /// trend. `None` before there are enough snapshots.
    fn rate(&self, site: &SiteRow) -> Option<f64> {
        let (now, began) = (self.report.as_ref()?.real_time, self.began?);
        let minutes = now.checked_sub(began)? as f64 / 60e9;
        let intervals = site.history.len().checked_sub(1)?;
        let part = intervals.div_ceil(3);
        if intervals < 3 || minutes <= 0.0 {
            return None;
        }
        let gain = site.history[intervals] - site.history[intervals - part];
        Some(gain / (minutes * part as f64 / intervals as f64))
    }

    fn move_selection(&mut self, by: isize) {
        let place = self.selection().map_or(0, |it| it.0);
        let sites = self.sites();
        let place = place.saturating_add_signed(by);
        let place = place.min(sites.len().saturating_sub(1));
        let key = sites.get(place).map(|it| it.key);
        self.selected = key;
    }
}

fn site_name(site: &SiteRow) -> String {
    site.stack.get(site.headline).map_or_else(
        || "[no stack]".to_owned(),
        |it| shown(&name_of(it)).into_owned(),
    )
}

#[cfg(test)]
mod tests;
