//! Reads what `perf script` and `perf trace` print of libpoireau's probes, and of ours, which have the
//! same names and arguments: one event is a line with its arguments and a line for each frame.
//!
//! ```text
//! server 4711 [001] 19941.453113: sdt_libpoireau:malloc: (7fe204eefed7) arg1=1 arg2=94418640171680 arg3=4321
//!                 7ed7 malloc+0x17 (/usr/lib/libpoireau.so)
//!
//!      0.134 server/4711 sdt_libpoireau:free(__probe_ip: 139863, arg1: 1, arg2: 94719840334496, arg3: 4321)
//!                  free_all (/usr/bin/server)
//! ```
//!
//! The text may come from anywhere. A line that is none of these is counted and left out.

use std::io::{self, BufRead};
use std::sync::Arc;

use crate::names::NamedFrame;

/// Longest line that is read, in bytes; of a longer one the rest is left out.
const MAX_LENGTH: u64 = 1 << 16;
/// Most frames of a stack.
const MAX_DEPTH: usize = 512;

/// What happened to a sampled block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A block of so many bytes came.
    Allocated(Block),
    /// A block took the place of another one, which had this id.
    Replaced(u64, Block),
    /// The block with this id is gone.
    Freed(u64),
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The number of the sample.
    pub id: u64,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// An event with its stack.
#[derive(Debug)]
pub struct Event {
    /// The name of the thread.
    pub name: Arc<str>,
    /// The process, or its thread where perf prints only that.
    pub process: u32,
    /// Its time in nanoseconds, by a clock of perf's.
    pub time: u64,
    /// What happened.
    pub change: Change,
    /// The stack, innermost first.
    pub stack: Vec<NamedFrame>,
}

/// Reads all events, in their order. Returns the number of lines that made no sense.
///
/// # Errors
/// Those of the input and of `take`.
pub fn read(
    mut input: impl BufRead,
    mut take: impl FnMut(Event) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut line, mut unknown) = (Vec::new(), 0);
    let mut event: Option<Event> = None;
    // Frames behind an event that is not one of ours belong to that.
    let mut is_skipping = false;
    while read_line(&mut input, &mut line)? {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(head) = head(text) {
            event.take().map_or(Ok(()), &mut take)?;
            is_skipping = head.is_none();
            event = head;
        } else if let (Some(event), Some(frame)) = (&mut event, frame(text)) {
            if event.stack.len() < MAX_DEPTH {
                event.stack.push(frame);
            }
        } else if !is_skipping {
            unknown += 1;
        }
    }
    event.map_or(Ok(()), &mut take)?;
    Ok(unknown)
}

/// Reads a line; `false` at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = io::Read::take(&mut *input, MAX_LENGTH).read_until(b'\n', line)?;
    if read as u64 == MAX_LENGTH && line.last() != Some(&b'\n') {
        loop {
            let buffer = input.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            input.consume(used);
            if end.is_some() || used == 0 {
                break;
            }
        }
    }
    Ok(read > 0)
}

/// The first line of an event. `Some(None)`: of one that has nothing to do with blocks.
fn head(text: &str) -> Option<Option<Event>> {
    let (provider, at) = ["sdt_libpoireau:", "sdt_allotrope:"]
        .into_iter()
        .find_map(|it| Some((it, text.find(it)?)))?;
    let (before, after) = (&text[..at], &text[at + provider.len()..]);
    let end = after.find([':', '('])?;
    let (probe, arguments) = after.split_at(end);
    let (name, process, time) = who(before)?;
    let arguments = values(arguments);
    let Some(change) = change(probe, &arguments) else {
        return Some(None);
    };
    Some(Some(Event {
        name: name.into(),
        process,
        time,
        change,
        stack: Vec::new(),
    }))
}

/// Name, process and time before the probe's name: `NAME PID[/TID] [CPU] SECONDS:` or
/// `MILLISECONDS NAME/TID`.
fn who(text: &str) -> Option<(&str, u32, u64)> {
    let text = text.trim();
    if let Some(text) = text.strip_suffix(':') {
        let (rest, seconds) = text.trim_end().rsplit_once(char::is_whitespace)?;
        let rest = rest.trim_end();
        let rest = match rest.rsplit_once(char::is_whitespace) {
            Some((rest, cpu)) if cpu.starts_with('[') => rest.trim_end(),
            _ => rest,
        };
        let (name, ids) = rest.rsplit_once(char::is_whitespace)?;
        let process = ids.split('/').next()?.parse().ok()?;
        return Some((name.trim(), process, nanoseconds(seconds, 1e9)?));
    }
    let (milliseconds, rest) = text.split_once(char::is_whitespace)?;
    // The time that a call took, which probes have not.
    let rest = rest.trim().trim_start_matches("( )").trim_start();
    let (name, thread) = rest.rsplit_once('/')?;
    let process = thread.trim().parse().ok()?;
    Some((name, process, nanoseconds(milliseconds, 1e6)?))
}

fn nanoseconds(text: &str, scale: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (0.0..1e12)
        .contains(&number)
        .then_some((number * scale) as u64)
}

/// The values of `arg1=…` or `arg1: …`, in their order; `perf trace` prints them signed.
fn values(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| c.is_whitespace() || ",()".contains(c));
    let mut words = words.filter(|it| !it.is_empty());
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("arg") else {
            continue;
        };
        let value = match rest.split_once('=') {
            Some((_, value)) => Some(value),
            None if rest.ends_with(':') => words.next(),
            None => None,
        };
        values.extend(value.and_then(number));
    }
    values
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.starts_with('-') => text.parse::<i64>().ok().map(i64::cast_unsigned),
        None => text.parse().ok(),
    }
}

fn change(probe: &str, arguments: &[u64]) -> Option<Change> {
    let block = |at: usize| {
        let [id, address, size] = *arguments.get(at..at + 3)?.first_chunk()?;
        Some(Block { id, address, size })
    };
    Some(match probe {
        "malloc" => Change::Allocated(block(0)?),
        "calloc" | "realloc" => Change::Allocated(block(2)?),
        "realloc_from_tracked" => Change::Replaced(*arguments.first()?, block(3)?),
        "realloc_to_regular" | "free" => Change::Freed(*arguments.first()?),
        _ => return None,
    })
}

/// A frame: `ADDRESS FUNCTION+0xOFFSET (FILE)`, or without address and offset.
fn frame(text: &str) -> Option<NamedFrame> {
    if !text.starts_with(char::is_whitespace) {
        return None;
    }
    let text = text.trim().strip_suffix(')')?;
    // Names of functions and paths may have parentheses; behind an offset the path begins.
    let after_offset = text.match_indices(" (").map(|(at, _)| at);
    let mut after_offset = after_offset.filter(|at| without_offset(&text[..*at]).is_some());
    let at = after_offset.next().or_else(|| text.rfind(" ("))?;
    let (what, module) = (text[..at].trim(), &text[at + 2..]);
    let (address, function) = match what.split_once(char::is_whitespace) {
        Some((word, rest)) => match u64::from_str_radix(word, 16) {
            Ok(address) => (address, rest.trim()),
            Err(_) => (0, what),
        },
        None => (0, what),
    };
    let function = without_offset(function).unwrap_or(function);
    let known = |text: &str| match text {
        "[unknown]" | "inlined" => "".into(),
        text => Arc::from(text),
    };
    let function: Arc<str> = known(function);
    Some(NamedFrame {
        signature: function.clone(),
        function,
        file: "".into(),
        line: 0,
        module: known(module),
        address,
        missing: None,
    })
}

/// The part before `+0xOFFSET`, if there is one.
fn without_offset(text: &str) -> Option<&str> {
    let (name, offset) = text.rsplit_once("+0x")?;
    u64::from_str_radix(offset, 16).ok().map(|_| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
# captured on: Tue Nov 24 08:20:29 2026
my server 22228 [001] 19941.453113:               sdt_libpoireau:malloc: (7fe204eefed7) arg1=1 arg2=4096 arg3=4321
\t            7ed7 malloc+0x17 (/usr/lib/libpoireau.so)
\t            1139 operator new(unsigned long)+0x9 (/opt/a (b)/server)
\t               0 [unknown] ([unknown])

my server 22228/22229 [000] 19942.5: sdt_libpoireau:calloc: (7f) arg1=2 arg2=3 arg3=7 arg4=0x2000 arg5=6
\t            7ed7 calloc (/usr/lib/libpoireau.so)

cc1plus 5 [000] 19943.0: sdt_libpoireau:calloc_overflow: (7f) arg1=2 arg2=3
\t            7ed7 calloc (/usr/lib/libpoireau.so)
my server 22228 [001] 19944.000000: sdt_libpoireau:realloc_from_tracked: (7f) arg1=7 arg2=8192 arg3=6 arg4=9 arg5=12288 arg6=60
my server 22228 [001] 19945.000000: sdt_libpoireau:free: (7f) arg1=1 arg2=4096 arg3=4321
";
    const TRACE: &str = "\
     0.000 watched/22263 sdt_allotrope:malloc(__probe_ip: 139863, arg1: -2, arg2: 94719840334496, arg3: 4321, arg4: 4321)
                                       by_malloc (/usr/bin/watched)
     0.134 watched/22263 sdt_allotrope:free(__probe_ip: 139863, arg1: -2, arg2: 94719840334496, arg3: 4321, arg4: 4321)
";

    fn events(text: &[u8]) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        let unknown = read(text, |event| {
            events.push(event);
            Ok(())
        });
        (events, unknown.expect("memory"))
    }

    #[test]
    fn what_perf_script_prints_is_read() {
        let (events, unknown) = events(SCRIPT.as_bytes());
        assert_eq!(unknown, 0);
        let block = |id, address, size| Block { id, address, size };
        let changes: Vec<_> = events.iter().map(|it| it.change).collect();
        assert_eq!(
            changes,
            [
                Change::Allocated(block(1, 4096, 4321)),
                Change::Allocated(block(7, 8192, 6)),
                Change::Replaced(7, block(9, 12288, 60)),
                Change::Freed(1),
            ]
        );
        assert!(
            events
                .iter()
                .all(|it| &*it.name == "my server" && it.process == 22228)
        );
        assert_eq!(events[1].time, 19_942_500_000_000);
        let frames: Vec<_> = events[0].stack.iter().map(NamedFrame::name).collect();
        assert_eq!(frames, ["malloc", "operator new(unsigned long)", "0x0"]);
        assert_eq!(&*events[0].stack[1].module, "/opt/a (b)/server");
        assert_eq!(events[1].stack.len(), 1);
    }

    #[test]
    fn what_perf_trace_prints_is_read() {
        let (events, unknown) = events(TRACE.as_bytes());
        assert_eq!((events.len(), unknown), (2, 0));
        assert_eq!(events[1].change, Change::Freed(u64::MAX - 1));
        assert_eq!((events[1].process, events[1].time), (22263, 134_000));
        assert_eq!(events[0].stack[0].name(), "by_malloc");
    }

    #[test]
    fn garbage_is_counted() {
        for text in [
            &b"sdt_libpoireau:malloc: arg1=1"[..],
            b"x 1 [0] -5: sdt_libpoireau:malloc: (1) arg1=1 arg2=2 arg3=3",
            b"x 99999999999 [0] 5: sdt_libpoireau:malloc: (1) arg1=1 arg2=2 arg3=3",
            b"\xff\xfe\n\0\0",
            b"sdt_libpoireau:",
        ] {
            let (events, unknown) = events(text);
            assert_eq!(events.len(), 0);
            assert!(unknown > 0, "{}", String::from_utf8_lossy(text));
        }
        // Too few arguments, or such that are none.
        for text in ["arg1=1 arg2=2", "arg1=x arg2=2 arg3=3", ""] {
            let line = format!("x 1 [0] 5.0: sdt_libpoireau:malloc: (1) {text}");
            assert_eq!(events(line.as_bytes()).0.len(), 0, "{line}");
        }
        let long = "y".repeat(1 << 20) + "\n" + SCRIPT;
        assert_eq!(events(long.as_bytes()).0.len(), 4);
    }
}
