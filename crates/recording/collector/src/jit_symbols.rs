//! Names of JIT code in recorded programs. The draining thread requests the name of an
//! address when a stack first contains it, and receives records for the trace some time
//! later, without waiting for them. A second thread, started with the first such
//! address, reads the files in which the programs' runtimes describe their code (perf
//! maps and jitdumps; `jit_symbols/reader`). A queue in each direction connects the two.

mod process;
mod reader;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use allotrope_symbols::PerfMap;
use allotrope_trace::model::{ImageId, Record};

use crate::trace_file::TraceFile;

/// Requests in the queue to the reading thread.
const QUEUE: usize = 4 << 10;
/// Requests that wait for space in the queue; addresses beyond get no names.
const MAX_UNSENT: usize = 256 << 10;
/// Records in the queue from the reading thread.
const RECORDS: usize = 256;
/// Largest number of records that are written in one round of the draining thread.
const RECORDS_AT_ONCE: usize = 16;

/// A request to the reading thread.
#[derive(Debug)]
enum Request {
    /// An image has JIT code; its addresses follow.
    Begin(Box<Begin>),
    /// A stack of the image contains this address.
    Address {
        image: ImageId,
        address: u64,
        exact: bool,
    },
    /// The image has ended: no request for it follows.
    End(ImageId),
}

/// An image with JIT code.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) image: ImageId,
    pub(crate) pid: u32,
    /// The image's perf map, if that had to be found while the process ran.
    pub(crate) map: Option<PerfMap>,
    /// When the image began.
    pub(crate) tick: u64,
    /// The image from which this one was forked, and that image's pid: a forked image
    /// inherits the code of its parent.
    pub(crate) parent: Option<(ImageId, u32)>,
}

/// The draining thread's end of the two queues.
#[derive(Debug, Default)]
pub(crate) struct JitSymbolizer {
    thread: Option<Thread>,
    /// Requests for which the queue had no space, in order.
    unsent: VecDeque<Request>,
    /// The thread could not be started: no JIT code gets a name.
    refused: bool,
}

#[derive(Debug)]
struct Thread {
    requests: SyncSender<Request>,
    records: Receiver<Record>,
}

impl JitSymbolizer {
    /// Begins an image with JIT code; starts the thread if it does not run. Call this
    /// before the image's first address.
    pub(crate) fn begin(&mut self, begin: Begin) {
        if self.thread.is_none() && !self.refused {
            self.thread = start();
            self.refused = self.thread.is_none();
        }
        self.send(Request::Begin(Box::new(begin)));
    }

    /// Requests the name of an address in a stack of an image that has begun.
    pub(crate) fn request(&mut self, image: ImageId, address: u64, exact: bool) {
        self.send(Request::Address {
            image,
            address,
            exact,
        });
    }

    /// Ends an image; without effect for one that has not begun.
    pub(crate) fn end(&mut self, image: ImageId) {
        self.send(Request::End(image));
    }

    fn send(&mut self, request: Request) {
        let Some(thread) = &self.thread else {
            return;
        };
        let unsent = match self.unsent.is_empty() {
            true => thread.requests.try_send(request).err(),
            // Requests stay in order.
            false => Some(TrySendError::Full(request)),
        };
        if let Some(TrySendError::Full(request)) = unsent {
            // An end frees memory in the reading thread: it is never dropped.
            if self.unsent.len() < MAX_UNSENT || matches!(request, Request::End(_)) {
                self.unsent.push_back(request);
            }
        }
    }

    /// Sends waiting requests and writes the received records, at most
    /// [`RECORDS_AT_ONCE`]; called in each round of the draining thread.
    pub(crate) fn round(&mut self, trace: &mut TraceFile) {
        let Some(thread) = &self.thread else {
            return;
        };
        while let Some(request) = self.unsent.pop_front() {
            if let Err(TrySendError::Full(request)) = thread.requests.try_send(request) {
                self.unsent.push_front(request);
                break;
            }
        }
        for record in thread.records.try_iter().take(RECORDS_AT_ONCE) {
            trace.write(&record);
        }
    }

    /// Writes all outstanding records; waits for the reading thread. Called when nothing
    /// is left to drain.
    pub(crate) fn finish(self, trace: &mut TraceFile) {
        let Some(Thread { requests, records }) = self.thread else {
            return;
        };
        // Sent by a third thread: the reading thread blocks while its records are
        // not received.
        let unsent = self.unsent;
        let sender = std::thread::Builder::new().spawn(move || {
            for request in unsent {
                if requests.send(request).is_err() {
                    break;
                }
            }
        });
        // Ends when the thread has sent all records and ended.
        for record in records {
            trace.write(&record);
        }
        if let Ok(sender) = sender {
            let _ = sender.join();
        }
    }
}

fn start() -> Option<Thread> {
    let (requests, received) = sync_channel(QUEUE);
    let (record, records) = sync_channel(RECORDS);
    let thread = std::thread::Builder::new().name("jit symbols".into());
    thread
        .spawn(move || reader::read(&received, &record))
        .ok()?;
    Some(Thread { requests, records })
}

#[cfg(test)]
mod tests;
