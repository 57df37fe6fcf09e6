//! How much memory a command may take for the files that it reads. A recording of a kilobyte may
//! have a thousand million frames in its stacks, and every output is made of all of them: so what
//! is bounded is the memory of the process, whatever takes it. A thread looks at it, and ends the
//! command with one sentence.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use allotrope_files::remove_unfinished;
use allotrope_text::numbers::bytes;

use crate::exit_status::BAD_INPUT;
use crate::message;

/// Time between two looks. A process touches some tens of megabytes in that time.
const EACH: Duration = Duration::from_millis(10);

/// Large files may take more: for each of their bytes so many. The recording of a program with
/// hundreds of thousands of call stacks takes about a third of that.
const FACTOR: u64 = 128;

/// No limit of memory is below this: about what a command takes by itself.
const OWN: u64 = 32 << 20;

/// `--input-limit` in bytes; 0 while there is no limit.
static MIN: AtomicU64 = AtomicU64::new(0);
/// Bytes of the files that are read.
static FILES: AtomicU64 = AtomicU64::new(0);

/// Ends the command, from now on, if it takes more memory than `least`, and than so much as its
/// files may take.
pub fn limit(least: u64) {
    static STARTED: Once = Once::new();
    MIN.store(least, Ordering::Relaxed);
    STARTED.call_once(|| {
        // Without a thread there is no limit.
        let _ = thread::Builder::new()
            .name("allotrope-memory".to_owned())
            .spawn(watch);
    });
}

/// A file of so many bytes is read, too.
pub fn add_file(length: u64) {
    FILES.fetch_add(length, Ordering::Relaxed);
}

/// The limit in bytes; `None` while there is none.
pub fn limited_to() -> Option<u64> {
    let least = MIN.load(Ordering::Relaxed);
    let files = FILES.load(Ordering::Relaxed).saturating_mul(FACTOR);
    (least > 0).then_some(least.max(files))
}

fn watch() {
    let Ok(file) = File::open("/proc/self/statm") else {
        return;
    };
    let page = rustix::param::page_size() as u64;
    loop {
        thread::sleep(EACH);
        let Some(limit) = limited_to() else {
            continue;
        };
        let limit = limit.max(OWN);
        let mut text = [0; 128];
        let length = file.read_at(&mut text, 0).unwrap_or(0);
        let pages = own_pages(&String::from_utf8_lossy(&text[..length]));
        if pages.saturating_mul(page) > limit {
            message::print(format_args!(
                "the input needs more than {} of memory; --input-limit SIZE allows more",
                bytes(limit)
            ));
            remove_unfinished();
            signal_hook::low_level::exit(BAD_INPUT.into());
        }
    }
}

/// Resident pages without those of files, from `/proc/PID/statm` (proc(5)).
fn own_pages(statm: &str) -> u64 {
    let mut numbers = statm.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok);
    let (_, resident, shared) = (next(), next(), next());
    let (resident, shared) = (resident.unwrap_or(0), shared.unwrap_or(0));
    resident.saturating_sub(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        assert_eq!(own_pages("2000 300 100 20 0 400 0\n"), 200);
        assert_eq!(own_pages(""), 0);
    }
}
