//! The sites of a process in the JSON report.
//!
//! There may be hundreds of thousands of them, with ten million frames in their
//! stacks. So they are written into a buffer without a value for each part of
//! them, small numbers are turned into digits once and not each time, and where
//! sites are many, other threads write parts of them at the same time. Only so much is
//! held in memory as lies between the threads.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, Scope};

use allotrope_profile::{Profile, Site};

/// Sites that are written at a time, some hundred kilobytes.
const SITES_A_PART: usize = 512;
/// Fewer parts than this are not worth a thread.
const WORTH_A_THREAD: usize = 8;
/// More threads would wait for the one that hands their text on.
const MOST_THREADS: usize = 3;
/// Parts that a thread is ahead.
const PARTS_AHEAD: usize = 2;

/// Sites that are written before the one whose stack is asked for: they are in
/// another order than their stacks lie in memory.
const SITES_AHEAD: usize = 2;

/// Numbers whose digits are kept. Those below have seven bytes with the comma.
const MOST_DIGITS: usize = 1 << 16;
/// Bytes of the largest number, and a comma.
const NUMBER: usize = 21;
/// Bytes of a site with an empty stack, generously.
const REST_OF_SITE: usize = 1024;

/// The digits of small numbers, each with a comma behind it.
pub(crate) struct Digits(Vec<u64>);

/// What is written, up to `length`; behind it is room.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    length: usize,
}

/// A thread that writes every so-many-th part.
struct Writer {
    written: Receiver<Text>,
    /// Where texts go that were handed on, for their memory.
    used: Sender<Text>,
}

/// Every how-many-th part, from which on.
#[derive(Clone, Copy)]
struct Turn {
    first: usize,
    of: usize,
}

/// Writes the sites with commas between them.
pub(crate) fn write(sites: &[Site], digits: &Digits, out: &mut dyn Write) -> io::Result<()> {
    let parts = sites.len().div_ceil(SITES_A_PART);
    let more = if parts < WORTH_A_THREAD {
        0
    } else {
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        (processors - 1).min(MOST_THREADS)
    };
    thread::scope(|scope| {
        let of = more + 1;
        let writers: Vec<Option<Writer>> = (1..of)
            .map(|first| Writer::start(scope, sites, digits, Turn { first, of }))
            .collect();
        let mut own = Text::default();
        for part in 0..parts {
            let writer = match part % of {
                0 => None,
                turn => writers[turn - 1].as_ref(),
            };
            // What no thread writes is written here.
            let written = writer.and_then(|writer| Some((writer, writer.written.recv().ok()?)));
            if let Some((writer, text)) = written {
                out.write_all(text.as_bytes())?;
                // A thread that has ended needs no memory.
                let _ = writer.used.send(text);
            } else {
                own.write_part(sites, part, digits);
                out.write_all(own.as_bytes())?;
            }
        }
        Ok(())
    })
}

impl Writer {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        sites: &'scope [Site],
        digits: &'scope Digits,
        turn: Turn,
    ) -> Option<Self> {
        let (give, written) = sync_channel(PARTS_AHEAD);
        let (used, again) = channel();
        let builder = thread::Builder::new().name("sites as JSON".to_owned());
        let started =
            builder.spawn_scoped(scope, move || ahead(sites, digits, turn, &give, &again));
        started.ok()?;
        Some(Self { written, used })
    }
}

/// What a thread does until there are no more parts, or nobody wants them.
fn ahead(
    sites: &[Site],
    digits: &Digits,
    turn: Turn,
    give: &SyncSender<Text>,
    again: &Receiver<Text>,
) {
    let parts = sites.len().div_ceil(SITES_A_PART);
    for part in (turn.first..parts).step_by(turn.of) {
        let mut text = again.try_recv().unwrap_or_default();
        text.write_part(sites, part, digits);
        if give.send(text).is_err() {
            return;
        }
    }
}

impl Digits {
    /// For the indexes of the profile's frames.
    pub(crate) fn of(profile: &Profile) -> Self {
        let most = profile.frames.len().min(MOST_DIGITS) as u32;
        Self((0..most).map(digits).collect())
    }
}

/// The digits and a comma in the lower seven bytes, their number in the highest.
fn digits(number: u32) -> u64 {
    let mut bytes = [0; 8];
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    bytes[..digits.len()].copy_from_slice(digits);
    bytes[digits.len()] = b',';
    bytes[7] = digits.len() as u8 + 1;
    u64::from_le_bytes(bytes)
}

impl Text {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Replaces the text by that of a part.
    fn write_part(&mut self, sites: &[Site], part: usize, digits: &Digits) {
        self.length = 0;
        let start = part * SITES_A_PART;
        let end = sites.len().min(start + SITES_A_PART);
        for (at, site) in (start..end).zip(&sites[start..end]) {
            if let Some(later) = sites.get(at + SITES_AHEAD) {
                later.stack.bring_near();
            }
            self.site(site, digits);
        }
        if end == sites.len() {
            // Nothing follows the last one.
            self.length -= 1;
        }
    }

    /// A site and a comma.
    fn site(&mut self, site: &Site, digits: &Digits) {
        self.make_room(site.stack.len() * NUMBER + REST_OF_SITE);
        self.literal(b"{\"stack\":[");
        self.numbers(&site.stack, digits);
        // The bracket stands in the place of the last comma.
        self.length -= usize::from(!site.stack.is_empty());
        self.literal(b"],\"allocations\":");
        self.number(site.allocations, digits);
        self.literal(b"\"allocated_bytes\":");
        self.number(site.allocated_bytes, digits);
        self.literal(b"\"temporary_allocations\":");
        self.number(site.temporary_allocations, digits);
        self.literal(b"\"leaked_allocations\":");
        self.number(site.leaked_allocations, digits);
        self.literal(b"\"leaked_bytes\":");
        self.number(site.leaked_bytes, digits);
        self.literal(b"\"bytes_at_peak\":");
        self.number(site.bytes_at_peak, digits);
        self.literal(b"\"allocations_at_peak\":");
        self.number(site.allocations_at_peak, digits);
        self.literal(b"\"lifetime_mean_us\":");
        self.float(site.lifetimes.mean_us());
        self.literal(b"},");
    }

    fn make_room(&mut self, bytes: usize) {
        let needed = self.length + bytes;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
    }

    #[inline]
    fn literal<const N: usize>(&mut self, text: &[u8; N]) {
        self.bytes[self.length..][..N].copy_from_slice(text);
        self.length += N;
    }

    /// A number and a comma.
    #[inline]
    fn number(&mut self, number: u64, digits: &Digits) {
        match digits.0.get(number as usize) {
            Some(&kept) => {
                // Eight bytes always: what is too much is written over.
                self.bytes[self.length..][..8].copy_from_slice(&kept.to_le_bytes());
                self.length += (kept >> 56) as usize;
            }
            None => self.large_number(number),
        }
    }

    /// Numbers, for which there is room, each with a comma. They are most of what is
    /// written.
    fn numbers(&mut self, numbers: &[u32], digits: &Digits) {
        let mut numbers = numbers.iter();
        loop {
            let room = &mut self.bytes[self.length..];
            let mut at = 0;
            let large = numbers.find(|&&number| {
                let kept = digits.0.get(number as usize);
                let place = room.get_mut(at..).and_then(|room| room.first_chunk_mut());
                let (Some(&kept), Some(place)) = (kept, place) else {
                    return true;
                };
                *place = kept.to_le_bytes();
                at += (kept >> 56) as usize;
                false
            });
            self.length += at;
            match large {
                Some(&number) => self.large_number(number.into()),
                None => return,
            }
        }
    }

    fn large_number(&mut self, number: u64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        self.bytes[self.length..][..digits.len()].copy_from_slice(digits);
        self.length += digits.len();
        self.literal(b",");
    }

    /// As JSON has it: null if it is no finite number.
    fn float(&mut self, number: f64) {
        let mut room = &mut self.bytes[self.length..];
        let before = room.len();
        // There is room for any number.
        let _ = serde_json::to_writer(&mut room, &number);
        let after = room.len();
        self.length += before - after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_profile::{Frame, Lifetimes, Stack};
    use serde::Serialize;

    /// A site as the report has it.
    #[derive(Serialize)]
    struct SiteForm<'a> {
        stack: &'a [u32],
        allocations: u64,
        allocated_bytes: u64,
        temporary_allocations: u64,
        leaked_allocations: u64,
        leaked_bytes: u64,
        bytes_at_peak: u64,
        allocations_at_peak: u64,
        lifetime_mean_us: f64,
    }

    fn form(site: &Site) -> SiteForm<'_> {
        SiteForm {
            stack: &site.stack,
            allocations: site.allocations,
            allocated_bytes: site.allocated_bytes,
            temporary_allocations: site.temporary_allocations,
            leaked_allocations: site.leaked_allocations,
            leaked_bytes: site.leaked_bytes,
            bytes_at_peak: site.bytes_at_peak,
            allocations_at_peak: site.allocations_at_peak,
            lifetime_mean_us: site.lifetimes.mean_us(),
        }
    }

    /// Stacks of 0 to 39 frames, and numbers of every length.
    fn site(number: u64) -> Site {
        let value = |n: u64| {
            let scattered = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + n);
            scattered.rotate_left(n as u32 * 7) >> ((number + 5 * n) % 64)
        };
        let mut lifetimes = Lifetimes::default();
        (0..number % 4).for_each(|n| lifetimes.add(value(6 + n)));
        let frames = (0..number % 40).map(|n| value(n) as u32);
        Site {
            stack: Stack::from(frames.collect::<Vec<u32>>()),
            allocations: value(0),
            allocated_bytes: value(1),
            temporary_allocations: value(2),
            leaked_allocations: value(3),
            leaked_bytes: value(4),
            bytes_at_peak: value(5),
            allocations_at_peak: number % 2 * u64::MAX,
            lifetimes,
            ..Site::default()
        }
    }

    /// Whose digits are kept for so many frames.
    fn profile(frames: usize) -> Profile {
        Profile {
            frames: vec![Frame::default(); frames],
            ..Profile::default()
        }
    }

    #[test]
    fn sites_are_written_as_a_general_writer_writes_them() {
        let with_threads = SITES_A_PART * WORTH_A_THREAD * 2 + 3;
        for number in [0, 1, SITES_A_PART, SITES_A_PART + 1, with_threads] {
            let sites: Vec<Site> = (0..number as u64).map(site).collect();
            let forms = sites.iter().map(form).collect::<Vec<_>>();
            let expected = serde_json::to_string(&forms).expect("memory");
            for frames in [0, 12_345, MOST_DIGITS + 1] {
                let digits = Digits::of(&profile(frames));
                let mut text = b"[".to_vec();
                write(&sites, &digits, &mut text).expect("memory");
                text.push(b']');
                assert!(text == expected.as_bytes(), "{number} sites");
            }
        }
    }

    #[test]
    fn a_reader_that_has_read_enough_ends_the_threads() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, text: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
                Ok(text.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let number = (SITES_A_PART * WORTH_A_THREAD * 8) as u64;
        let sites: Vec<Site> = (0..number).map(site).collect();
        let digits = Digits::of(&profile(10));
        for parts in 0..4 {
            let error = write(&sites, &digits, &mut Full(parts)).expect_err("it is full");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
