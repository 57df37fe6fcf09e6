//! Source text of this machine, around a line that a report names.

use std::fmt::Write as _;
use std::path::Path;

use allotrope_text::shown_with_tabs;

/// Largest source file that is read.
const MAX: u64 = 16 << 20;
/// Lines before and after the line.
const AROUND: u32 = 2;

/// The lines of a source file; `None` if it is not here.
pub(crate) fn lines(file: &str) -> Option<Vec<String>> {
    let path = Path::new(file);
    let text = allotrope_files::read_stored_text(path, MAX);
    let text = text.ok().filter(|_| path.is_absolute())?;
    Some(text.lines().map(str::to_owned).collect())
}

/// The line and those around it, with their numbers; `None` if the file or the line is not here.
pub(crate) fn excerpt(file: &str, line: u32) -> Option<String> {
    let lines = lines(file)?;
    let last = u32::try_from(lines.len()).ok()?;
    let first = line.saturating_sub(AROUND).max(1);
    if line == 0 || line > last {
        return None;
    }
    let mut text = String::new();
    for number in first..=line.saturating_add(AROUND).min(last) {
        let mark = match number == line {
            true => '>',
            false => ' ',
        };
        let source = shown_with_tabs(&lines[number as usize - 1]);
        let _ = writeln!(text, "{mark} {number:>5}  {source}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_marks_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.c");
        std::fs::write(&file, "a\nb\nc\nd\n").unwrap();
        let file = file.to_str().unwrap();
        let expected = "      1  a\n>     2  b\n      3  c\n      4  d\n";
        assert_eq!(excerpt(file, 2).as_deref(), Some(expected));
        for line in [0, 5] {
            assert_eq!(excerpt(file, line), None);
        }
        assert_eq!(excerpt("/no/such/file.c", 1), None);
        assert_eq!(excerpt("a.c", 1), None);
    }
}
