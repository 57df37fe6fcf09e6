//! Finds how much of each block a replay must write so that its memory grows as the recorded
//! program's did.
//!
//! The recording has the program's resident memory a few times a second. What is compared is
//! the growth from the first of these samples after the program's start to the largest: the
//! program's own baseline (code, stacks, the recorder) is in both. The start is the first
//! hundredth of the calls, in which programs load their libraries. The share of each block that is written is found
//! by bisection with the allocator of the recording.

use std::io;

use crate::replay::allocators::Allocator;
use crate::replay::comparison::{POINTS, Plan, replay};
use crate::replay::replayer::{Mode, Touch};
use crate::replay::results::Figures;

/// The calibrated replay's growth may differ by this share of the program's.
const TOLERANCE: f64 = 0.05;
/// Less growth than this is not compared: the baseline changes as much.
const MIN_BYTES: u64 = 1 << 20;
/// Fewer samples of resident memory say nothing of its growth.
const MIN_SAMPLES: usize = 2;
/// Replays of the bisection.
const STEPS: u32 = 8;

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// How much of each block to write.
    pub touch: Touch,
    /// Growth of the recorded program's resident memory, in bytes.
    pub recorded_bytes: u64,
    /// Growth of the replay's memory between the same operations, in bytes.
    pub replayed_bytes: u64,
}

impl Calibration {
    /// Whether all of each block is written, and the memory still grows by less than recorded:
    /// the rest is no memory of the heap.
    pub fn touches_all_but_grows_less(&self) -> bool {
        self.touch == Touch::ALL && self.replayed_bytes < self.recorded_bytes
    }

    /// Whether they agree to 5 %.
    pub fn agrees(&self) -> bool {
        let difference = self.recorded_bytes.abs_diff(self.replayed_bytes);
        difference as f64 <= self.recorded_bytes as f64 * TOLERANCE
    }
}

/// Calibrates with the allocator of the recording; `resident` is as in
/// [`crate::replay::RecordedOperations`]. The inner error says why this is not possible.
///
/// # Errors
///
/// If a replayer cannot be started.
pub fn calibrate(
    plan: &Plan<'_>,
    recorded_with: &Allocator,
    resident: &[(u64, u64)],
    progress: &dyn Fn(u64, u64),
) -> io::Result<Result<Calibration, String>> {
    let start = plan.operations.len() / 100;
    let started = resident.iter().find(|(number, _)| *number >= start);
    let first = started.or(resident.first());
    let largest = resident.iter().max_by_key(|(_, bytes)| *bytes);
    let (Some(&from), Some(&to)) = (first, largest) else {
        return Ok(Err(
            "the recording has no samples of resident memory".to_owned()
        ));
    };
    let usable = resident.iter().filter(|(number, _)| *number >= from.0);
    let usable = usable.count();
    if usable < MIN_SAMPLES {
        return Ok(Err(format!(
            "the recording has {usable} of the at least {MIN_SAMPLES} samples of resident \
             memory that this needs; the program was too short, since a few are taken in a second"
        )));
    }
    let recorded = to.1.saturating_sub(from.1);
    if recorded < MIN_BYTES {
        return Ok(Err(
            "the samples of resident memory in the recording grow by less than 1 MiB; the \
             program was too short or too small"
                .to_owned(),
        ));
    }
    let mut best: Option<Calibration> = None;
    let (mut low, mut high) = (0, WHOLE);
    for step in 0..STEPS {
        progress(step.into(), STEPS.into());
        let share = match step {
            0 => high,
            1 => low,
            _ => u32::midpoint(low, high),
        };
        let plan = Plan {
            touch: Touch::Pages(share),
            ..*plan
        };
        let figures = match replay(&plan, recorded_with, (Mode::Timed, POINTS), &|_, _, _| {})? {
            Ok(figures) => figures,
            Err(refusal) => return Ok(Err(format!("{} {refusal}", recorded_with.name))),
        };
        let replayed = growth(&figures, from.0, to.0);
        let found = Calibration {
            touch: plan.touch,
            recorded_bytes: recorded,
            replayed_bytes: replayed,
        };
        let error = |it: &Calibration| it.recorded_bytes.abs_diff(it.replayed_bytes);
        if best.as_ref().is_none_or(|best| error(&found) < error(best)) {
            best = Some(found);
        }
        // Already close enough, or out of reach: all written and too little, nothing written
        // and too much.
        let is_out_of_reach = match step {
            0 => replayed <= recorded,
            1 => replayed >= recorded,
            _ => false,
        };
        if is_out_of_reach || best.as_ref().is_some_and(|it| error(it) * 50 <= recorded) {
            break;
        }
        if step >= 2 {
            if replayed > recorded {
                high = share;
            } else {
                low = share;
            }
        }
    }
    Ok(best.ok_or_else(|| "nothing was replayed".to_owned()))
}

const WHOLE: u32 = allotrope_replayer::results::WHOLE as u32;

/// Growth of a replay's memory between two operations.
fn growth(figures: &Figures, from: u64, to: u64) -> u64 {
    memory_at(figures, to).saturating_sub(memory_at(figures, from))
}

/// Memory after this many operations, interpolated between two points.
fn memory_at(figures: &Figures, operations: u64) -> u64 {
    let points = &figures.points;
    let after = points.partition_point(|point| point.operations < operations);
    let before = after.checked_sub(1).and_then(|it| points.get(it));
    let (x0, y0) = before.map_or((0, 0), |it| (it.operations, it.memory));
    let Some(next) = points.get(after) else {
        return y0;
    };
    let (dx, dy) = (
        next.operations.saturating_sub(x0),
        next.memory as f64 - y0 as f64,
    );
    if dx == 0 {
        return next.memory;
    }
    let part = operations.saturating_sub(x0) as f64 / dx as f64;
    (y0 as f64 + dy * part).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::results::Point;

    #[test]
    fn memory_between_two_points_is_interpolated() {
        let figures = Figures {
            points: vec![
                Point {
                    operations: 10,
                    memory: 100,
                },
                Point {
                    operations: 20,
                    memory: 200,
                },
                Point {
                    operations: 30,
                    memory: 100,
                },
            ],
            ..Figures::default()
        };
        assert_eq!(memory_at(&figures, 0), 0);
        assert_eq!(memory_at(&figures, 5), 50);
        assert_eq!(memory_at(&figures, 10), 100);
        assert_eq!(memory_at(&figures, 25), 150);
        assert_eq!(memory_at(&figures, 99), 100);
        assert_eq!(growth(&figures, 5, 20), 150);
    }

    #[test]
    fn five_percent_agree() {
        let of = |replayed_bytes| Calibration {
            touch: Touch::ALL,
            recorded_bytes: 1000,
            replayed_bytes,
        };
        assert!(of(950).agrees() && of(1050).agrees());
        assert!(!of(949).agrees() && !of(1051).agrees());
    }
}
