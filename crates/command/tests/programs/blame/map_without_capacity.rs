// The map is made without a capacity, so that it grows as it is filled.
// BLAME distinct
use std::collections::HashMap;
use std::hint::black_box;

fn distinct(ids: &[u64]) -> usize {
    #[cfg(not(after))]
    let mut seen: HashMap<u64, usize> = HashMap::with_capacity(ids.len());
    #[cfg(after)]
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for (at, id) in ids.iter().enumerate() {
        seen.insert(*id, at); // MARK blame
    }
    black_box(&seen).len()
}

fn main() {
    let ids: Vec<u64> = (0..1000).map(|at| at * at).collect();
    for _ in 0..50 {
        black_box(distinct(black_box(&ids)));
    }
}
