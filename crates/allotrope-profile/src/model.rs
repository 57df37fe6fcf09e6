//! What a profile holds: processes, their sites, the frames of their stacks.
//! Every word is used as the project's glossary defines it. Nothing is
//! computed here but sums.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use allotrope_text::{text_of_os, text_of_path};
use allotrope_trace::model::{
    EntryPoint, Exit, ImageId, LossReason, Origin, Recording, StackId, ThreadId, Unrecorded,
};

use crate::lifetime::Lifetimes;
use crate::series::{ResidentSample, Series};
use crate::stack::Stack;
use crate::windows::WindowRun;

/// Module index of frames that lie in no known module.
pub const UNKNOWN_MODULE: u32 = u32::MAX;

/// Everything that a replay found in a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// The recording as a whole.
    pub recording: Recording,
    /// Why the trace is not whole, if it is not.
    pub cut: Option<String>,
    /// Module files.
    pub modules: Vec<Module>,
    /// Frames, each once; stacks refer to them by index.
    pub frames: Vec<Frame>,
    /// Process images, in order of start.
    pub processes: Vec<Process>,
    /// Images that could not be recorded.
    pub unrecorded: Vec<Unrecorded>,
}

/// A module file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Path as the program's loader knew it.
    pub path: PathBuf,
    /// GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    /// Whether its main part was compiled without optimisation, if known.
    pub unoptimised: Option<bool>,
}

impl Module {
    /// The file's name without its folders; bytes that are no UTF-8 are escaped.
    pub fn name(&self) -> Cow<'_, str> {
        match text_of_path(&self.path) {
            Cow::Borrowed(path) => Cow::Borrowed(file_name(path)),
            Cow::Owned(path) => Cow::Owned(file_name(&path).to_owned()),
        }
    }
}

/// A path without its folders; the path itself where it ends in a slash.
pub(crate) fn file_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => path,
    }
}

/// The words of a command line with spaces between them; bytes that are no UTF-8
/// are escaped.
pub fn command_text(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| text_of_os(word)).collect();
    words.join(" ")
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Frame {
    /// Qualified name without parameters; `module+0x1f` where the address has
    /// no name, `0x7f…` where it has no module, `[truncated]` where the walk
    /// was cut at the depth limit.
    pub function: String,
    /// The full demangled form; empty without a name.
    pub signature: String,
    /// Index into [`Profile::modules`], or [`UNKNOWN_MODULE`].
    pub module: u32,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Bytes from the start of the function; 0 without a name.
    pub offset: u64,
    /// Inlined into the next frame.
    pub inlined: bool,
    /// The compiler wrote the function: a derived trait's method, an implicit copy
    /// constructor.
    pub generated: bool,
}

/// One process image.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Its number, in order of start.
    pub id: ImageId,
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent_pid: u32,
    /// How it came to be.
    pub origin: Origin,
    /// The image it was forked from, if that is known.
    pub forked_from: Option<ImageId>,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// Start, microseconds since the start of the recording.
    pub started_us: u64,
    /// From its start to its end, or to the last that is known of it.
    pub duration_us: u64,
    /// How it ended; `Running` if the trace does not have it.
    pub exit: Exit,
    /// All that its recorder wrote was read.
    pub complete: bool,
    /// Events that are missing: as many as the recorder reported or, if those
    /// are more, as are implied by allocations at addresses that were believed
    /// live.
    pub lost_events: u64,
    /// The reported ones by reason.
    pub losses: Vec<(LossReason, u64)>,
    /// How often its threads waited for the recording, which was slower than
    /// they were.
    pub waits: u64,
    /// How long, all threads together, in microseconds.
    pub waited_us: u64,
    /// Events whose order among threads several histories agree with, those
    /// that were put in a wrong order (a deallocation too early or too late for
    /// its block), and inherited blocks that turned out to be gone.
    pub ambiguous_events: u64,
    /// Deallocations of addresses that were not known to be live. They are
    /// among the deallocations of the totals.
    pub unmatched_deallocations: u64,
    /// Compiled without optimisation (its executable), if known.
    pub unoptimised: Option<bool>,
    /// Sums over the image.
    pub totals: Totals,
    /// One for each stack that allocated: by allocations, the most first, then
    /// by stack.
    pub sites: Vec<Site>,
    /// Sites whose walk was cut at the depth limit.
    pub truncated_stacks: u64,
    /// Sites whose walk met code without unwind information.
    pub stacks_without_unwind_information: u64,
    /// By thread, in order of first event.
    pub threads: Vec<ThreadTotals>,
    /// By entry point; only those that were used.
    pub entries: Vec<EntryTotals>,
    /// Live bytes over time.
    pub live: Series,
    /// Resident memory over time.
    pub resident: Vec<ResidentSample>,
    /// The windows that it opened, in order of opening.
    pub windows: Vec<WindowRun>,
}

/// Sums over a process image. Bytes are requested bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Allocations.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Deallocations: those of inherited and of unknown blocks are among them.
    pub deallocations: u64,
    /// Calls of realloc that gave a block for a block.
    pub reallocations: u64,
    /// Temporary allocations.
    pub temporary_allocations: u64,
    /// Allocations live at the end.
    pub leaked_allocations: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
    /// Largest number of live bytes.
    pub peak_bytes: u64,
    /// Allocations live then.
    pub peak_allocations: u64,
    /// When, microseconds since the start of the image; the latest on a tie.
    pub peak_time_us: u64,
    /// Blocks inherited at `fork`.
    pub inherited_allocations: u64,
    /// Their bytes.
    pub inherited_bytes: u64,
    /// Inherited blocks that this image deallocated.
    pub inherited_deallocations: u64,
}

/// All allocations of an image that share one stack of return addresses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Site {
    /// Its number in the whole profile, from 1.
    pub number: u32,
    /// The stack's id in its image.
    pub stack_id: StackId,
    /// Indexes into [`Profile::frames`], innermost first, inlined expanded.
    pub stack: Stack,
    /// Allocations.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Those that a reallocation made.
    pub reallocations: u64,
    /// Temporary ones.
    pub temporary_allocations: u64,
    /// Those live at the end.
    pub leaked_allocations: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
    /// Bytes live at the image's peak.
    pub bytes_at_peak: u64,
    /// Allocations live at the image's peak.
    pub allocations_at_peak: u64,
    /// How long the blocks lived.
    pub lifetimes: Lifetimes,
}

/// What one thread did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadTotals {
    /// The thread; `None` for events whose thread the trace does not name.
    pub thread: Option<ThreadId>,
    /// The kernel's thread id; 0 if unknown.
    pub tid: u32,
    /// Its name; empty if unknown.
    pub name: String,
    /// Allocations it made.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Deallocations it made.
    pub deallocations: u64,
    /// Its allocations that were temporary.
    pub temporary_allocations: u64,
    /// How often it waited for the recording.
    pub waits: u64,
    /// How long, in microseconds.
    pub waited_us: u64,
}

/// What came through one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryTotals {
    /// The entry point.
    pub entry: EntryPoint,
    /// Allocations through it.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Deallocations through it.
    pub deallocations: u64,
}

impl EntryTotals {
    /// An entry point that was not used yet.
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
    /// The site of this number and its process.
    pub fn site(&self, number: u32) -> Option<(&Process, &Site)> {
        self.processes.iter().find_map(|process| {
            let site = process.sites.iter().find(|site| site.number == number)?;
            Some((process, site))
        })
    }

    /// Name of the frame's module; empty if unknown.
    pub fn module_name(&self, frame: &Frame) -> Cow<'_, str> {
        let module = self.modules.get(frame.module as usize);
        module.map(Module::name).unwrap_or_default()
    }

    /// Calls were counted and not recorded: nothing is temporary, leaked,
    /// inherited or at the peak because that is not known, and there are no sites.
    pub fn is_counts_only(&self) -> bool {
        self.recording.counts_only
    }

    /// Every image ended and all that was recorded of it was read.
    pub fn is_complete(&self) -> bool {
        self.cut.is_none() && self.processes.iter().all(|process| process.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_called_by_its_file_name() {
        assert_eq!(file_name("/usr/lib/libc.so.6"), "libc.so.6");
        assert_eq!(file_name("linux-vdso.so.1"), "linux-vdso.so.1");
        assert_eq!(file_name("/odd/"), "/odd/");
    }
}
