//! Arguments of `allotrope record`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::named_allocators;
use crate::debug_files::DebugFiles;
use crate::values;

/// Arguments of `allotrope record`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "allotrope record [OPTIONS] [--] PROGRAM [ARGS]...")]
pub struct Arguments {
    /// Write the trace to FILE [default: PROGRAM.PID.allotrope]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE even if it is no trace
    #[arg(long)]
    pub force: bool,
    /// Record neither child processes nor what the program execs
    #[arg(long)]
    pub no_follow: bool,
    /// What the program does when the trace is written too slowly
    ///
    /// Wait, or go on and lose events (they are counted).
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_full: WhenFull,
    /// Only count calls and bytes, without call stacks
    ///
    /// By thread and entry point, at a fraction of the cost; there are no temporary, leaked or
    /// peak numbers.
    #[arg(long)]
    pub counts_only: bool,
    /// Record the stack of each deallocation, too
    ///
    /// Then `report --site` and `show` also say where blocks are freed. It makes each
    /// deallocation as costly as an allocation.
    #[arg(long)]
    pub free_stacks: bool,
    /// At the exit, look for blocks that nothing points to any more
    ///
    /// As LeakSanitizer does: of the blocks that are live when the program calls `exit`, `_exit` or
    /// `quick_exit`, which are reachable from variables, stacks and registers, and which are lost? It
    /// delays the exit by a second at most, and takes memory for each live block.
    #[arg(long)]
    pub reachability: bool,
    /// Record an allocator of the program's own, by its functions
    ///
    /// `alloc=ngx_palloc:2@1,free=ngx_pfree:2,reset=ngx_destroy_pool:1`: behind each name the number of
    /// the argument with the size (`1*2`: a product), the block or the owner, and `@` the owner of the
    /// block; `realloc=NAME:BLOCK:SIZE`. Once for each allocator.
    #[arg(long = "allocator", value_name = "FUNCTIONS", value_parser = named_allocators::parse)]
    pub allocators: Vec<String>,
    /// Keep the names of environment variables, too
    ///
    /// Their number, order and lengths are always kept, values never. `replay`, `paths` and
    /// `allocators` rebuild the environment: what a look-up costs depends on it.
    #[arg(long)]
    pub environment_names: bool,
    /// Refused: a running process cannot be recorded
    #[arg(short, long, value_name = "PID", hide = true, value_parser = refuse_running)]
    pub pid: Option<u32>,
    /// What becomes of recorded processes that run on after the program's end
    #[arg(long, value_enum, default_value_t, value_name = "WHAT", hide = true)]
    pub left_behind: LeftBehind,
    /// Write the names of these processes to FILE, one a line
    #[arg(long, value_name = "FILE", hide = true)]
    pub left_behind_list: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Cut call stacks at N frames
    #[arg(long, value_name = "N", default_value_t = 4096, hide_short_help = true,
          value_parser = values::whole::<u32>(1..=4096))]
    pub depth: u32,
    /// Follow frame pointers where code has no unwind information
    ///
    /// Such as JIT code (Node, .NET, Java with -XX:+PreserveFramePointer). Such stacks can lack
    /// frames.
    #[arg(long)]
    pub frame_pointers: bool,
    #[command(flatten)]
    pub debug_files: DebugFiles,
    /// Preload the recorder at PATH in place of the built-in one
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub recorder: Option<PathBuf>,
    /// Show the first screen of the report in place of the summary: `allotrope PROGRAM`
    #[arg(skip)]
    pub first_screen: bool,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub command: Vec<OsString>,
}

impl Arguments {
    /// Those with which the first screen is shown at the end.
    pub fn with_first_screen(self) -> Self {
        Self {
            first_screen: true,
            ..self
        }
    }
}

#[cfg(test)]
impl Arguments {
    /// The program and its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum WhenFull {
    /// The program waits
    #[default]
    Block,
    /// Events are dropped and counted
    Drop,
}

/// What `allotrope test` wants to become of processes that outlive the program.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum LeftBehind {
    /// The recording waits for them
    #[default]
    Wait,
    /// They are ended: SIGTERM, and SIGKILL two seconds later
    End,
    /// The recording ends without them
    Leave,
}

/// The parser of `--pid`, which other profilers have.
fn refuse_running(_: &str) -> Result<u32, &'static str> {
    Err(
        "a running process cannot be recorded, because its earlier blocks would be unknown; \
         start it with `allotrope record PROGRAM`",
    )
}
