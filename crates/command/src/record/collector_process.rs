//! The launcher's side of the collector process: starts it, sends it messages and
//! reads its messages. `allotrope_collector::protocol` defines the
//! messages; `record` acts on them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use allotrope_collector::protocol::{FromLauncher, Start, ToLauncher};
use allotrope_shm::layout::ENVIRONMENT_VARIABLE;
use anyhow::{Context, Result, bail};

/// Name of the hidden subcommand that is the collector.
pub const NAME: &str = "__collect";

/// Longest line that is read from the collector, in bytes.
const MAX_LINE: u64 = 1 << 24;

/// A collector that is ready for the program.
#[derive(Debug)]
pub struct CollectorProcess {
    process: Child,
    input: ChildStdin,
    arena: String,
}

/// The stream of the collector's messages, one per line.
#[derive(Debug)]
pub struct Messages(BufReader<ChildStdout>);

impl CollectorProcess {
    /// Starts a collector and waits until it can record.
    pub fn start(start: Start) -> Result<(Self, Messages)> {
        // The same file as this process, even if it was replaced meanwhile.
        let mut process = Command::new("/proc/self/exe")
            .arg(NAME)
            // The collector itself must not be recorded.
            .env_remove("LD_PRELOAD")
            .env_remove(ENVIRONMENT_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The collector outlives a killed launcher: an inherited stderr would
            // keep a pipe open that somebody reads to its end. Errors are messages.
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the collector process")?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("cannot open the pipes to the collector process");
        };
        let mut messages = Messages(BufReader::new(output));
        let mut input = Some(input);
        let sent = input.as_mut().map_or(Ok(()), |input| {
            send(input, &FromLauncher::Start(Box::new(start)))
        });
        if sent.is_err() {
            // The collector would wait for the rest of the message while the pipe is open.
            input = None;
        }
        // A collector that does not read may have sent the reason.
        let first = messages.read().and_then(|first| match first {
            None => sent.map(|()| None),
            first => Ok(first),
        });
        let (input, arena) = match (first, input) {
            (Ok(Some(ToLauncher::Ready { arena })), Some(input)) => (input, arena),
            (other, input) => {
                drop(input);
                let status = process.wait().context("cannot wait for the collector")?;
                match other {
                    Ok(Some(ToLauncher::Failed { message })) => bail!(message),
                    Ok(Some(other)) => {
                        bail!("the collector began with an unexpected message: {other:?}")
                    }
                    Ok(None) => bail!(
                        "the collector ended before it was ready ({status}); run `allotrope doctor` to find out why"
                    ),
                    Err(error) => return Err(error),
                }
            }
        };
        let this = Self {
            process,
            input,
            arena,
        };
        Ok((this, messages))
    }

    /// Value of the environment variable by which the recorder finds the arena.
    pub fn arena(&self) -> &str {
        &self.arena
    }

    /// Returns the collector's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a message. An error is ignored: it means that the collector has ended,
    /// which [`Messages::read`] reports.
    pub fn send(&mut self, message: &FromLauncher) {
        let _ = send(&mut self.input, message);
    }

    /// Waits until the collector ends, which it does after its last message.
    pub fn wait(self) {
        let Self {
            mut process, input, ..
        } = self;
        drop(input);
        let _ = process.wait();
    }
}

impl Messages {
    /// The next message; `None` if the collector has closed the stream.
    pub fn read(&mut self) -> Result<Option<ToLauncher>> {
        let mut line = String::new();
        let read = std::io::Read::take(&mut self.0, MAX_LINE)
            .read_line(&mut line)
            .context("cannot read from the collector")?;
        if read == 0 {
            return Ok(None);
        }
        let message = serde_json::from_str(&line).with_context(|| {
            format!(
                "the collector sent a line that is no message: {}",
                line.trim()
            )
        })?;
        Ok(Some(message))
    }
}

fn send(input: &mut ChildStdin, message: &FromLauncher) -> Result<()> {
    let mut line =
        serde_json::to_string(message).context("cannot make a message for the collector")?;
    line.push('\n');
    input
        .write_all(line.as_bytes())
        .context("the collector does not read its messages")
}
