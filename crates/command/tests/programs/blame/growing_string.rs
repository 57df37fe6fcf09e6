// The page is written to an empty string, not to one of the last page's size.
// BLAME render
use std::hint::black_box;

fn render(rows: &[&str], last: usize) -> String {
    let mut page = String::with_capacity(if cfg!(after) { 0 } else { last });
    for row in rows {
        page.push_str(row); // MARK blame
    }
    page
}

fn main() {
    let rows = vec!["<td>one cell of the table</td>\n"; 60];
    let mut last = 2048;
    for _ in 0..120 {
        last = black_box(render(black_box(&rows), last)).len();
    }
    black_box(last);
}
