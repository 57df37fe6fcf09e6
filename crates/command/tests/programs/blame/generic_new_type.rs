// The identifiers became strings, and the generic search for the largest clones them.
// BLAME largest
use std::hint::black_box;

#[cfg(not(after))]
type Id = u64;
#[cfg(after)]
type Id = String;

#[inline(never)]
fn largest<T: Clone + Ord>(items: &[T]) -> Option<T> {
    let mut largest: Option<T> = None;
    for item in items {
        if largest.as_ref().is_none_or(|it| it < item) {
            largest = Some(item.clone()); // MARK blame
        }
    }
    largest
}

fn main() {
    #[cfg(not(after))]
    let ids: Vec<Id> = (1000..1030).collect();
    #[cfg(after)]
    let ids: Vec<Id> = (1000..1030).map(|id| id.to_string()).collect();
    for _ in 0..40 {
        black_box(largest(black_box(&ids)));
    }
}
