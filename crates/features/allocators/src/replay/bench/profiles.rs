//! Named sets of parameters of the pattern `larson`.

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::count;

use super::{Case, Pattern};

/// A named set of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Name of the profile.
    pub name: &'static str,
    /// Bytes of the smallest and of the largest block; each size is as likely.
    pub sizes: (u64, u64),
    /// Threads.
    pub threads: u32,
    /// Blocks that each thread keeps.
    pub kept: u64,
    /// How many times 1,024 blocks each thread replaces between two exchanges.
    pub rounds: u64,
    /// Seconds for which glibc runs.
    pub seconds: f64,
    /// What it is for.
    pub meaning: &'static str,
}

/// All profiles.
pub const PROFILES: [Profile; 3] = [
    Profile {
        name: "tiny",
        sizes: (8, 128),
        threads: 1,
        kept: 1024,
        rounds: 16,
        seconds: 1.0,
        meaning: "small blocks of one thread: the fast paths",
    },
    Profile {
        name: "mid",
        sizes: (2048, 32768),
        threads: 1,
        kept: 1024,
        rounds: 16,
        seconds: 1.0,
        meaning: "blocks of 2 to 32 KiB: size classes beyond the smallest",
    },
    Profile {
        name: "mt",
        sizes: (8, 1024),
        threads: 4,
        kept: 4096,
        rounds: 4,
        seconds: 2.0,
        meaning: "four threads that free each other's blocks",
    },
];

impl Profile {
    /// The profile with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|it| it.name == name)
    }

    /// The benchmark, for other seconds if they are given.
    pub fn case(&self, seconds: Option<f64>) -> Case {
        let (smallest_size, size) = self.sizes;
        Case {
            smallest_size,
            kept: self.kept,
            exchange_rounds: Some(self.rounds),
            profile: Some(self.name),
            seconds: Some(seconds.unwrap_or(self.seconds)),
            ..Case::new(Pattern::Larson, size, self.threads, 0)
        }
    }
}

/// The profiles as a table.
pub fn document() -> Document {
    let mut document = Document::default();
    let rows = PROFILES.iter().map(|it| {
        [
            it.name.to_owned(),
            format!("{}–{}", count(it.sizes.0), count(it.sizes.1)),
            it.threads.to_string(),
            count(it.kept),
            count(it.rounds),
            it.seconds.to_string(),
            it.meaning.to_owned(),
        ]
    });
    let numbers = ["bytes", "threads", "blocks", "rounds", "seconds"].map(right);
    let columns = [left("profile")].into_iter().chain(numbers);
    let columns = columns.chain([left("for")]);
    document.table(Table::new(columns).indent(0).rows(rows));
    document.text("blocks: kept by each thread; rounds: how many times 1,024 blocks it replaces before the threads exchange their blocks; seconds: for which glibc runs, and each allocator makes as many calls.");
    document
}
