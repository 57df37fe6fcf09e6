//! The data types of a profile: processes, their sites, the frames of their stacks.
//! Words such as *temporary* or *leaked* have the meaning of the README's glossary. The
//! aggregation computes the figures; nothing is computed here.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use allotrope_text::{text_of_os, text_of_path};
use allotrope_trace::model::{
    EntryPoint, Exit, ImageId, LossReason, MissingNames, Origin, QuietWait, Recording, StackId,
    ThreadId, Unrecorded,
};

use crate::details::{SiteDetails, SizeFigures};
use crate::evidence::Evidence;
use crate::filter::Filter;
use crate::gap::Gap;
use crate::lifetime::Lifetimes;
use crate::named_frame::Frame;
use crate::reachability::{Lost, Reachability};
use crate::series::{ResidentPoint, Series};
use crate::stack::Stack;
use crate::time_table::TimeTable;
use crate::windows::{WindowFigures, WindowKey, WindowRun};

/// Module index of frames that lie in no known module.
pub const UNKNOWN_MODULE: u32 = u32::MAX;

/// The result of aggregating a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// The recording as a whole.
    pub recording: Recording,
    /// Why the trace is not whole; `None` if it is.
    pub cut: Option<String>,
    /// Module files; frames refer to them by index.
    pub modules: Vec<Module>,
    /// Every distinct frame; stacks refer to them by index.
    pub frames: Vec<Frame>,
    /// Process images, in order of start.
    pub processes: Vec<Process>,
    /// Images that could not be recorded.
    pub unrecorded: Vec<Unrecorded>,
    /// The moments that were named while it was recorded, in order of time.
    pub marks: Vec<Mark>,
    /// The recording goes on: this is what was written so far.
    pub is_growing: bool,
}

/// A moment of the recording with a name (`allotrope mark`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// Name of the mark. Several marks may have the same.
    pub name: String,
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
}

/// A module file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Path as the program's loader has it.
    pub path: PathBuf,
    /// GNU build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Whether its main part was compiled without optimisation; `None` if unknown.
    pub unoptimised: Option<bool>,
    /// The compilers and linkers that made it, sorted; empty if unknown.
    pub compilers: Vec<String>,
    /// Why addresses in it have no names, if the recording says so.
    pub missing: Option<MissingNames>,
    /// When the file was modified that ran, in nanoseconds since 1970; 0 if unknown.
    pub modified_ns: u64,
    /// MD5 sums of source files as the compiler read them, by the path in frames.
    pub sources: Vec<(String, [u8; 16])>,
}

impl Module {
    /// The file's name without its folders; bytes that are not UTF-8 are escaped.
    pub fn name(&self) -> Cow<'_, str> {
        match text_of_path(&self.path) {
            Cow::Borrowed(path) => Cow::Borrowed(file_name(path)),
            Cow::Owned(path) => Cow::Owned(file_name(&path).to_owned()),
        }
    }
}

/// A path without its folders; the whole path if it ends in a slash.
pub(crate) fn file_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => path,
    }
}

/// The words of a command line, separated by spaces; bytes that are not UTF-8 are
/// escaped.
pub fn command_text(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| text_of_os(word)).collect();
    words.join(" ")
}

/// One process image: a process (pid) between two calls of `exec`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Number of the image, in order of start.
    pub id: ImageId,
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent_pid: u32,
    /// How the image began.
    pub origin: Origin,
    /// The image it was forked from, if known.
    pub forked_from: Option<ImageId>,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// Start, in microseconds since the start of the recording.
    pub started_us: u64,
    /// Microseconds from its start to its end, or to the last known time if the trace does
    /// not have the end.
    pub duration_us: u64,
    /// How the image ended; `Running` if the trace does not have the end.
    pub exit: Exit,
    /// Everything that its recorder wrote has been read.
    pub complete: bool,
    /// Number of events that are missing: the larger of the number that the recorder
    /// reported, and the number implied by allocations at addresses where a block was
    /// still live.
    pub lost_events: u64,
    /// The reported lost events by reason.
    pub losses: Vec<(LossReason, u64)>,
    /// When events are missing, as far as the trace shows it; in order of time, and apart
    /// from each other.
    pub gaps: Vec<Gap>,
    /// How often its threads waited because the recording was slower than they were.
    pub waits: u64,
    /// How long its threads waited, summed, in microseconds.
    pub waited_us: u64,
    /// Number of events that could also have had another order among threads, events put
    /// in a wrong order (a deallocation too early or too late for its block), and
    /// inherited blocks that turned out not to be live.
    pub ambiguous_events: u64,
    /// Deallocations at addresses where no block was live. The deallocations of the
    /// totals include them.
    pub unmatched_deallocations: u64,
    /// Whether its executable was compiled without optimisation; `None` if unknown.
    pub unoptimised: Option<bool>,
    /// Sums over the image.
    pub totals: Totals,
    /// One for each stack that allocated, sorted by allocations, the most first, then by
    /// stack.
    pub sites: Vec<Site>,
    /// Number of sites whose walk was cut at the depth limit.
    pub truncated_stacks: u64,
    /// Number of sites whose walk reached code without unwind information.
    pub stacks_without_unwind_information: u64,
    /// What a scan at the exit found of the live blocks, if there was one.
    pub reachability: Option<Reachability>,
    /// Totals by thread, in the order in which the trace first names the threads.
    pub threads: Vec<ThreadTotals>,
    /// Totals by entry point; only of those that were used.
    pub entries: Vec<EntryTotals>,
    /// Live bytes over time.
    pub live: Series,
    /// Resident memory over time.
    pub resident: Vec<ResidentPoint>,
    /// The windows that the program opened, in order of opening.
    pub windows: Vec<WindowRun>,
    /// When the blocks of each site were allocated and freed, if the aggregation was
    /// [asked for it](crate::Options::time_table).
    pub times: Option<TimeTable>,
    /// When the blocks that each thread allocated were allocated and freed, if the aggregation was
    /// [asked for it](crate::Options::thread_times).
    pub thread_times: Option<TimeTable>,
    /// Blocks of the image by size, the smallest first, if the aggregation was asked for the
    /// [details of sites](crate::Options::site_details).
    pub sizes: Option<Vec<SizeFigures>>,
    /// Evidence for findings, if the aggregation was [asked for it](crate::Options::evidence).
    pub evidence: Option<Evidence>,
    /// Further stacks, if the aggregation was [asked for them](crate::Options::stacks), in
    /// order of their ids.
    pub stacks: Vec<(StackId, Stack)>,
}

/// Sums over a process image. Bytes are requested bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Allocations.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations, including those of inherited and of unknown blocks.
    pub deallocations: u64,
    /// Calls of `realloc` that turned a block into another one.
    pub reallocations: u64,
    /// Temporary allocations.
    pub temporary_allocations: u64,
    /// Allocations live at the end.
    pub leaked_allocations: u64,
    /// Bytes of the allocations live at the end.
    pub leaked_bytes: u64,
    /// Largest number of live bytes.
    pub peak_bytes: u64,
    /// Allocations live then.
    pub peak_allocations: u64,
    /// Time of the peak, in microseconds since the start of the image; the latest on a
    /// tie.
    pub peak_time_us: u64,
    /// Blocks inherited at `fork`.
    pub inherited_allocations: u64,
    /// Bytes of the inherited blocks.
    pub inherited_bytes: u64,
    /// Inherited blocks that this image deallocated.
    pub inherited_deallocations: u64,
}

/// All allocations of an image that share one stack of return addresses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Site {
    /// Number of the site in the whole profile, from 1.
    pub number: u32,
    /// The stack's id in its image.
    pub stack_id: StackId,
    /// Indexes into [`Profile::frames`], innermost first. Inlined functions have frames
    /// of their own.
    pub stack: Stack,
    /// Allocations.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Allocations made by a reallocation.
    pub reallocations: u64,
    /// Temporary allocations.
    pub temporary_allocations: u64,
    /// Allocations live at the end.
    pub leaked_allocations: u64,
    /// Bytes of the allocations live at the end.
    pub leaked_bytes: u64,
    /// The live ones at the end that are lost, if the process was scanned for them and there are
    /// any.
    pub lost: Option<Box<Lost>>,
    /// Bytes live at the image's peak.
    pub bytes_at_peak: u64,
    /// Allocations live at the image's peak.
    pub allocations_at_peak: u64,
    /// Largest number of bytes of the site that were live at once, at whatever time; at
    /// least [`Self::bytes_at_peak`].
    pub max_bytes: u64,
    /// Allocations live at that moment; on a tie the latest.
    pub max_allocations: u64,
    /// How often its last live block was freed: blocks that live and die together do that once.
    pub emptied: u64,
    /// How long the blocks lived.
    pub lifetimes: Lifetimes,
    /// Entry points, sizes and who frees the blocks, if the aggregation was
    /// [asked for it](crate::Options::site_details).
    pub details: Option<Box<SiteDetails>>,
}

/// Sums over one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadTotals {
    /// The thread; `None` for events whose thread the trace does not name.
    pub thread: Option<ThreadId>,
    /// The kernel's thread id; 0 if unknown.
    pub tid: u32,
    /// Name of the thread; empty if unknown.
    pub name: String,
    /// Allocations it made.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations it made.
    pub deallocations: u64,
    /// Allocations of the thread that were temporary.
    pub temporary_allocations: u64,
    /// How often it waited for the recording.
    pub waits: u64,
    /// How long it waited, in microseconds.
    pub waited_us: u64,
}

/// Sums over one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryTotals {
    /// The entry point.
    pub entry: EntryPoint,
    /// Allocations through it.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations through it.
    pub deallocations: u64,
}

impl EntryTotals {
    /// The sums of an entry point before its first call.
    pub(crate) const fn none(entry: EntryPoint) -> Self {
        Self {
            entry,
            allocations: 0,
            allocated_bytes: 0,
            deallocations: 0,
        }
    }
}

impl Profile {
    /// The site with this number, and its process.
    pub fn site(&self, number: u32) -> Option<(&Process, &Site)> {
        self.processes.iter().find_map(|process| {
            let site = process.sites.iter().find(|site| site.number == number)?;
            Some((process, site))
        })
    }

    /// Keeps only the sites with a frame that matches, and their times. The totals and curves
    /// of processes, and their threads, remain those of the whole process.
    pub fn filter(&mut self, filter: &Filter) {
        let matches = |frame: &Frame| {
            let module = self.modules.get(frame.module as usize);
            let module = module.map(Module::name).unwrap_or_default();
            filter.matches(&frame.function, &frame.file, &module)
        };
        let matching: Vec<bool> = self.frames.iter().map(matches).collect();
        let is_wanted = |frame: &u32| matching.get(*frame as usize) == Some(&true);
        for process in &mut self.processes {
            let sites = process.sites.iter();
            let is_kept: Vec<bool> = sites.map(|site| site.stack.iter().any(is_wanted)).collect();
            if let Some(times) = &mut process.times {
                times.retain_sites(&is_kept);
            }
            let mut kept = is_kept.into_iter();
            process.sites.retain(|_| kept.next() == Some(true));
        }
    }

    /// Name of the frame's module; empty if unknown.
    pub fn module_name(&self, frame: &Frame) -> Cow<'_, str> {
        let module = self.modules.get(frame.module as usize);
        module.map(Module::name).unwrap_or_default()
    }

    /// Whether calls were counted and not recorded (`--counts-only`). Then the temporary,
    /// leaked, inherited and peak figures are unknown and 0, and there are no sites.
    pub fn is_counts_only(&self) -> bool {
        self.recording.counts_only
    }

    /// Whether every image ended and everything that its recorder wrote has been read.
    pub fn is_complete(&self) -> bool {
        self.cut.is_none() && self.processes.iter().all(|process| process.complete)
    }
}

impl From<&Totals> for WindowFigures {
    /// The figures of a whole image as those of one window.
    fn from(totals: &Totals) -> Self {
        Self {
            allocations: totals.allocations,
            allocated_bytes: totals.allocated_bytes,
            deallocations: totals.deallocations,
            reallocations: totals.reallocations,
            temporary_allocations: totals.temporary_allocations,
            remaining_allocations: totals.leaked_allocations,
            remaining_bytes: totals.leaked_bytes,
            peak_bytes: totals.peak_bytes,
            peak_allocations: totals.peak_allocations,
        }
    }
}

impl Process {
    /// The whole image as one window without a name, closed if the image ended.
    pub fn whole(&self) -> WindowRun {
        WindowRun {
            key: WindowKey {
                image: self.id,
                opened: 0,
            },
            name: String::new(),
            occurrence: 1,
            iterations: 0,
            thread: None,
            opened_us: 0,
            duration_us: self.duration_us,
            closed: self.exit != Exit::Running,
            measured: true,
            quiet: [QuietWait::NotRequested; 2],
            figures: WindowFigures::from(&self.totals),
            descriptors: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_is_the_path_without_folders() {
        assert_eq!(file_name("/usr/lib/libc.so.6"), "libc.so.6");
        assert_eq!(file_name("linux-vdso.so.1"), "linux-vdso.so.1");
        assert_eq!(file_name("/odd/"), "/odd/");
    }
}
