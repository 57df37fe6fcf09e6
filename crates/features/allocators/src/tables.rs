//! Tables that more than one of the reports have.

use allotrope_text::document::{Table, left, right};
use allotrope_text::numbers::percent;

use crate::paths::compare::Row;
use crate::paths::report::{Callee, Line};

/// Source lines, with their shares of all instructions.
pub(crate) fn lines(lines: &[Line]) -> Table {
    let rows = lines.iter().map(|it| {
        [
            percent(it.share_of_instructions),
            format!("{:.2}", it.instructions),
            format!("{} {}", it.function, place(&it.file, it.line)),
        ]
    });
    Table::new([right("share"), right("instr/op"), left("line")]).rows(rows)
}

/// What an allocator calls, with shares of all operations and of all instructions.
pub(crate) fn callees(callees: &[Callee]) -> Table {
    let rows = callees.iter().map(|it| {
        let place = place(&it.file, it.line);
        let text = format!(
            "{} ({}), called by {} {place}",
            it.function, it.kind, it.caller
        );
        [
            percent(it.share_of_operations),
            percent(it.share_of_instructions),
            text.trim_end().to_owned(),
        ]
    });
    Table::new([right("of op"), right("of instr"), left("callee")]).rows(rows)
}

/// Instructions an operation before and after, of what `name` names.
pub(crate) fn changes(rows: &[Row], name: impl Fn(&Row) -> String) -> Table {
    let rows = rows.iter().map(|row| {
        [
            format!("{:.2}", row.before),
            format!("{:.2}", row.after),
            or_dash(row.change().map(|it| format!("{:+.2}%", it * 100.0))),
            format!("{:.2}", row.noise),
            name(row),
        ]
    });
    let numbers = ["before", "after", "change", "noise"].map(right);
    let columns = numbers.into_iter().chain([left("entry point")]);
    Table::new(columns).rows(rows)
}

/// A figure, or a dash if there is none.
pub(crate) fn or_dash(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "-".to_owned())
}

/// A file without its folders and a line; empty if they are unknown.
pub(crate) fn place(file: &str, line: u32) -> String {
    match (file, line) {
        ("", _) | (_, 0) => String::new(),
        (file, line) => format!("{}:{line}", base(file)),
    }
}

/// As [`place`]; the module if that is unknown.
pub(crate) fn named_place(file: &str, line: u32, module: &str) -> String {
    match place(file, line) {
        unknown if unknown.is_empty() => base(module).to_owned(),
        place => place,
    }
}

/// A path without its folders.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
