// A sorted vector became a BTreeMap.
// BLAME build
use std::hint::black_box;

#[cfg(not(after))]
type Index = Vec<(u64, u64)>;
#[cfg(after)]
type Index = std::collections::BTreeMap<u64, u64>;

fn build(rows: &[(u64, u64)]) -> Index {
    #[cfg(not(after))]
    let mut index = Index::with_capacity(rows.len());
    #[cfg(after)]
    let mut index = Index::new();
    for &(key, offset) in rows {
        #[cfg(not(after))]
        index.push((key, offset));
        #[cfg(after)]
        index.insert(key, offset); // MARK blame
    }
    #[cfg(not(after))]
    index.sort_unstable();
    index
}

fn main() {
    let rows: Vec<(u64, u64)> = (0..5000).map(|at| (at * 7919 % 5003, at)).collect();
    black_box(build(black_box(&rows)));
}
