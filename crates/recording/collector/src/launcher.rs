//! The pipes to and from the launcher process. The draining thread polls for received
//! messages and queues messages to send, both without waiting; two other threads read
//! and write the pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

use crate::error::CollectorError;
use crate::protocol::{FromLauncher, Start, ToLauncher};

/// Largest number of bytes of a line. A command line has at most 2 MiB, and JSON may need 6 bytes
/// for one of them.
const LINE_LIMIT: u64 = 16 << 20;
/// Largest number of messages that wait until the launcher reads them.
const QUEUE: usize = 64;

/// The draining thread's end of the queues in both directions.
#[derive(Debug)]
pub(crate) struct Launcher {
    from: Receiver<FromLauncher>,
    to: SyncSender<ToLauncher>,
}

/// The result of polling for a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    Message(FromLauncher),
    Nothing,
    /// The launcher has closed its end.
    Gone,
}

impl Launcher {
    /// The next message, if there is one.
    pub(crate) fn poll(&self) -> Poll {
        match self.from.try_recv() {
            Ok(message) => Poll::Message(message),
            Err(TryRecvError::Empty) => Poll::Nothing,
            Err(TryRecvError::Disconnected) => Poll::Gone,
        }
    }

    /// Queues a message; `false` if the queue is full because the launcher does not
    /// read.
    pub(crate) fn send(&self, message: ToLauncher) -> bool {
        self.to.try_send(message).is_ok()
    }

    /// A sender for another thread.
    pub(crate) fn sender(&self) -> MessageSender {
        MessageSender(self.to.clone())
    }

    /// Queues a message; waits if the queue is full. Only for times at which nothing has
    /// to be drained.
    pub(crate) fn send_waiting(&self, message: ToLauncher) {
        // Fails if the writing thread has ended: then nobody reads the message.
        let _ = self.to.send(message);
    }
}

/// Queues messages to the launcher without waiting.
#[derive(Debug)]
pub(crate) struct MessageSender(SyncSender<ToLauncher>);

impl MessageSender {
    /// See [`Launcher::send`].
    pub(crate) fn send(&self, message: ToLauncher) -> bool {
        self.0.try_send(message).is_ok()
    }
}

/// Reads the first message, which must be a start, and starts a thread that reads the
/// others. Also returns the queue of messages to write.
pub(crate) fn connect(
    input: impl Read + Send + 'static,
) -> Result<(Start, Launcher, Receiver<ToLauncher>), CollectorError> {
    let mut input = BufReader::new(input);
    let start = match next(&mut input) {
        Some(Ok(FromLauncher::Start(start))) => *start,
        Some(Ok(_)) => return Err(CollectorError::NoStart("its first line is no start".into())),
        Some(Err(error)) => return Err(CollectorError::NoStart(error.to_string())),
        None => return Err(CollectorError::NoStart("its input is empty".into())),
    };
    let (sender, from) = channel();
    let (to, unwritten) = sync_channel(QUEUE);
    std::thread::Builder::new()
        .name("launcher".into())
        .spawn(move || read_messages(input, &sender))
        .map_err(|source| CollectorError::Set {
            what: "start a thread",
            source,
        })?;
    Ok((start, Launcher { from, to }, unwritten))
}

fn read_messages(mut input: impl BufRead, sender: &Sender<FromLauncher>) {
    // A line that does not parse ends the reading: the launcher counts as gone, and the
    // recording ends when its programs have ended.
    while let Some(Ok(message)) = next(&mut input) {
        if sender.send(message).is_err() {
            return;
        }
    }
}

fn next(input: &mut impl BufRead) -> Option<Result<FromLauncher, serde_json::Error>> {
    let mut line = Vec::new();
    // An error means that the pipe was closed.
    let length = input.take(LINE_LIMIT).read_until(b'\n', &mut line).ok()?;
    (length > 0).then(|| serde_json::from_slice(&line))
}

/// Writes queued messages until all senders are gone.
pub(crate) fn write_messages(
    messages: &Receiver<ToLauncher>,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut result = Ok(());
    for message in messages {
        // Once the launcher is gone the recording goes on without it.
        if result.is_ok() {
            result = write_message(&message, &mut output);
        }
    }
    result
}

/// Writes one message.
pub(crate) fn write_message(message: &ToLauncher, output: &mut impl Write) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_must_be_a_start() {
        for (input, reason) in [
            ("", "empty"),
            ("{}", "kind"),
            ("{\"kind\":\"stop\"}\n", "no start"),
        ] {
            let error = connect(input.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn messages_are_read_until_the_launcher_is_gone() {
        let input = "{\"kind\":\"start\",\"output\":\"x\",\"command\":[]}\n{\"kind\":\"stop\"}\n";
        let (start, launcher, _unwritten) = connect(input.as_bytes()).unwrap();
        assert_eq!(start, Start::new("x", vec![]));
        let mut seen = Vec::new();
        loop {
            match launcher.poll() {
                Poll::Nothing => std::thread::yield_now(),
                Poll::Gone => break,
                Poll::Message(message) => seen.push(message),
            }
        }
        assert_eq!(seen, [FromLauncher::Stop]);
    }

    #[test]
    fn a_launcher_that_does_not_read_blocks_nothing() {
        let (to, unwritten) = sync_channel(QUEUE);
        let (_sender, from) = channel();
        let launcher = Launcher { from, to };
        let waiting = || ToLauncher::Waiting { pids: vec![1] };
        for _ in 0..QUEUE {
            assert!(launcher.send(waiting()));
        }
        assert!(!launcher.send(waiting()));
        drop(launcher);
        let mut output = Vec::new();
        write_messages(&unwritten, &mut output).unwrap();
        assert_eq!(output.iter().filter(|byte| **byte == b'\n').count(), QUEUE);
    }
}
