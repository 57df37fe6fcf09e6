//! The launcher process as the draining thread sees it: messages that have come,
//! and messages to it that never make the sender wait before the recording is
//! over. Threads of their own read and write the pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

use crate::error::CollectorError;
use crate::protocol::{FromLauncher, Start, ToLauncher};

/// Bytes of a line; a command line has at most 2 MiB, JSON may need 6 bytes
/// for one.
const LINE_LIMIT: u64 = 16 << 20;
/// Messages that wait for the launcher to read them.
const UNREAD: usize = 64;

/// Both directions, for the draining thread.
#[derive(Debug)]
pub(crate) struct Launcher {
    from: Receiver<FromLauncher>,
    to: SyncSender<ToLauncher>,
}

/// What there is from the launcher.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Message(FromLauncher),
    Nothing,
    /// It has closed its end.
    Gone,
}

impl Launcher {
    /// The next message, if one has come.
    pub(crate) fn news(&self) -> News {
        match self.from.try_recv() {
            Ok(message) => News::Message(message),
            Err(TryRecvError::Empty) => News::Nothing,
            Err(TryRecvError::Disconnected) => News::Gone,
        }
    }

    /// Says it unless the launcher is behind with reading; `false` if so.
    pub(crate) fn tell(&self, message: ToLauncher) -> bool {
        self.to.try_send(message).is_ok()
    }

    /// Somebody else who may say things, as [`Self::tell`] does.
    pub(crate) fn teller(&self) -> Teller {
        Teller(self.to.clone())
    }

    /// Says it however long that takes: for when nothing has to be drained.
    pub(crate) fn tell_patiently(&self, message: ToLauncher) {
        // It fails if nobody writes messages any more: then nobody reads them.
        let _ = self.to.send(message);
    }
}

/// Says things to the launcher without ever waiting.
#[derive(Debug)]
pub(crate) struct Teller(SyncSender<ToLauncher>);

impl Teller {
    /// See [`Launcher::tell`].
    pub(crate) fn tell(&self, message: ToLauncher) -> bool {
        self.0.try_send(message).is_ok()
    }
}

/// Reads the first line, then leaves reading to a thread.
pub(crate) fn connect(
    input: impl Read + Send + 'static,
) -> Result<(Start, Launcher, Receiver<ToLauncher>), CollectorError> {
    let mut input = BufReader::new(input);
    let start = match next(&mut input) {
        Some(Ok(FromLauncher::Start(start))) => start,
        Some(Ok(_)) => return Err(CollectorError::NoStart("its first line is no start".into())),
        Some(Err(error)) => return Err(CollectorError::NoStart(error.to_string())),
        None => return Err(CollectorError::NoStart("its input is empty".into())),
    };
    let (sender, from) = channel();
    let (to, unwritten) = sync_channel(UNREAD);
    std::thread::Builder::new()
        .name("launcher".into())
        .spawn(move || listen(input, &sender))
        .map_err(|source| CollectorError::Set {
            what: "start a thread",
            source,
        })?;
    Ok((start, Launcher { from, to }, unwritten))
}

fn listen(mut input: impl BufRead, sender: &Sender<FromLauncher>) {
    // What does not parse, or comes after it, is nothing to act on: the launcher
    // counts as gone and the recording ends with its programs.
    while let Some(Ok(message)) = next(&mut input) {
        if sender.send(message).is_err() {
            return;
        }
    }
}

fn next(input: &mut impl BufRead) -> Option<Result<FromLauncher, serde_json::Error>> {
    let mut line = Vec::new();
    // A pipe that can not be read is one that was closed.
    let length = input.take(LINE_LIMIT).read_until(b'\n', &mut line).ok()?;
    (length > 0).then(|| serde_json::from_slice(&line))
}

/// Writes the messages as they come, until there can be no more.
pub(crate) fn speak(
    messages: &Receiver<ToLauncher>,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut result = Ok(());
    for message in messages {
        // Once the launcher is gone the recording goes on without it.
        if result.is_ok() {
            result = say(&message, &mut output);
        }
    }
    result
}

/// Writes one message.
pub(crate) fn say(message: &ToLauncher, output: &mut impl Write) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_come_first() {
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
    fn messages_are_read_until_the_front_is_gone() {
        let input = "{\"kind\":\"start\",\"output\":\"x\",\"command\":[]}\n{\"kind\":\"stop\"}\n";
        let (start, launcher, _unwritten) = connect(input.as_bytes()).unwrap();
        assert_eq!(start, Start::new("x", vec![]));
        let mut seen = Vec::new();
        loop {
            match launcher.news() {
                News::Nothing => std::thread::yield_now(),
                News::Gone => break,
                News::Message(message) => seen.push(message),
            }
        }
        assert_eq!(seen, [FromLauncher::Stop]);
    }

    #[test]
    fn a_front_that_does_not_read_does_not_stop_anybody() {
        let (to, unwritten) = sync_channel(UNREAD);
        let (_sender, from) = channel();
        let launcher = Launcher { from, to };
        let waiting = || ToLauncher::Waiting { pids: vec![1] };
        for _ in 0..UNREAD {
            assert!(launcher.tell(waiting()));
        }
        assert!(!launcher.tell(waiting()));
        drop(launcher);
        let mut output = Vec::new();
        speak(&unwritten, &mut output).unwrap();
        assert_eq!(output.iter().filter(|byte| **byte == b'\n').count(), UNREAD);
    }
}
