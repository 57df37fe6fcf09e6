//! The assignment problem: pairs rows with columns so that the total gain is
//! largest. The Hungarian method (H. W. Kuhn, 1955) with potentials and
//! shortest augmenting paths, O(n³); for small problems only.

/// Returns, for each row, its column in an assignment of the largest total gain.
/// Rows and columns without gain stay unassigned. `gain` has rows × columns values,
/// row by row, none negative.
pub(crate) fn assign(gain: &[i64], rows: usize, columns: usize) -> Vec<Option<usize>> {
    let size = rows.max(columns);
    let cost = |row: usize, column: usize| {
        if row < rows && column < columns {
            -gain[row * columns + column]
        } else {
            0
        }
    };
    let chosen = cheapest(size, cost);
    let mut assigned = vec![None; rows];
    for (column, &row) in chosen.iter().enumerate() {
        if row < rows && column < columns && gain[row * columns + column] > 0 {
            assigned[row] = Some(column);
        }
    }
    assigned
}

/// Returns, for each column, its row in an assignment of the least total cost.
fn cheapest(size: usize, cost: impl Fn(usize, usize) -> i64) -> Vec<usize> {
    // Row 0 and column 0 are sentinels of the algorithm; real ones count from
    // 1.
    let mut row_potential = vec![0_i64; size + 1];
    let mut column_potential = vec![0_i64; size + 1];
    let mut row_of = vec![0_usize; size + 1];
    for row in 1..=size {
        row_of[0] = row;
        let mut column = 0;
        let mut least = vec![i64::MAX; size + 1];
        let mut visited = vec![false; size + 1];
        let mut previous = vec![0_usize; size + 1];
        while row_of[column] != 0 {
            visited[column] = true;
            let from = row_of[column];
            let (mut step, mut next) = (i64::MAX, 0);
            for other in (1..=size).filter(|&other| !visited[other]) {
                let reduced =
                    cost(from - 1, other - 1) - row_potential[from] - column_potential[other];
                if reduced < least[other] {
                    least[other] = reduced;
                    previous[other] = column;
                }
                if least[other] < step {
                    step = least[other];
                    next = other;
                }
            }
            for other in 0..=size {
                if visited[other] {
                    row_potential[row_of[other]] += step;
                    column_potential[other] -= step;
                } else if least[other] < i64::MAX {
                    least[other] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            let before = previous[column];
            row_of[column] = row_of[before];
            column = before;
        }
    }
    row_of[1..].iter().map(|&row| row - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_best_total_wins_over_the_best_pair() {
        // 0-0 alone gains 10, but 0-1 with 1-0 gains 16.
        assert_eq!(assign(&[10, 8, 8, 1], 2, 2), [Some(1), Some(0)]);
    }

    #[test]
    fn rows_and_columns_without_gain_stay_unassigned() {
        assert_eq!(assign(&[0, 5], 1, 2), [Some(1)]);
        assert_eq!(assign(&[0, 5], 2, 1), [None, Some(0)]);
        assert_eq!(assign(&[], 0, 0), []);
    }

    /// The largest total gain of all assignments, by exhaustive search.
    fn best(gain: &[i64], columns: usize, row: usize, taken: u32) -> i64 {
        if row * columns >= gain.len() {
            return 0;
        }
        let unassigned = best(gain, columns, row + 1, taken);
        (0..columns)
            .filter(|column| taken & 1 << column == 0)
            .map(|column| {
                gain[row * columns + column] + best(gain, columns, row + 1, taken | 1 << column)
            })
            .fold(unassigned, i64::max)
    }

    proptest! {
        #[test]
        fn no_assignment_gains_more(
            rows in 1_usize..5,
            columns in 1_usize..5,
            gains in prop::collection::vec(0_i64..20, 16),
        ) {
            let gain = &gains[..rows * columns];
            let assigned = assign(gain, rows, columns);
            let pairs = assigned.iter().enumerate();
            let total: i64 = pairs
                .filter_map(|(row, column)| column.map(|column| gain[row * columns + column]))
                .sum();
            prop_assert_eq!(total, best(gain, columns, 0, 0));
        }
    }
}
