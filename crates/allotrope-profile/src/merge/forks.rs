//! The forks that the merge has not passed yet, by the streams that they cut.

use std::collections::VecDeque;

use super::Fork;

/// Forks in the order in which each stream comes to them.
#[derive(Debug)]
pub(super) struct OpenForks {
    is_open: Vec<bool>,
    /// For each stream the ordinals at which it is cut, with the fork; the first
    /// one is open.
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

    /// The first fork that comes before this event of the stream.
    pub(super) fn before(&self, stream: usize, ordinal: u64) -> Option<usize> {
        let (point, fork) = self.next(stream)?;
        (point <= ordinal).then_some(fork)
    }

    /// The next fork of a stream: where, and which.
    pub(super) fn next(&self, stream: usize) -> Option<(u64, usize)> {
        self.by_stream.get(stream)?.front().copied()
    }

    /// The fork with this number has been passed.
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

    /// All that have not been passed, in their order.
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
    fn a_stream_comes_to_its_forks_in_order() {
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
    fn points_of_streams_that_are_not_there_mean_nothing() {
        let mut open = OpenForks::new(&[fork(&[(7, 1)])], 1);
        assert_eq!(open.next(0), None);
        assert_eq!(open.next(7), None);
        assert_eq!(open.take_all(), [0]);
    }
}
