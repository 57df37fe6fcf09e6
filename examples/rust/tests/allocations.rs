//! What `encode` and `decode` allocate, under `cargo test`: alone these tests
//! check results; under `allotrope test` their windows are held against budgets.

use codec::{decode, encode};

const ITERATIONS: u64 = 1000;

fn fields() -> Vec<String> {
    ["some", "fields", "of", "a", "line"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn a_line_is_one_allocation() {
    let fields = fields();
    // 1000 allocations.
    let bytes: usize = allotrope::measure("encode", ITERATIONS, || {
        (0..ITERATIONS).map(|_| encode(&fields).len()).sum()
    });
    assert_eq!(bytes, 1000 * "some,fields,of,a,line,".len());
}

#[test]
fn fields_are_one_allocation_each_and_one_for_the_list() {
    // 1000 × (1 + 5) allocations.
    let found: usize = allotrope::measure("decode", ITERATIONS, || {
        (0..ITERATIONS)
            .map(|_| decode("some,fields,of,a,line,").len())
            .sum()
    });
    assert_eq!(found, 1000 * 5);
}
