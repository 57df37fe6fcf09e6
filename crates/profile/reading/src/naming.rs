//! How far the naming of functions has come, as one number.

use allotrope_symbols::Work;

use crate::observer::Observer;

/// Label of the work while a debug file is fetched from a server.
pub const FETCHING: &str = "fetching debug files";
/// Label of the work while debug information is read.
pub const NAMING: &str = "naming functions";

/// Position and end while functions are named: `done` of `total` modules, and `part` (done,
/// total) of the next one. Modules and their parts share one scale, so that a bar moves within
/// a large module, too.
pub fn naming(done: u64, total: u64, part: (u64, u64)) -> (u64, u64) {
    const STEPS: u64 = 1000;
    let within = match part {
        (_, 0) => 0,
        (done, total) => done.min(total).saturating_mul(STEPS) / total,
    };
    let reached = done.saturating_mul(STEPS).saturating_add(within);
    (reached, total.saturating_mul(STEPS))
}

/// Reports how far the naming of `total` modules is.
pub fn show_naming(observer: &dyn Observer, done: u64, total: u64, work: Option<(Work, u64, u64)>) {
    let (what, part) = match work {
        Some((Work::Fetching, done, all)) => (FETCHING, (done, all)),
        Some((Work::Reading, done, all)) => (NAMING, (done, all)),
        None => (NAMING, (0, 0)),
    };
    let (reached, end) = naming(done, total, part);
    observer.progress(what, reached, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_moves_within_a_module() {
        assert_eq!(naming(0, 2, (0, 0)), (0, 2000));
        assert_eq!(naming(1, 2, (1, 4)), (1250, 2000));
        assert_eq!(naming(1, 2, (9, 4)), (2000, 2000), "more than announced");
        assert_eq!(naming(2, 2, (0, 0)), (2000, 2000));
    }
}
