//! Random numbers that are the same on every machine.

/// xorshift64*, after Vigna 2016.
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of one mutant of a seed; splitmix64 makes those of two mutants unlike.
    pub fn of(seed: u64, mutant: u64) -> Self {
        let mut state = seed ^ mutant.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ state >> 31).max(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 11) % bound as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A number of the kinds that break programs.
    pub fn odd(&mut self) -> u64 {
        let small = self.below(20) as u64;
        let bits = self.below(64) as u32;
        match self.below(6) {
            0 => 0,
            1 => u64::MAX - small,
            2 => u64::from(u32::MAX) - small,
            3 => 1 << bits,
            4 => small,
            _ => self.next(),
        }
    }
}
