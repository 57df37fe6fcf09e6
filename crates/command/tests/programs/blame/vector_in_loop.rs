// The scratch vector is made in the loop, where it was cleared and used again.
// BLAME medians
use std::hint::black_box;

fn medians(rows: &[[u32; 9]]) -> u64 {
    let mut sum = 0;
    #[cfg(not(after))]
    let mut sorted: Vec<u32> = Vec::with_capacity(9);
    for row in rows {
        #[cfg(not(after))]
        sorted.clear();
        #[cfg(after)]
        let mut sorted: Vec<u32> = Vec::with_capacity(9); // MARK blame
        sorted.extend(row);
        sorted.sort_unstable();
        sum += u64::from(black_box(&sorted)[4]);
    }
    sum
}

fn main() {
    let rows: Vec<[u32; 9]> = (0..700)
        .map(|at| [at, 3, 9, at / 2, 7, 1, 8, at * 2, 5])
        .collect();
    black_box(medians(black_box(&rows)));
}
