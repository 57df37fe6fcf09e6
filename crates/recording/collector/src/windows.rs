//! Converts an image's window events to records of the trace. Which events belong to a
//! window is decided when the trace is read. The only state here: for windows that
//! compare open file descriptors, those that were open at the start.

use std::collections::BTreeMap;

use allotrope_shm::wire::{self, PackedBytes, window_flag};
use allotrope_trace::model::{ImageId, QuietWait, ThreadId, Window, WindowEnd};

use crate::descriptors::OpenDescriptors;

/// Largest number of open windows whose descriptors are stored; beyond that the windows that opened
/// first are not compared.
const MAX_HELD: usize = 16;

/// The state of an image's open windows.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// The descriptors at the start of each window, by the epoch that began there.
    held: BTreeMap<u64, OpenDescriptors>,
}

impl Windows {
    /// The record for the start of a window; `descriptors`: those open at the start.
    pub(crate) fn open(
        &mut self,
        image: ImageId,
        thread: Option<ThreadId>,
        words: &wire::Window<PackedBytes<'_>>,
        descriptors: Option<OpenDescriptors>,
    ) -> Window {
        if words.flags & window_flag::DESCRIPTORS != 0
            && let Some(descriptors) = descriptors
        {
            self.held.insert(words.opened, descriptors);
            if self.held.len() > MAX_HELD {
                self.held.pop_first();
            }
        }
        let name: Vec<u8> = words.name.iter().collect();
        Window {
            image,
            opened: words.opened,
            thread,
            this_thread_only: words.flags & window_flag::THIS_THREAD_ONLY != 0,
            name: String::from_utf8_lossy(&name).into_owned(),
            iterations: words.iterations,
            quiet: quiet(words.flags),
            tick: words.tick,
        }
    }

    /// The record for the end of a window. `pid`: the process, if `/proc` shows it.
    pub(crate) fn close(
        &mut self,
        image: ImageId,
        pid: Option<u32>,
        flags: u8,
        [opened, closed]: [u64; 2],
        tick: u64,
    ) -> WindowEnd {
        let compares = flags & window_flag::DESCRIPTORS != 0;
        let before = self.held.remove(&opened).filter(|_| compares);
        let descriptors = before.and_then(|before| Some(OpenDescriptors::of(pid)?.since(&before)));
        WindowEnd {
            image,
            opened,
            closed,
            quiet: quiet(flags),
            tick,
            descriptors,
        }
    }
}

fn quiet(flags: u8) -> QuietWait {
    let number = flags >> window_flag::QUIET_SHIFT & window_flag::QUIET_MASK;
    // The words of a corrupt ring may contain any number.
    QuietWait::from_number(number.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(opened: u64, flags: u8, name: (&[u64], usize)) -> wire::Window<PackedBytes<'_>> {
        let (words, length) = name;
        let name = PackedBytes { words, length };
        wire::Window {
            flags,
            opened,
            iterations: 5,
            tick: 9,
            name,
        }
    }

    #[test]
    fn descriptors_are_compared_if_the_window_requests_it() {
        let mut windows = Windows::default();
        let own = Some(std::process::id());
        let flags = window_flag::DESCRIPTORS;
        windows.open(
            0,
            None,
            &words(1, flags, (&[], 0)),
            OpenDescriptors::of(own),
        );
        windows.open(0, None, &words(3, 0, (&[], 0)), OpenDescriptors::of(own));
        let compared = windows.close(0, own, flags, [1, 2], 0).descriptors;
        assert!(compared.is_some_and(|it| it.before > 0 && it.after > 0));
        assert_eq!(windows.close(0, own, flags, [1, 4], 0).descriptors, None);
        assert_eq!(windows.close(0, own, flags, [3, 5], 0).descriptors, None);
    }

    #[test]
    fn the_descriptors_of_the_oldest_windows_are_dropped() {
        let mut windows = Windows::default();
        for opened in 1..=2 * MAX_HELD as u64 {
            let words = words(opened, window_flag::DESCRIPTORS, (&[], 0));
            windows.open(0, None, &words, Some(OpenDescriptors::default()));
        }
        assert_eq!(windows.held.len(), MAX_HELD);
        assert!(!windows.held.contains_key(&1));
    }

    #[test]
    fn invalid_names_and_flags_are_harmless() {
        let mut windows = Windows::default();
        let name = [u64::from_le_bytes(*b"\xff\x1b[2J\xc3ab")];
        let window = windows.open(0, None, &words(0, 0xff, (&name, 8)), None);
        assert_eq!(window.name, "\u{fffd}\u{1b}[2J\u{fffd}ab");
        assert_eq!(
            window.quiet,
            QuietWait::NotRequested,
            "there is no outcome 3"
        );
    }
}
