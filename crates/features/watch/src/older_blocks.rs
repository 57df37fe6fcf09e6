//! Whether what a site has gained since the mark may have been freed elsewhere in the site: of blocks
//! that are older than the present period, most were never sampled, and their ends are not seen.
//!
//! A watcher that comes late sees every site fill up: new blocks are sampled, and those that they
//! replace were not, or sparsely. So where blocks of the mark are known worse than later ones, a
//! rise is a verdict only if the lower end of what the site has gained is above 0, which counts the
//! old blocks that may have been freed unseen. Where any number of blocks came while sampling was
//! off, there is no lower end, and no verdict.

use crate::history::Trend;
use crate::sites::Sums;

/// The trend of a site with these figures; [`Trend::Unknown`] if its rise may be due to old blocks
/// that are not known.
pub fn supported(trend: Trend, sums: &Sums) -> Trend {
    let rises = matches!(trend, Trend::Growing | Trend::Saturating);
    match rises && sums.are_worse_known_before && sums.grown_bytes().low <= 0.0 {
        true => Trend::Unknown,
        false => trend,
    }
}

#[cfg(test)]
mod tests {
    use allotrope_sampling::Period;
    use allotrope_sampling::estimate::Figures;

    use super::*;

    /// Figures at this period before the mark and the usual one after it, with so many new samples
    /// of 64 KiB.
    fn sums(before: Period, is_open: bool, new: u64) -> Sums {
        let mut sums = Sums::new(before);
        sums.new = Figures::new(Period::DEFAULT);
        sums.are_worse_known_before = is_open || before > Period::DEFAULT;
        if is_open {
            sums.gone.open_upwards();
        }
        for _ in 0..new {
            sums.new.add(64 << 10, Period::DEFAULT);
        }
        sums
    }

    #[test]
    fn a_rise_that_old_blocks_may_explain_is_no_verdict() {
        // A sample stands for 0.53 MiB. 3.69 times 32 MiB may have been freed unseen: 118 MiB.
        let few = sums(Period::SPARSE, false, 100);
        let many = sums(Period::SPARSE, false, 1000);
        for rising in [Trend::Growing, Trend::Saturating] {
            assert_eq!(supported(rising, &few), Trend::Unknown);
            assert_eq!(supported(rising, &many), rising);
            // Nothing bounds what came while sampling was off.
            let open = sums(Period::DEFAULT, true, 1000);
            assert_eq!(supported(rising, &open), Trend::Unknown);
            // All is known equally well.
            assert_eq!(supported(rising, &sums(Period::DEFAULT, false, 5)), rising);
        }
        for other in [Trend::Flat, Trend::Unknown] {
            assert_eq!(supported(other, &few), other);
        }
    }
}
