//! Samples of the heap of an image at regular times.

/// The heap of a process at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapPoint {
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
    /// Bytes allocated until then.
    pub allocated_bytes: u64,
    /// Bytes of them that were live.
    pub live_bytes: u64,
    /// Allocations until then.
    pub allocations: u64,
    /// Deallocations until then, including those of inherited and of unknown blocks.
    pub deallocations: u64,
}

impl HeapPoint {
    /// Bytes freed until then, of blocks that the process allocated itself.
    pub fn deallocated_bytes(&self) -> u64 {
        self.allocated_bytes.wrapping_sub(self.live_bytes)
    }
}

/// When samples are taken: at `from_ns` and then at every `each_ns`, both in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    pub(crate) from_ns: u64,
    pub(crate) each_ns: u64,
}

/// Takes the samples of an image.
pub(crate) struct Sampler {
    each_ns: u64,
    next_ns: u64,
    samples: Vec<HeapPoint>,
}

impl Sampler {
    /// Returns the sampler of an image that begins at `start_ns`; the first sample is after that.
    pub(crate) fn new(at: Sampling, start_ns: u64) -> Self {
        let passed = start_ns.saturating_sub(at.from_ns) / at.each_ns;
        let next_ns = (passed + 1).saturating_mul(at.each_ns);
        Self {
            each_ns: at.each_ns,
            next_ns: at.from_ns.saturating_add(next_ns),
            samples: Vec::new(),
        }
    }

    /// Whether a sample is due before an event at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next_ns
    }

    /// Takes the samples that are due before `now`; `heap` is what it was since the last
    /// event.
    #[cold]
    pub(crate) fn sample(&mut self, now: u64, heap: HeapPoint) {
        while self.is_due(now) {
            self.samples.push(HeapPoint {
                time_ns: self.next_ns,
                ..heap
            });
            // At the largest time there is nothing after it.
            let Some(next) = self.next_ns.checked_add(self.each_ns) else {
                return;
            };
            self.next_ns = next;
        }
    }

    /// All samples, with one at the end.
    pub(crate) fn finish(mut self, end_ns: u64, heap: HeapPoint) -> Vec<HeapPoint> {
        self.sample(end_ns, heap);
        let end = HeapPoint {
            time_ns: end_ns,
            ..heap
        };
        match self.samples.last_mut() {
            Some(last) if last.time_ns == end_ns => *last = end,
            _ => self.samples.push(end),
        }
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(allocations: u64) -> HeapPoint {
        HeapPoint {
            allocations,
            ..HeapPoint::default()
        }
    }

    #[test]
    fn samples_are_at_regular_times_and_at_the_end() {
        let at = Sampling {
            from_ns: 100,
            each_ns: 10,
        };
        // The image begins between two times.
        let mut sampler = Sampler::new(at, 115);
        assert!(!sampler.is_due(119));
        // An event at a time comes after the sample of that time.
        assert!(sampler.is_due(120));
        sampler.sample(141, heap(3));
        assert!(!sampler.is_due(149));
        let samples = sampler.finish(165, heap(7));
        let seen: Vec<_> = samples
            .iter()
            .map(|it| (it.time_ns, it.allocations))
            .collect();
        assert_eq!(
            seen,
            [(120, 3), (130, 3), (140, 3), (150, 7), (160, 7), (165, 7)]
        );
    }

    #[test]
    fn an_end_at_a_regular_time_is_one_sample() {
        let at = Sampling {
            from_ns: 0,
            each_ns: 10,
        };
        let samples = Sampler::new(at, 0).finish(10, heap(1));
        assert_eq!(samples.len(), 1);
        let mut last = Sampler::new(at, u64::MAX - 5);
        assert!(last.is_due(u64::MAX));
        last.sample(u64::MAX, heap(1));
    }
}
