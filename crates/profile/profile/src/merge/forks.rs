//! The forks that the merge has not passed yet: for each stream a queue of its fork
//! points. The merge asks before each event whether a fork comes first.

use std::collections::VecDeque;

use super::Fork;

/// The fork points of each stream, in stream order. A fork is open until it is passed.
#[derive(Debug)]
pub(super) struct OpenForks {
    /// Whether each fork is open, by its index in the forks of the image.
    is_open: Vec<bool>,
    /// Forks of each stream, ascending: (ordinal of the first event after the fork, fork). The
    /// first entry's fork is open; later entries may be of forks that were passed.
    by_stream: Vec<VecDeque<(u64, usize)>>,
}

impl OpenForks {
    pub(super) fn new(forks: &[Fork], streams: usize) -> Self {
        let mut by_stream = vec![Vec::new(); streams];
        for (number, fork) in forks.iter().enumerate() {
            for &(stream, ordinal) in &fork.points {
                if let Some(points) = by_stream.get_mut(stream) {
                    points.push((ordinal, number));
                }
            }
        }
        let sorted = |mut points: Vec<(u64, usize)>| {
            points.sort_unstable();
            VecDeque::from(points)
        };
        Self {
            is_open: vec![true; forks.len()],
            by_stream: by_stream.into_iter().map(sorted).collect(),
        }
    }

    /// The next open fork of the stream, if it comes before this event.
    pub(super) fn before(&self, stream: usize, ordinal: u64) -> Option<usize> {
        let (point, fork) = self.next(stream)?;
        (point <= ordinal).then_some(fork)
    }

    /// The next open fork of a stream: (ordinal of the first event after it, fork).
    pub(super) fn next(&self, stream: usize) -> Option<(u64, usize)> {
        self.by_stream.get(stream)?.front().copied()
    }

    /// Notes that a fork has been passed.
    pub(super) fn close(&mut self, number: usize, fork: &Fork) {
        self.is_open[number] = false;
        for &(stream, _) in &fork.points {
            let Some(points) = self.by_stream.get_mut(stream) else {
                continue;
            };
            while let Some(&(_, first)) = points.front()
                && !self.is_open[first]
            {
                points.pop_front();
            }
        }
    }

    pub(super) fn is_open(&self, number: usize) -> bool {
        self.is_open[number]
    }

    /// Closes all open forks, and returns them in order.
    pub(super) fn take_all(&mut self) -> Vec<usize> {
        let all = (0..self.is_open.len()).filter(|&fork| self.is_open[fork]);
        let all = all.collect();
        self.is_open.fill(false);
        self.by_stream.clear();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(points: &[(usize, u64)]) -> Fork {
        Fork {
            points: points.to_vec(),
        }
    }

    #[test]
    fn a_stream_reaches_its_forks_in_order() {
        let forks = [fork(&[(0, 9), (1, 4)]), fork(&[(0, 5)]), fork(&[])];
        let mut open = OpenForks::new(&forks, 2);
        assert_eq!(open.before(0, 4), None);
        assert_eq!(open.before(0, 20), Some(1));
        open.close(1, &forks[1]);
        assert_eq!(open.next(0), Some((9, 0)));
        assert_eq!(open.before(0, 8), None);
        assert_eq!(open.before(1, 4), Some(0));
        assert_eq!(open.take_all(), [0, 2]);
        assert_eq!(open.before(1, 4), None);
    }

    #[test]
    fn points_in_unknown_streams_are_ignored() {
        let mut open = OpenForks::new(&[fork(&[(7, 1)])], 1);
        assert_eq!(open.next(0), None);
        assert_eq!(open.next(7), None);
        assert_eq!(open.take_all(), [0]);
    }
}
