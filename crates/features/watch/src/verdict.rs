//! What the looks at a site say: it grows, it has grown and stopped, it stays as it is, or nothing yet.
//!
//! # When a site grows
//! Let *E* blocks have entered a class of [`crate::survival`] and *L* have left it. Where the site
//! neither grows nor shrinks, each of these is as likely to come next, so *E* of *E* + *L* is binomial
//! with probability ½ (if blocks come at random, independently; if their lives are alike, the two
//! differ less). The probability that *E* is as large or larger by chance is at most
//! exp(−*n*·*D*(*E*/*n* ‖ ½)), *n* = *E* + *L*, *D* the relative entropy (Chernoff, "A measure of
//! asymptotic efficiency for tests of a hypothesis based on the sum of observations", 1952). It must be
//! less than [`CHANCE`]: 16 blocks that enter are enough if none leaves.
//!
//! That holds for each class where all blocks of the site have been sampled alike since its processes
//! began. The older classes show a site that keeps little of much: what it frees does not reach them.
//! Where denser sampling began while the process ran, what lived before is not followed: blocks are
//! seen to enter, and none of the older ones to leave, and each steady site seems to grow for as long as
//! its blocks live. There a site grows only if it is seen to free most of what it allocates, and to
//! keep a part:
//!
//! - of the blocks that were freed, nine of ten were freed younger than an age *a*, and it has been
//!   followed for 16·*a*;
//! - of the blocks that reached *a*, as many were left as above, and fewer were freed than if their
//!   lives went on for 16·*a* more on average, again by chance in less than [`CHANCE`] (Chernoff's bound
//!   for a Poisson variable). Where lives are exponential, blocks that reach such an age live for 0.43·*a*
//!   more;
//! - or the interval of what it has gained since the mark is above 0, which counts what may have been
//!   freed unseen: with sparse sampling before there are blocks that were never sampled, and while
//!   sampling was off any number of them;
//! - or the resident memory of the processes grows as well, by at least half of what all sites that seem
//!   to grow have gained.
//!
//! # When it has stopped
//! What is live at the looks ([`crate::history`]) has thirds: if the last one gained less than a
//! quarter of the first one, or of an average one, the site is saturating.
//!
//! # When nothing is said
//! Below [`MIN_SAMPLES`] samples, and where samples were lost.

use crate::survival::{Account, CLASSES, Passed, age_of};

/// Fewest samples about which anything is said.
pub const MIN_SAMPLES: u64 = 5;
/// How probable it may be that what looks like growth is chance, at one look.
pub const CHANCE: f64 = 2e-5;
/// If it is less probable than this that what looks like growth is chance, a site is not called flat.
const DOUBT: f64 = 0.05;
/// Least number of freed blocks that show how long blocks live.
const MIN_FREED: u64 = 16;
/// So many of these, of ten, must have been freed younger than the age of a class.
const YOUNG_OF_TEN: u64 = 9;
/// So many times the age of a class blocks live on average that are not kept, at most.
const MORE_LIFE: f64 = 16.0;
/// Of the lifetime of a class, how many must have passed.
const LIVES: u64 = 16;

/// Evidence that a site grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// From this age on, in nanoseconds.
    pub age: u64,
    /// Number of samples that reached it.
    pub reached: u64,
    /// How many of these were freed.
    pub freed: u64,
}

/// What survival says of a site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Survives {
    /// More stay than are freed.
    Grows(Evidence),
    /// It seems to grow, but what was allocated before it was followed may be freed unseen.
    SeemsToGrow(Evidence),
    /// As many are freed as come.
    InBalance,
    /// Too little is known.
    Unknown,
}

/// What became of the blocks of a site, as far as these alone say.
pub fn survives(account: &Account) -> Survives {
    if account.is_lossy {
        return Survives::Unknown;
    }
    let all = account.classes[0];
    let evidence = |class: usize| Evidence {
        age: age_of(class),
        reached: account.classes[class].entered,
        freed: account.classes[class].left,
    };
    let seems = is_more(all);
    if seems && account.is_complete {
        return Survives::Grows(evidence(0));
    }
    let kept = (1..CLASSES).find(|&class| match account.is_complete {
        true => is_more(account.classes[class]) && goes_on(account, class),
        false => keeps(account, class),
    });
    match kept {
        Some(class) => Survives::Grows(evidence(class)),
        None if seems => Survives::SeemsToGrow(evidence(0)),
        None if is_in_balance(all) || stands_still(account) => Survives::InBalance,
        None => Survives::Unknown,
    }
}

/// Whether blocks were freed, and no more entered than may well be chance.
fn is_in_balance(all: Passed) -> bool {
    all.left >= MIN_SAMPLES && half(all.entered, all.left) >= DOUBT
}

/// Whether nothing was gained in a time in which three blocks and more would have come at the rate of
/// before: at least one of them with a probability of 95 %.
fn stands_still(account: &Account) -> bool {
    let all = account.classes[0];
    let oldest = account.ages.iter().copied().max().unwrap_or(0);
    let before = oldest.saturating_sub(account.followed);
    let live = account.ages.len() as u64;
    all.entered <= all.left && live.saturating_mul(account.followed) >= before.saturating_mul(3)
}

/// Whether more entered than left, and not by chance.
fn is_more(it: Passed) -> bool {
    half(it.entered, it.left) <= CHANCE
}

/// Whether the site frees most of what it allocates younger than the age of this class, and keeps
/// what is older.
fn keeps(account: &Account, class: usize) -> bool {
    let it = account.classes[class];
    let age = age_of(class);
    let freed = account.freed.max(account.classes[0].left);
    let young = freed.saturating_sub(it.left);
    let expected = it.seconds / (MORE_LIFE * age as f64 / 1e9);
    account.followed >= age.saturating_mul(LIVES)
        && young >= MIN_FREED
        && young.saturating_mul(10) >= freed.saturating_mul(YOUNG_OF_TEN)
        && is_more(it)
        && at_most(it.left, expected) <= CHANCE
        && goes_on(account, class)
}

/// Whether blocks that were allocated lately are kept as those of before are: of the time from the first
/// look to the youngest block that can be in the class, the last third has at least a quarter of what
/// the first one has, or an average one. What was live at the first look may be a table that is filled
/// once, and is at most half of what is kept.
fn goes_on(account: &Account, class: usize) -> bool {
    let age = age_of(class);
    let whole = account.followed.saturating_sub(age);
    let mut thirds = [0_u64; 3];
    for it in account.ages.iter().filter_map(|it| it.checked_sub(age)) {
        if it < whole {
            thirds[(it / (whole / 3).max(1)).min(2) as usize] += 1;
        }
    }
    let [last, _, first] = thirds;
    let kept: u64 = thirds.iter().sum();
    let passed = account.classes[class];
    last > 0
        && last.saturating_mul(4) >= first.max(kept / 3)
        && kept.saturating_mul(2) >= passed.entered.saturating_sub(passed.left)
}

/// Chernoff's bound on the probability that of `more + less` events, each of which is one or the
/// other with probability ½, at least `more` are of the first kind.
fn half(more: u64, less: u64) -> f64 {
    if more <= less {
        return 1.0;
    }
    let all = (more + less) as f64;
    let part = |count: u64| match count {
        0 => 0.0,
        _ => count as f64 * (2.0 * count as f64 / all).ln(),
    };
    (-(part(more) + part(less))).exp()
}

/// Chernoff's bound on the probability of at most `count` events where `expected` are expected.
fn at_most(count: u64, expected: f64) -> f64 {
    let count = count as f64;
    if count >= expected {
        return 1.0;
    }
    let entropy = match count {
        0.0 => 0.0,
        _ => count * (count / expected).ln(),
    };
    (count - expected - entropy).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the binomial's probabilities is below the bound, and not by far.
    #[test]
    fn the_bounds_hold() {
        for (more, less) in [(16, 0), (30, 3), (700, 560)] {
            let all = more + less;
            let logs: Vec<f64> = (1..=all).map(|it| (it as f64).ln()).collect();
            let factorial = |it: u64| logs[..it as usize].iter().sum::<f64>();
            let choose = |it: u64| factorial(all) - factorial(it) - factorial(all - it);
            let exact: f64 = (more..=all)
                .map(|it| (choose(it) - all as f64 * 2f64.ln()).exp())
                .sum();
            let bound = half(more, less);
            assert!(
                exact <= bound * 1.000_001 && bound <= 50.0 * exact,
                "{exact} {bound}"
            );
        }
        assert_eq!(half(5, 5), 1.0);
        // Of a Poisson variable with mean 10: e^-10, and 11 e^-10 of at most one.
        assert!((at_most(0, 10.0) / (-10f64).exp() - 1.0).abs() < 1e-9);
        assert!(at_most(1, 10.0) >= 11.0 * (-10f64).exp());
        assert_eq!(at_most(10, 10.0), 1.0);
        assert_eq!(at_most(0, 0.0), 1.0);
    }

    #[test]
    fn sixteen_that_stay_are_enough() {
        let account = |entered: u64, is_complete: bool, is_lossy: bool| {
            let mut account = Account {
                is_complete,
                is_lossy,
                ..Account::default()
            };
            account.classes[0].entered = entered;
            account
        };
        let grows = |account| matches!(survives(&account), Survives::Grows(_));
        assert!(!grows(account(15, true, false)) && grows(account(16, true, false)));
        assert!(!grows(account(100, true, true)) && !grows(account(100, false, false)));
        // Of 20 and more that come while five are freed it is not known whether that is chance.
        for (entered, expected) in [(8, Survives::InBalance), (20, Survives::Unknown)] {
            let mut account = account(entered, true, false);
            account.classes[0].left = 5;
            assert_eq!(survives(&account), expected, "{entered}");
        }
        // Five blocks in 50 s: half a minute shows whether more come, ten seconds do not.
        for (followed, expected) in [(10, Survives::Unknown), (30, Survives::InBalance)] {
            let account = Account {
                ages: (1..=5)
                    .map(|it| (followed + 10 * it) * 1_000_000_000)
                    .collect(),
                followed: followed * 1_000_000_000,
                ..account(0, true, false)
            };
            assert_eq!(survives(&account), expected, "{followed}");
        }
    }
}
