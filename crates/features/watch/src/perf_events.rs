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
//! `perf trace` leaves out arguments that are 0, and, of a process with one thread that `-p` names, the
//! thread's name and id. A probe may have any group, and `perf probe -f` adds a number to its name
//! (`malloc_1`) where another probe has that name.
//!
//! The text may come from anywhere. A line that is none of these is counted and left out.

use std::io::{self, BufRead};
use std::sync::Arc;

use crate::names::{Frame, Place};

/// Longest line that is read, in bytes; of a longer one the rest is left out.
const MAX_LENGTH: u64 = 1 << 16;
/// Most frames of a stack.
const MAX_DEPTH: usize = 512;
/// Most arguments of a probe.
const MAX_ARGUMENTS: usize = 8;

/// What happened to a sampled block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A block came.
    Allocated(Block),
    /// The second block took the place of the first one.
    Replaced(Block, Block),
    /// This block is gone.
    Freed(Block),
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
    /// The name of the thread; empty if perf has not printed it.
    pub name: Arc<str>,
    /// The process, or its thread where perf prints only that; 0 if it prints neither.
    pub process: u32,
    /// `process` is a thread: a block that it has allocated may be freed by another one.
    pub is_thread: bool,
    /// Its time in nanoseconds, by a clock of perf's.
    pub time: u64,
    /// What happened.
    pub change: Change,
    /// The stack, innermost first.
    pub stack: Vec<Frame>,
}

/// Makes events of lines.
#[derive(Debug, Default)]
pub struct Parser {
    /// The event whose frames may still come.
    event: Option<Event>,
    /// Frames behind an event that is not one of ours belong to that.
    is_skipping: bool,
    /// The time of the last event, for one without.
    time: u64,
    /// Number of lines that made no sense.
    pub unknown: u64,
    /// Number of events that perf says to have lost.
    pub lost: u64,
}

impl Parser {
    /// Takes the next line. Returns the event that it ends.
    pub fn line(&mut self, text: &str) -> Option<Event> {
        let text = text.trim_end();
        if text.is_empty() {
            // `perf script` ends events so.
            return self.event.take();
        }
        if text.starts_with('#') {
            return None;
        }
        if let Some(lost) = lost(text) {
            self.lost = self.lost.saturating_add(lost);
            return None;
        }
        if let Some(head) = head(text, self.time) {
            let before = self.event.take();
            self.is_skipping = head.is_none();
            self.time = head.as_ref().map_or(self.time, |it| it.time);
            self.event = head;
            return before;
        }
        if let (Some(event), Some(frame)) = (&mut self.event, frame(text)) {
            if event.stack.len() < MAX_DEPTH {
                event.stack.push(frame);
            }
        } else if !self.is_skipping {
            self.unknown += 1;
        }
        None
    }

    /// Ends the event whose frames may still come: frames that do come are left out.
    pub fn end_event(&mut self) -> Option<Event> {
        let event = self.event.take();
        self.is_skipping |= event.is_some();
        event
    }
}

/// Reads lines to the end, and calls `take` with each and with the bytes that it took: with `None` for
/// the rest of a line that is too long.
///
/// # Errors
/// Those of the input and of `take`.
pub fn read_lines(
    mut input: impl BufRead,
    mut take: impl FnMut(Option<&str>, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut line, mut is_rest) = (Vec::new(), false);
    loop {
        line.clear();
        let read = io::Read::take(&mut input, MAX_LENGTH).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        take((!is_rest).then_some(&*text), read as u64)?;
        is_rest = line.last() != Some(&b'\n');
    }
}

/// The number of `LOST 12 events!`, which `perf trace` prints.
fn lost(text: &str) -> Option<u64> {
    let number = text.strip_prefix("LOST ")?.strip_suffix(" events!")?;
    number.parse().ok()
}

/// The first line of an event. `Some(None)`: of one that has nothing to do with blocks.
fn head(text: &str, last: u64) -> Option<Option<Event>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let colons = text.match_indices(':').map(|(at, _)| at);
    let (who, probe, arguments) = colons
        .filter_map(|at| {
            // GROUP:NAME, behind which is a colon or a parenthesis.
            let group = text[..at].trim_end_matches(is_name);
            let is_word = group.len() < at && group.ends_with(char::is_whitespace);
            let rest = &text[at + 1..];
            let (probe, arguments) = rest.split_at(rest.find(|c| !is_name(c))?);
            let is_probe = is_word && !probe.is_empty() && arguments.starts_with([':', '(']);
            is_probe.then(|| Some((who(group, last)?, probe, arguments)))?
        })
        .next()?;
    let change = change(kind(probe), &Arguments::of(arguments));
    Some(change.map(|change| Event {
        name: who.name.into(),
        process: who.process,
        is_thread: who.is_thread,
        time: who.time,
        change,
        stack: Vec::new(),
    }))
}

/// The probe's name without the number that `perf probe -f` adds.
fn kind(probe: &str) -> &str {
    match probe.rsplit_once('_') {
        Some((name, number)) if number.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => probe,
    }
}

/// Where and when an event was.
struct Who<'a> {
    name: &'a str,
    process: u32,
    is_thread: bool,
    time: u64,
}

/// What stands before the probe's name: `NAME PID[/TID] [CPU] SECONDS:` or
/// `MILLISECONDS [NAME/]TID` or only `MILLISECONDS`, `?` if the time is not known.
fn who(text: &str, last: u64) -> Option<Who<'_>> {
    let text = text.trim();
    if let Some(text) = text.strip_suffix(':') {
        let (rest, seconds) = text.trim_end().rsplit_once(char::is_whitespace)?;
        let rest = rest.trim_end();
        let rest = match rest.rsplit_once(char::is_whitespace) {
            Some((rest, cpu)) if cpu.starts_with('[') => rest.trim_end(),
            _ => rest,
        };
        let (name, ids) = rest.rsplit_once(char::is_whitespace)?;
        return Some(Who {
            name: name.trim(),
            process: ids.split('/').next()?.parse().ok()?,
            is_thread: false,
            time: nanoseconds(seconds, 1e9)?,
        });
    }
    let (milliseconds, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let time = match milliseconds {
        "?" => last,
        // All have three decimals; addresses of frames have none.
        number => nanoseconds(number.contains('.').then_some(number)?, 1e6)?,
    };
    // The time that a system call took, which probes have not: `(         ): `.
    let rest = rest.trim_start();
    let without = rest.strip_prefix('(').and_then(|it| it.split_once("):"));
    let rest = without.map_or(rest, |it| it.1).trim();
    let (name, thread) = rest.rsplit_once('/').unwrap_or(("", rest));
    let process = match rest {
        "" => 0,
        _ => thread.trim().parse().ok()?,
    };
    Some(Who {
        name,
        process,
        is_thread: true,
        time,
    })
}

fn nanoseconds(text: &str, scale: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (0.0..1e12)
        .contains(&number)
        .then_some((number * scale) as u64)
}

/// The arguments of a probe by their numbers.
struct Arguments {
    values: [Option<u64>; MAX_ARGUMENTS],
    /// Arguments that are 0 are left out.
    omits_zeros: bool,
}

impl Arguments {
    /// Those of `arg1=…` or `arg1: …`; `perf trace` prints the latter, and signed.
    fn of(text: &str) -> Self {
        let mut arguments = Self {
            values: [None; MAX_ARGUMENTS],
            omits_zeros: text.starts_with('('),
        };
        let words = text.split(|c: char| c.is_whitespace() || ",()".contains(c));
        let mut words = words.filter(|it| !it.is_empty());
        while let Some(word) = words.next() {
            let Some(rest) = word.strip_prefix("arg") else {
                continue;
            };
            let (place, value) = match rest.split_once('=') {
                Some((place, value)) => (place, Some(value)),
                None if rest.ends_with(':') => (rest.trim_end_matches(':'), words.next()),
                None => continue,
            };
            let place = place.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
            if let Some(place) = place.and_then(|it| arguments.values.get_mut(it)) {
                *place = value.and_then(number);
            }
        }
        arguments
    }

    /// The argument with this number, from 1.
    fn get(&self, number: usize) -> Option<u64> {
        let value = self.values.get(number.checked_sub(1)?)?;
        value.or(self.omits_zeros.then_some(0))
    }

    /// The block whose id, address and size begin with this argument. No id is 0.
    fn block(&self, first: usize) -> Option<Block> {
        let id = self.get(first).filter(|it| *it != 0)?;
        let (address, size) = (self.get(first + 1)?, self.get(first + 2)?);
        Some(Block { id, address, size })
    }

    /// The same of a block that is gone, of which the id is enough.
    fn gone(&self) -> Option<Block> {
        let id = self.get(1).filter(|it| *it != 0)?;
        let [address, size] = [2, 3].map(|it| self.get(it).unwrap_or(0));
        Some(Block { id, address, size })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.starts_with('-') => text.parse::<i64>().ok().map(i64::cast_unsigned),
        None => text.parse().ok(),
    }
}

fn change(probe: &str, arguments: &Arguments) -> Option<Change> {
    Some(match probe {
        "malloc" => Change::Allocated(arguments.block(1)?),
        "calloc" | "realloc" => Change::Allocated(arguments.block(3)?),
        "realloc_from_tracked" => Change::Replaced(arguments.gone()?, arguments.block(4)?),
        "realloc_to_regular" | "free" => Change::Freed(arguments.gone()?),
        _ => return None,
    })
}

/// A frame: `ADDRESS FUNCTION+0xOFFSET (FILE)`, or without address and offset.
fn frame(text: &str) -> Option<Frame> {
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
    Some(Frame {
        signature: function.clone(),
        function,
        module: Place {
            module: known(module),
            address,
            missing: None,
        },
        ..Frame::default()
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
    use crate::names::name_of;

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
        let (mut events, mut parser) = (Vec::new(), Parser::default());
        let read = read_lines(text, |line, _| {
            events.extend(line.and_then(|it| parser.line(it)));
            Ok(())
        });
        read.expect("memory");
        events.extend(parser.end_event());
        (events, parser.unknown)
    }

    const fn block(id: u64, address: u64, size: u64) -> Block {
        Block { id, address, size }
    }

    #[test]
    fn what_perf_script_prints_is_read() {
        let (events, unknown) = events(SCRIPT.as_bytes());
        assert_eq!(unknown, 0);
        let changes: Vec<_> = events.iter().map(|it| it.change).collect();
        assert_eq!(
            changes,
            [
                Change::Allocated(block(1, 4096, 4321)),
                Change::Allocated(block(7, 8192, 6)),
                Change::Replaced(block(7, 8192, 6), block(9, 12288, 60)),
                Change::Freed(block(1, 4096, 4321)),
            ]
        );
        assert!(
            events
                .iter()
                .all(|it| &*it.name == "my server" && it.process == 22228)
        );
        assert_eq!(events[1].time, 19_942_500_000_000);
        let frames: Vec<_> = events[0].stack.iter().map(name_of).collect();
        assert_eq!(frames, ["malloc", "operator new(unsigned long)", "0x0"]);
        assert_eq!(&*events[0].stack[1].module.module, "/opt/a (b)/server");
        assert_eq!(events[1].stack.len(), 1);
    }

    #[test]
    fn what_perf_trace_prints_is_read() {
        let (events, unknown) = events(TRACE.as_bytes());
        assert_eq!((events.len(), unknown), (2, 0));
        let freed = block(u64::MAX - 1, 94_719_840_334_496, 4321);
        assert_eq!(events[1].change, Change::Freed(freed));
        assert_eq!((events[1].process, events[1].time), (22263, 134_000));
        assert_eq!(name_of(&events[0].stack[0]), "by_malloc");
    }

    /// Reported: "754 MiB said, 34 MiB are live": perf trace leaves out what is 0, as the size of a block
    /// of no bytes and the old size in our `realloc`.
    #[test]
    fn arguments_are_read_by_their_numbers() {
        let text = "\
     0.000 s/1 sdt_allotrope:realloc(__probe_ip: 9, arg1: 4096, arg3: -7, arg4: 8192, arg5: 60, arg6: 70)
     0.001 s/1 sdt_libpoireau:malloc(__probe_ip: 9, arg1: 8, arg2: 16384)
     0.002 s/1 sdt_libpoireau:calloc(__probe_ip: 9, arg2: 1, arg3: 5, arg4: 20480)
     0.003 s/1 sdt_libpoireau:free(__probe_ip: 9, arg1: 8, arg2: 16384)
     0.004 s/1 sdt_libpoireau:realloc_to_regular(__probe_ip: 9, arg1: 5, arg2: 20480, arg4: 12288, arg5: 1)
s 1 [000] 5.0: sdt_libpoireau:realloc: (7f) arg1=4096 arg3=9 arg4=8192 arg5=60
";
        let (events, unknown) = events(text.as_bytes());
        let changes: Vec<_> = events.iter().map(|it| it.change).collect();
        assert_eq!(
            changes,
            [
                Change::Allocated(block((-7_i64).cast_unsigned(), 8192, 60)),
                Change::Allocated(block(8, 16384, 0)),
                Change::Allocated(block(5, 20480, 0)),
                Change::Freed(block(8, 16384, 0)),
                Change::Freed(block(5, 20480, 0)),
                // A constant is no argument for perf.
                Change::Allocated(block(9, 8192, 60)),
            ]
        );
        assert_eq!(unknown, 0);
    }

    /// What `perf trace -p` prints of one thread, with other options, and before it knows the time.
    #[test]
    fn who_it_was_may_be_missing() {
        let text = "\
2692588.457 sdt_libpoireau:malloc(__probe_ip: 139819701246155, arg1: 1, arg2: 19327352832, arg3: 31457280)
                                       sampled_malloc (/tmp/libpoireau.so)
         ? sdt_libpoireau:malloc(__probe_ip: 139819701246155, arg1: 2, arg2: 37580963840, arg3: 31457280)
2692589.000 4711 sdt_libpoireau:malloc(__probe_ip: 1, arg1: 3, arg2: 16, arg3: 10)
2692589.000 (         ): a/b c/4712 sdt_libpoireau:malloc(__probe_ip: 1, arg1: 4, arg2: 16, arg3: 10)
2692590.000 coronerd/0/4713 sdt_libpoireau:malloc:(7f7951f584f6) arg1=5 arg2=16 arg3=0
LOST 12 events!
LOST 3 events!
";
        let mut parser = Parser::default();
        let mut events: Vec<Event> = text.lines().filter_map(|it| parser.line(it)).collect();
        events.extend(parser.end_event());
        let who = |it: &Event| (it.name.to_string(), it.process, it.time / 1_000_000);
        let seen: Vec<_> = events.iter().map(who).collect();
        let wanted = |name: &str, process, time| (name.to_owned(), process, time);
        assert_eq!(
            seen,
            [
                wanted("", 0, 2_692_588),
                wanted("", 0, 2_692_588),
                wanted("", 4711, 2_692_589),
                wanted("a/b c", 4712, 2_692_589),
                wanted("coronerd/0", 4713, 2_692_590),
            ]
        );
        assert!(events.iter().all(|it| it.is_thread));
        assert_eq!(
            (events[0].stack.len(), parser.unknown, parser.lost),
            (1, 0, 15)
        );
    }

    /// `perf probe -f` gives our probes such names where libpoireau's are registered, and a user any group.
    #[test]
    fn a_probe_may_have_another_group_and_a_number() {
        let text = "\
2791197.338 s/1 sdt_allotrope:malloc_1(__probe_ip: 140284784452218, arg1: 11, arg2: 4096, arg3: 356, arg4: 356)
2791197.430 s/1 mine:realloc_from_tracked_12(__probe_ip: 1, arg1: 11, arg2: 4096, arg3: 356, arg4: -7, arg5: 8192, arg6: 690, arg7: 690)
                  main (/usr/bin/server)
s 1 [000] 5.0: sched:sched_switch: prev_comm=x prev_pid=1
\t            7ed7 schedule+0x17 ([kernel.kallsyms])
s 1 [000] 5.0: probe_libc:malloc: (7f)
";
        let (events, unknown) = events(text.as_bytes());
        let changes: Vec<_> = events.iter().map(|it| it.change).collect();
        let new = block((-7_i64).cast_unsigned(), 8192, 690);
        assert_eq!(
            changes,
            [
                Change::Allocated(block(11, 4096, 356)),
                Change::Replaced(block(11, 4096, 356), new),
            ]
        );
        assert_eq!((events[1].stack.len(), unknown), (1, 0));
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
