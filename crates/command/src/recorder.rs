//! `allotrope recorder`: writes the recorder's library to a file that can be shipped, and preloaded without
//! this command.

use std::path::PathBuf;

use crate::exit_status::{FINE, Failure};
use crate::message;
use crate::recorder_library;
use crate::replacing::{ForceArguments, Kind};
use crate::to_write::ToWrite;
use allotrope_text::Shown;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The library needs nothing but glibc. It does nothing unless the environment of the process asks
for it:

  LD_PRELOAD=/usr/lib/liballotrope.so ALLOTROPE_WATCH=standby ./server    # ready to be watched
  LD_PRELOAD=/usr/lib/liballotrope.so ALLOTROPE_WATCH=512KiB ./server     # sampled from the start

so unit files, containers and /etc/ld.so.preload need no other command line. Then
`allotrope watch PID`, with an allotrope of the same version. A value that is neither `standby` nor
a size leaves the program untouched, and the library says so in a sentence.

Exit status: 0 if the file was written, 1 if it could not be, 2 if another file is there.";

/// Arguments of `allotrope recorder`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where to write it, such as /usr/lib/liballotrope.so; - is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the library for programs with operators new and delete of their own
    ///
    /// jemalloc and tcmalloc have such operators. LD_PRELOAD names it behind the recorder.
    #[arg(long)]
    cxx_hooks: bool,
    #[command(flatten)]
    force: ForceArguments,
}

/// Writes the library.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = &arguments.output;
    let file = ToWrite {
        path,
        kind: Kind {
            what: "earlier library of allotrope",
            is_own: &recorder_library::is_own_library,
        },
        force: arguments.force,
    };
    file.refuse_terminal("the library")?;
    file.create([], |output| {
        output.write_all(recorder_library::bytes(arguments.cxx_hooks))
    })?;
    if path.as_os_str() != "-" {
        message::print(format_args!("wrote {}", path.shown()));
    }
    Ok(FINE)
}
