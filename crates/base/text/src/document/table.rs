//! Tables, and their layout as text.

use super::Text;
use crate::numbers::count;
use crate::style::{Role, Style};
use crate::{columns, cut, shown};

/// Text of a cell gives way to numbers, but keeps so many columns.
const MIN_TEXT: usize = 4;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    pub(super) title: String,
    pub(super) is_right: bool,
    least: usize,
    cut: fn(&str, usize) -> String,
}

/// A column of texts, aligned at the left.
pub fn left(title: impl Into<String>) -> Column {
    Column {
        title: title.into(),
        is_right: false,
        least: 0,
        cut,
    }
}

/// A column of numbers, aligned at the right.
pub fn right(title: impl Into<String>) -> Column {
    Column {
        is_right: true,
        ..left(title)
    }
}

impl Column {
    /// The column is not narrower, whatever is in it.
    pub fn at_least(self, columns: usize) -> Self {
        Self {
            least: columns,
            ..self
        }
    }

    /// The column takes what the others leave.
    pub fn filling(self) -> Self {
        self.at_least(usize::MAX)
    }

    /// How a text is cut to a number of columns; otherwise by [`cut`](crate::cut).
    pub fn cut_by(self, cut: fn(&str, usize) -> String) -> Self {
        Self { cut, ..self }
    }
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<(Role, Vec<Text>)>,
    /// What was left out: `3 more`.
    pub(super) more: String,
    indent: usize,
    gap: usize,
}

impl Table {
    /// A table without rows. Titles that are all empty are not printed.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            more: String::new(),
            indent: 2,
            gap: 2,
        }
    }

    /// Columns before each line, two otherwise.
    pub fn indent(self, columns: usize) -> Self {
        Self {
            indent: columns,
            ..self
        }
    }

    /// Columns between two cells, two otherwise.
    pub fn gap(self, columns: usize) -> Self {
        Self {
            gap: columns,
            ..self
        }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Text>>) {
        self.row_in(Role::Plain, cells);
    }

    /// Appends a row in the colour of a role.
    pub fn row_in(&mut self, role: Role, cells: impl IntoIterator<Item = impl Into<Text>>) {
        let cells = cells.into_iter().map(Into::into).collect();
        self.rows.push((role, cells));
    }

    /// The table with these rows.
    pub fn rows<T: Into<Text>>(
        mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = T>>,
    ) -> Self {
        rows.into_iter().for_each(|row| self.row(row));
        self
    }

    /// The table with its first `most` rows, and the number of the others.
    pub fn top(mut self, most: usize) -> Self {
        if self.rows.len() > most {
            self.more = format!("{} more", count((self.rows.len() - most) as u64));
            self.rows.truncate(most);
        }
        self
    }

    /// The table with a line about what is not in it.
    pub fn more(self, more: impl Into<String>) -> Self {
        Self {
            more: more.into(),
            ..self
        }
    }

    /// The lines of the table: the titles, a line for each row, what was left out. A column
    /// without any text is left out.
    pub fn lines(&self, style: Style) -> Vec<String> {
        let widths = self.widths(&self.rows, style.columns());
        let mut lines = Vec::with_capacity(self.rows.len() + 2);
        if self.has_titles() {
            lines.push(self.titles_at(&widths, style));
        }
        let rows = self.rows.iter();
        lines.extend(rows.map(|(role, row)| self.line_at(*role, row, &widths, style)));
        if !self.more.is_empty() {
            let more = format!("  … {}", shown(&self.more));
            lines.push(cut(&more, style.columns()));
        }
        lines
    }

    /// The line of the titles, if the rows are not known yet: [`Column::at_least`] has the widths.
    pub fn titles(&self, style: Style) -> String {
        self.titles_at(&self.widths(&[], style.columns()), style)
    }

    /// The line of a row that the table does not have. Its numbers are not cut.
    pub fn line(&self, cells: impl IntoIterator<Item = impl Into<Text>>, style: Style) -> String {
        let row = [(Role::Plain, cells.into_iter().map(Into::into).collect())];
        let widths = self.widths(&row, style.columns());
        self.line_at(Role::Plain, &row[0].1, &widths, style)
    }

    fn has_titles(&self) -> bool {
        self.columns.iter().any(|column| !column.title.is_empty())
    }

    fn titles_at(&self, widths: &[usize], style: Style) -> String {
        let titles = self.columns.iter().map(|column| Text::from(&*column.title));
        let titles: Vec<Text> = titles.collect();
        self.line_at(Role::Title, &titles, widths, style)
    }

    /// The width of each column, so that lines have at most `width` columns: the widest texts
    /// give way first. Where that is not enough, the last column is left out if it is one of texts.
    fn widths(&self, rows: &[(Role, Vec<Text>)], width: usize) -> Vec<usize> {
        let natural = self.columns.iter().enumerate().map(|(at, column)| {
            let cells = rows.iter().filter_map(|(_, row)| row.get(at));
            let widest = cells.map(|cell| columns(&cell.shown())).max();
            let title = columns(&shown(&column.title));
            widest.unwrap_or(0).max(title).max(column.least)
        });
        let mut widths: Vec<usize> = natural.collect();
        let is_text: Vec<bool> = self.columns.iter().map(|it| !it.is_right).collect();
        let room = |widths: &[usize]| {
            let columns = widths.iter().filter(|width| **width > 0).count();
            width.saturating_sub(self.indent + self.gap * columns.saturating_sub(1))
        };
        let available = room(&widths);
        if !shrink(&mut widths, &is_text, MIN_TEXT, available) {
            if let ([_, .., last], [_, .., true]) = (&mut widths[..], &is_text[..]) {
                *last = 0;
            }
            let available = room(&widths);
            shrink(&mut widths, &vec![true; is_text.len()], 1, available);
        }
        widths
    }

    fn line_at(&self, role: Role, cells: &[Text], widths: &[usize], style: Style) -> String {
        let mut line = String::new();
        // Not written yet: there are none at the end of a line.
        let mut blanks = self.indent;
        let columns_of = self.columns.iter().zip(widths);
        let printed = columns_of.zip(cells).filter(|((_, width), _)| **width > 0);
        for ((column, &width), cell) in printed {
            let (text, used) = column.fit(cell, width, style, role);
            let pad = width.saturating_sub(used);
            if used > 0 {
                let before = blanks + if column.is_right { pad } else { 0 };
                line.extend(std::iter::repeat_n(' ', before));
                line.push_str(&text);
                blanks = if column.is_right { 0 } else { pad };
            } else {
                blanks = blanks.saturating_add(width);
            }
            blanks = blanks.saturating_add(self.gap);
        }
        style.paint(role, &line)
    }
}

impl Column {
    /// A cell in the colours of its pieces, unless the row has one, and its columns.
    fn fit(&self, cell: &Text, width: usize, style: Style, row: Role) -> (String, usize) {
        let text = cell.shown();
        let used = columns(&text);
        let paints = style.color && row == Role::Plain;
        if used <= width {
            let painted = cell.0.iter();
            let painted = painted.map(|(role, piece)| style.paint(*role, &shown(piece)));
            return (if paints { painted.collect() } else { text }, used);
        }
        let text = (self.cut)(&text, width);
        let used = columns(&text);
        match paints {
            true => (style.paint(cell.role(), &text), used),
            false => (text, used),
        }
    }
}

/// Limits the chosen columns to the largest common width with which all of them fit the room, but
/// to no less than `least`. Whether they fit.
fn shrink(widths: &mut [usize], chosen: &[bool], least: usize, room: usize) -> bool {
    let limited = |limit: usize| {
        let both = widths.iter().zip(chosen);
        both.map(move |(&width, &chosen)| if chosen { width.min(limit) } else { width })
    };
    let fits = |limit: usize| limited(limit).fold(0, usize::saturating_add) <= room;
    if fits(usize::MAX) {
        return true;
    }
    let limit = (least..=room).rev().find(|&limit| fits(limit));
    let narrow: Vec<usize> = limited(limit.unwrap_or(least)).collect();
    widths.copy_from_slice(&narrow);
    limit.is_some()
}
