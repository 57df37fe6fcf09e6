//! The live view of `allotrope watch`: what a person sees and selects. It gets reports and keys,
//! and draws; it knows nothing of processes and terminals (the command has the loop).
//!
//! Names come from the watched processes: each is escaped before it is drawn.
#![forbid(unsafe_code)]

mod draw;
mod keys;

use allotrope_text::shown;
use allotrope_watch::look::SiteKey;
use allotrope_watch::names::NamedFrame;
use allotrope_watch::report::{Report, SiteRow};
use rustc_hash::FxHashSet;

/// What happens to sampling when the watcher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// It is set to what it was.
    Restore,
    /// It stays.
    Leave,
    /// It is switched off.
    Off,
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
    /// The question how to quit.
    Quit,
    /// A name is being typed.
    SaveAs(String),
}

/// The view.
#[derive(Debug)]
pub struct View {
    report: Option<Report>,
    /// Live and resident bytes at the looks, the oldest first.
    memory: Vec<(f64, u64)>,
    began: Option<u64>,
    selected: Option<SiteKey>,
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

/// Most looks of the timeline; then every other one is dropped.
const LOOKS: usize = 4096;
/// Most characters that are typed into a line.
const TYPED: usize = 200;

impl View {
    /// Without a report yet. `at_end` is what Enter answers to the question at the end.
    pub fn new(at_end: AtEnd, has_colour: bool) -> Self {
        Self {
            report: None,
            memory: Vec::new(),
            began: None,
            selected: None,
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

    /// Takes a new report, and the resident set of the processes in bytes.
    pub fn update(&mut self, report: Report, resident: u64) {
        self.began.get_or_insert(report.real_time);
        let live = report.total.as_ref().map(|it| it.live.bytes().value);
        self.memory.push((live.unwrap_or(0.0), resident));
        if self.memory.len() >= LOOKS {
            self.memory = self.memory.iter().step_by(2).copied().collect();
        }
        self.report = Some(report);
        self.keep_selection();
    }

    /// Shows a message in the last line but one.
    pub fn set_status(&mut self, status: &str) {
        self.status = shown(status).into_owned();
    }

    /// The processes have ended, in this way.
    pub fn set_ended(&mut self, how: &str) {
        self.ended = Some(shown(how).into_owned());
    }

    /// The sites that are shown, in order.
    fn sites(&self) -> Vec<&SiteRow> {
        let Some(report) = &self.report else {
            return Vec::new();
        };
        let wanted = self.filter.to_lowercase();
        let is_wanted = |site: &&SiteRow| {
            let has = |it: &NamedFrame| it.name().to_lowercase().contains(&wanted);
            !self.ignored.contains(&site.key) && (wanted.is_empty() || site.stack.iter().any(has))
        };
        let mut sites: Vec<&SiteRow> = report.sites.iter().filter(is_wanted).collect();
        let rank = |it: &&SiteRow| match self.sort {
            Sort::Live => it.sums.live.bytes().value,
            Sort::Growth => it.sums.grown_bytes().value,
            Sort::Age => it.oldest as f64,
            Sort::Samples => it.sums.live.samples() as f64,
        };
        sites.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(a.key.cmp(&b.key)));
        sites
    }

    /// The selected site and its place.
    fn selection(&self) -> Option<(usize, &SiteRow)> {
        let mut sites = self.sites().into_iter().enumerate();
        sites.find(|(_, it)| Some(it.key) == self.selected)
    }

    /// Selects the first site if the selected one is not shown.
    fn keep_selection(&mut self) {
        if self.selection().is_none() && !matches!(self.screen, Screen::Stack(_)) {
            self.selected = self.sites().first().map(|it| it.key);
        }
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

/// The function that a site is named by: the innermost one of the user's own code. That is code
/// with a source file outside of the system's folders, otherwise in a module outside of them.
fn own_frame(stack: &[NamedFrame]) -> Option<&NamedFrame> {
    let is_system = |path: &str| path.starts_with("/usr/") || path.starts_with("/lib");
    let has_name = |it: &&NamedFrame| !it.function.is_empty();
    let mut own = stack.iter().filter(has_name);
    own.find(|it| !it.module.is_empty() && !is_system(&it.module) && !is_system(&it.file))
        .or_else(|| stack.iter().find(has_name))
        .or(stack.first())
}

fn site_name(site: &SiteRow) -> String {
    own_frame(&site.stack).map_or_else(
        || "[no stack]".to_owned(),
        |it| shown(&it.name()).into_owned(),
    )
}
