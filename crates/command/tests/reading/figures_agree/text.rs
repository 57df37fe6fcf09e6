//! Figures as text has them: `4,000,000`, `3.8 MiB`, `50.0 %`.

/// The number that text begins with, with commas between thousands.
pub fn count(text: &str) -> Option<u64> {
    let digits = text
        .trim_start()
        .split(|c: char| !c.is_ascii_digit() && c != ',');
    digits.into_iter().next()?.replace(',', "").parse().ok()
}

/// Whether `text` is a rounded form of so many bytes: one digit after the point.
pub fn is_bytes(text: &str, bytes: u64) -> bool {
    let mut words = text.split_whitespace();
    let (Some(number), Some(unit)) = (words.next(), words.next()) else {
        return text.trim() == "–" && bytes == 0;
    };
    let Ok(number) = number.replace(',', "").parse::<f64>() else {
        return false;
    };
    let unit = match unit.trim_end_matches(',') {
        "B" => return number == bytes as f64,
        "KiB" => 1_u64 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return false,
    };
    (number * unit as f64 - bytes as f64).abs() <= 0.0501 * unit as f64
}

/// The lines of a block of text that begins with a line, up to an empty one, without it.
pub fn block<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| line.trim() != title);
    lines.skip(1).take_while(|line| !line.is_empty()).collect()
}

/// The cells of a line of a table: two spaces or more are between them.
pub fn cells(line: &str) -> Vec<&str> {
    let cells = line.split("  ").map(str::trim);
    cells.filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn figures_are_read() {
    assert_eq!(count("4,000,000 blocks"), Some(4_000_000));
    assert_eq!(count("x"), None);
    assert!(is_bytes("3.8 MiB", 4_000_000) && !is_bytes("3.9 MiB", 4_000_000));
    assert!(is_bytes("9 B", 9) && !is_bytes("9 B", 10));
    assert_eq!(
        cells("  leaked  3  100.0 %  9 B"),
        ["leaked", "3", "100.0 %", "9 B"]
    );
    assert_eq!(block("a\nTotals\n x\n y\n\nz", "Totals"), [" x", " y"]);
}
