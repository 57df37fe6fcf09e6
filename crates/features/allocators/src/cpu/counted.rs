//! What the events of a quantity have counted together, if each was counted for a part of the time.

use rustc_hash::FxHashMap;

/// What was counted for this part of the time was counted all the time: the kernel's two clocks
/// differ a little.
const WHOLE: f64 = 0.99;

/// What an event of a task on one processor has counted. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The task.
    pub(super) task: i32,
    /// What it has counted.
    pub(super) count: u64,
    /// While the event was enabled and the task ran, on whichever processor.
    pub(super) enabled: u64,
    /// While the task ran on this event's processor, and the event had one of its registers, of
    /// which there are fewer than events.
    pub(super) running: u64,
}

/// What the events of a quantity have counted together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    /// The amount; an estimate unless it was counted all the time.
    pub(crate) amount: u64,
    /// The part of the time in which it was counted, 0 to 1.
    pub(crate) part: f64,
}

impl Counted {
    /// Scales the count of each task from the time in which it was counted to the time in which the
    /// task ran, as perf(1) does. `None` without events, and if no task was ever counted.
    pub(super) fn of(readings: &[Reading]) -> Option<Self> {
        let mut tasks: FxHashMap<i32, Reading> = FxHashMap::default();
        for it in readings {
            let sum = tasks.entry(it.task).or_insert(Reading {
                count: 0,
                enabled: 0,
                running: 0,
                ..*it
            });
            sum.count = sum.count.saturating_add(it.count);
            sum.enabled = sum.enabled.max(it.enabled);
            sum.running = sum.running.saturating_add(it.running);
        }
        let (mut amount, mut enabled, mut running) = (0_u64, 0_u64, 0_u64);
        for it in tasks.values() {
            let part = it.running as f64 / it.enabled.max(1) as f64;
            let scaled = match (it.enabled, it.running) {
                // A short task between two turns of the registers.
                (1.., 0) => 0,
                (1.., _) if part < WHOLE => {
                    u128::from(it.count) * u128::from(it.enabled) / u128::from(it.running)
                }
                _ => u128::from(it.count),
            };
            amount = amount.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX));
            enabled = enabled.saturating_add(it.enabled);
            running = running.saturating_add(it.running.min(it.enabled));
        }
        if readings.is_empty() || (enabled > 0 && running == 0) {
            return None;
        }
        let part = running as f64 / enabled.max(1) as f64;
        let part = if enabled == 0 || part >= WHOLE {
            1.0
        } else {
            part
        };
        Some(Self { amount, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of a task: count, enabled, running.
    fn readings(task: i32, all: &[(u64, u64, u64)]) -> Vec<Reading> {
        let all = all.iter().map(|(count, enabled, running)| Reading {
            task,
            count: *count,
            enabled: *enabled,
            running: *running,
        });
        all.collect()
    }

    /// By hand: a task that ran for 1000, of these 400 on one processor and 600 on another one, and
    /// was counted for half of it, has twice what was counted.
    #[test]
    fn what_was_counted_for_a_part_of_the_time_is_scaled() {
        let mut all = readings(1, &[(30, 1000, 200), (50, 1000, 300), (0, 1000, 0)]);
        let expected = |amount, part| Some(Counted { amount, part });
        assert_eq!(Counted::of(&all), expected(160, 0.5));
        // Another task was counted all the time: 1500 of 2000.
        all.extend(readings(2, &[(7, 1000, 1000), (0, 1000, 0)]));
        assert_eq!(Counted::of(&all), expected(167, 0.75));
        // The clocks differ a little: exact.
        assert_eq!(
            Counted::of(&readings(1, &[(53_017, 1_000_000, 999_990)])),
            expected(53_017, 1.0)
        );
        // A task that never ran has counted nothing.
        assert_eq!(Counted::of(&readings(1, &[(0, 0, 0)])), expected(0, 1.0));
        // Never had a register: nothing is known.
        assert_eq!(Counted::of(&readings(1, &[(0, 9, 0)])), None);
        assert_eq!(Counted::of(&[]), None);
        let most = Counted::of(&readings(1, &[(u64::MAX, u64::MAX, 1)]));
        assert_eq!(most.unwrap().amount, u64::MAX);
    }
}
