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
    /// The most bytes that were live since the sample before.
    pub most_live_bytes: u64,
    /// When that was, in nanoseconds since the start of the recording.
    pub most_live_ns: u64,
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
    /// The most live bytes since the last sample, and when; `None`: nothing has happened since.
    most: Option<(u64, u64)>,
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
            most: None,
        }
    }

    /// Notes what is live after an event.
    #[inline]
    pub(crate) fn note(&mut self, now: u64, live_bytes: u64) {
        if self.most.is_none_or(|(most, _)| live_bytes > most) {
            self.most = Some((live_bytes, now));
        }
    }

    /// The sample of a time.
    fn at(&mut self, time_ns: u64, heap: HeapPoint) -> HeapPoint {
        // What is live at the sample before is live at the beginning of the time since.
        let before = self.samples.last().map(|it| (it.live_bytes, it.time_ns));
        let most = self.most.take().into_iter().chain(before);
        let (most_live_bytes, most_live_ns) = most
            .max_by_key(|it| it.0)
            .unwrap_or((heap.live_bytes, time_ns));
        HeapPoint {
            time_ns,
            most_live_bytes,
            most_live_ns,
            ..heap
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
            let sample = self.at(self.next_ns, heap);
            self.samples.push(sample);
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
        let before = self.samples.pop_if(|last| last.time_ns == end_ns);
        let mut end = self.at(end_ns, heap);
        if let Some(before) = before.filter(|it| it.most_live_bytes > end.most_live_bytes) {
            end.most_live_bytes = before.most_live_bytes;
            end.most_live_ns = before.most_live_ns;
        }
        self.samples.push(end);
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

    /// 100 bytes for a moment between the second and the third sample.
    #[test]
    fn the_most_between_two_samples_is_known() {
        let at = Sampling {
            from_ns: 0,
            each_ns: 10,
        };
        let live = |live_bytes| HeapPoint {
            live_bytes,
            ..HeapPoint::default()
        };
        let mut sampler = Sampler::new(at, 0);
        sampler.note(3, 7);
        sampler.sample(21, live(7));
        sampler.note(21, 100);
        sampler.note(22, 5);
        sampler.sample(31, live(5));
        sampler.note(31, 6);
        let samples = sampler.finish(40, live(6));
        let most: Vec<_> = samples
            .iter()
            .map(|it| (it.time_ns, it.most_live_bytes, it.most_live_ns))
            .collect();
        assert_eq!(most, [(10, 7, 3), (20, 7, 10), (30, 100, 21), (40, 6, 31)]);
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
