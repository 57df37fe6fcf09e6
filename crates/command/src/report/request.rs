//! What a report shows: decided once, from the arguments alone. Combinations that have no meaning
//! are refused here; what the recording itself rules out is refused when it is read.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use allotrope_reading::{Wanted, split};
use allotrope_report::RecordFormat;
use allotrope_report::text::TreeOrder;
use allotrope_text::{Shown, quoted};
use anyhow::anyhow;

use super::arguments::{Arguments, By, Format, Way};
use crate::exit_status::{BAD_INPUT, Failure};
use crate::recordings::recordings;
use crate::time::TimeArguments;

/// What is to be done.
pub enum Task<'a> {
    /// Write the page of a recording.
    Page {
        /// The recording.
        path: PathBuf,
        /// The page.
        out: &'a Path,
    },
    /// Show something of a recording.
    Show(Request<'a>),
}

/// What is to be shown of a recording.
pub struct Request<'a> {
    /// Its file, without a moment.
    pub path: PathBuf,
    /// The file was not named: it is the newest one here.
    pub is_newest: bool,
    /// What is made of it.
    pub mode: Mode<'a>,
    /// The range of time or the moment, also that of `FILE@MOMENT`.
    pub time: TimeArguments,
}

/// What is made of a recording.
#[derive(Clone, Copy)]
pub enum Mode<'a> {
    /// A flame graph in this file.
    FlameGraph(&'a Path),
    /// All of it as JSON; with findings, if nothing but the whole recording is wanted.
    Json { has_findings: bool },
    /// The first screen.
    Screen,
    /// One site, and its blocks.
    Site {
        number: u32,
        blocks: Option<BlockOptions>,
    },
    /// Lists of stacks, or a tree of them.
    Stacks(Option<TreeOrder>),
    /// A list with a line for each of these.
    List(By),
}

/// How the blocks of a site are written.
#[derive(Debug, Clone, Copy)]
pub struct BlockOptions {
    /// `None`: text.
    pub format: Option<RecordFormat>,
    /// Most blocks.
    pub limit: u64,
}

impl Request<'_> {
    /// Writes a first line that names the recording if the command line did not.
    pub fn write_newest(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.is_newest {
            true => writeln!(
                out,
                "{}, the newest recording here",
                quoted(self.path.as_os_str())
            ),
            false => Ok(()),
        }
    }
}

impl Mode<'_> {
    /// What the profile needs besides its figures.
    pub fn wanted(self) -> Wanted<'static> {
        let nothing = Wanted::default();
        match self {
            Self::FlameGraph(_) | Self::Stacks(_) => nothing,
            Self::Screen => Wanted::FINDINGS,
            Self::Json { has_findings } => Wanted {
                times: has_findings.then_some(&[]),
                evidence: has_findings,
                site_details: true,
                ..nothing
            },
            // Curves need the times of blocks, as findings do.
            Self::Site { .. } => Wanted {
                times: Some(&[]),
                site_details: true,
                ..nothing
            },
            Self::List(by) => Wanted {
                times: matches!(by, By::Function | By::Own | By::Thread | By::Type).then_some(&[]),
                thread_times: by == By::Thread,
                site_details: matches!(by, By::Size | By::Entry),
                ..nothing
            },
        }
    }
}

impl<'a> Task<'a> {
    /// Decides, or refuses with a sentence.
    pub fn new(arguments: &'a Arguments) -> Result<Self, Failure> {
        check_format(arguments)?;
        let (named, tree) = path_and_tree(arguments)?;
        let is_newest = named.is_none();
        let path = match named {
            Some(path) => path.to_owned(),
            None => newest(arguments)?,
        };
        if let Some(out) = &arguments.html {
            check_page(arguments)?;
            return Ok(Self::Page { path, out });
        }
        let (path, moment) = split(&path);
        let others = [
            (arguments.window.is_some(), "--window"),
            (arguments.events, "--events"),
        ];
        let time = arguments.time.with_moment(moment, &others)?;
        let mode = mode(arguments, &time, tree);
        let is_refined = refines(arguments) || arguments.source;
        if arguments.format == Format::Markdown && (is_refined || !matches!(mode, Mode::Screen)) {
            return Err(refuse(
                "--format markdown writes the first screen; leave out the options that select or rank stacks",
            ));
        }
        Ok(Self::Show(Request {
            path: path.to_owned(),
            is_newest,
            mode,
            time,
        }))
    }
}

fn refuse(sentence: &'static str) -> Failure {
    Failure::new(BAD_INPUT, anyhow!(sentence))
}

fn mode<'a>(arguments: &'a Arguments, time: &TimeArguments, tree: Option<TreeOrder>) -> Mode<'a> {
    if let Some(out) = &arguments.flamegraph {
        return Mode::FlameGraph(out);
    }
    if arguments.format == Format::Json {
        let has_findings = arguments.window.is_none() && time.option().is_none();
        return Mode::Json { has_findings };
    }
    if let Some(number) = arguments.site {
        let blocks = arguments.events.then(|| BlockOptions {
            format: arguments.format.of_records(),
            limit: arguments.limit.unwrap_or(u64::MAX),
        });
        return Mode::Site { number, blocks };
    }
    match arguments.by {
        None if is_screen(arguments, time) => Mode::Screen,
        None | Some(By::Stack) => Mode::Stacks(tree),
        Some(by) => Mode::List(by),
    }
}

/// Whether the first screen is wanted: no option chooses anything else.
fn is_screen(arguments: &Arguments, time: &TimeArguments) -> bool {
    !(chooses(arguments, time) || arguments.suppressions.is_given() || arguments.all_leaks)
}

/// Whether an option chooses a part of the recording, or how text shows it.
fn selects(arguments: &Arguments, time: &TimeArguments) -> bool {
    chooses(arguments, time) || refines(arguments)
}

/// Whether an option chooses something else than the first screen.
fn chooses(arguments: &Arguments, time: &TimeArguments) -> bool {
    arguments.lists
        || arguments.by.is_some()
        || arguments.metric.is_some()
        || arguments.tree.is_some()
        || arguments.window.is_some()
        || time.option().is_some()
        || arguments.freed_only
        || arguments.site.is_some()
        || arguments.flamegraph.is_some()
}

/// Whether an option chooses what the first screen, or a list, shows.
fn refines(arguments: &Arguments) -> bool {
    arguments.top.is_some()
        || arguments.filter.is_given()
        || arguments.per.is_some()
        || arguments.leaked_only
        || arguments.all_frames
}

/// The recording and the order of the tree, from `FILE` and `--tree [ORDER]` together: without an
/// order, the parser takes `FILE` for the value of `--tree`.
fn path_and_tree(arguments: &Arguments) -> Result<(Option<&Path>, Option<TreeOrder>), Failure> {
    let bottom_up = OsStr::new("bottom-up");
    let is_order = |word: &OsStr| word == bottom_up || word == OsStr::new("top-down");
    let (path, order) = match (&arguments.trace, arguments.tree.as_deref()) {
        (Some(path), order) => (Some(path.as_path()), order),
        (None, Some(order)) if is_order(order) => (None, Some(order)),
        (None, Some(path)) => (Some(Path::new(path)), Some(bottom_up)),
        (None, None) => (None, None),
    };
    let order = match order.map(|order| (order, order.to_str())) {
        None => None,
        Some((_, Some("bottom-up"))) => Some(TreeOrder::BottomUp),
        Some((_, Some("top-down"))) => Some(TreeOrder::TopDown),
        Some((other, _)) => {
            let sentence = anyhow!(
                "a tree has no order {}; write --tree bottom-up or --tree top-down",
                Path::new(other).shown()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
    };
    let tree = order.map(|order| match arguments.direction {
        None => order,
        Some(Way::Outwards) => TreeOrder::BottomUp,
        Some(Way::Inwards) => TreeOrder::TopDown,
    });
    Ok((path, tree))
}

/// The user's newest recording in the current folder. What is written to a file or for a program is
/// not to depend on which that is.
fn newest(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let found = recordings(Path::new("."));
    let Some(newest) = found.iter().find(|it| it.is_own()) else {
        return Err(refuse(
            "no recording is named, and you have none in this folder; `allotrope record PROGRAM` makes one, `allotrope report FILE` shows one",
        ));
    };
    let options = [
        (arguments.html.is_some(), "--html"),
        (arguments.flamegraph.is_some(), "--flamegraph"),
        (arguments.format != Format::Text, "--format"),
    ];
    match options.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => {
            let sentence = anyhow!(
                "with {option} name the recording; the newest in this folder is {}",
                quoted(newest.path.as_os_str())
            );
            Err(Failure::new(BAD_INPUT, sentence))
        }
        None => Ok(newest.path.clone()),
    }
}

/// Refuses options that the page does not have.
fn check_page(arguments: &Arguments) -> Result<(), Failure> {
    let chooses = arguments.format != Format::Text
        || arguments.process.is_some()
        || arguments.merge
        || selects(arguments, &arguments.time);
    match chooses {
        true => Err(refuse(
            "--html: the page has the whole recording, and is one file; leave the options out that select or format text",
        )),
        false => Ok(()),
    }
}

/// Refuses options that select parts of the text together with JSON, which always
/// has everything and would ignore them silently.
fn check_format(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.format {
        Format::JsonLines | Format::Csv if !arguments.events => {
            return Err(refuse(
                "--format json-lines and csv write single allocations; add --site N --events, or use --format json for the whole report",
            ));
        }
        Format::Json | Format::Markdown if arguments.events => {
            return Err(refuse(
                "--events writes text; for programs there are --format json-lines and --format csv",
            ));
        }
        Format::Json => {}
        _ => return Ok(()),
    }
    let selects = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.filter.is_given(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
        (arguments.by.is_some(), "--by"),
        (arguments.lists, "--lists"),
    ];
    if let Some((_, option)) = selects.iter().find(|(given, _)| *given) {
        let sentence = anyhow!(
            "{option} selects parts of the text, but --format json always writes every site; leave one of them out"
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    match arguments.flamegraph {
        Some(_) => Err(refuse(
            "--flamegraph writes a picture instead of a report, so --format json has nothing to write; leave one of them out",
        )),
        None => Ok(()),
    }
}

/// The first option that needs events with call stacks, if one is given.
pub fn option_of_events(arguments: &Arguments, time: &TimeArguments) -> Option<&'static str> {
    let time = time.option();
    let needs_events = matches!(
        arguments.by,
        Some(By::Function | By::Own | By::Module | By::Stack | By::Size | By::Type)
    );
    let needs = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.metric.is_some(), "--metric"),
        (arguments.filter.is_given(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
        (arguments.window.is_some(), "--window"),
        (arguments.flamegraph.is_some(), "--flamegraph"),
        (needs_events, "--by"),
        (arguments.format == Format::Markdown, "--format markdown"),
        (time.is_some(), time.unwrap_or_default()),
    ];
    let needed = needs.into_iter().find(|(given, _)| *given);
    needed.map(|(_, option)| option)
}
