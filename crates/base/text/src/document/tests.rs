use proptest::prelude::*;

use super::*;
use crate::columns;

fn text_of(document: &Document, width: usize) -> String {
    let mut out = Vec::new();
    document.write_text(Style::plain(width), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn markdown_of(document: &Document) -> String {
    let mut out = Vec::new();
    document.write_markdown(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Names of all kinds of width, and a long one.
fn names() -> Vec<String> {
    vec![
        "plain".to_owned(),
        "漢字の名前".to_owned(),
        "crab 🦀, heart ❤\u{fe0f}, flag 🇩🇪".to_owned(),
        "family 👩\u{200d}👩\u{200d}👧".to_owned(),
        "a\u{301}ccents e\u{302}\u{323} ɑ\u{303}".to_owned(),
        "a_long_name::漢字<🦀>|".repeat(12),
    ]
}

/// A table with the names in its second column, between two columns of numbers.
fn table() -> Table {
    let rows = names()
        .into_iter()
        .zip([1_u64, 22, 333, 4_444, 55_555, 666_666]);
    let columns = [right("bytes"), left("name"), right("blocks")];
    Table::new(columns).rows(rows.map(|(name, number)| {
        let number = crate::numbers::count(number);
        [number.clone(), name, number]
    }))
}

#[test]
fn a_table_is_aligned_whatever_its_names() {
    for width in [80, 160] {
        let lines = table().lines(Style::plain(width));
        assert_eq!(lines.len(), 7);
        // The last column ends at the same column in each line: the longest name takes the rest.
        let ends: Vec<usize> = lines.iter().map(|line| columns(line)).collect();
        assert_eq!(ends, [width; 7], "{lines:#?}");
        // The names begin after the first column: two blanks, `666,666`, two blanks.
        for (line, name) in lines[1..].iter().zip(names()) {
            let start: String = crate::shown(&name).chars().take(4).collect();
            let at = line.find(&start).expect("the name");
            assert_eq!(columns(&line[..at]), 11, "{line}");
        }
        assert!(lines[6].contains('…'), "{}", lines[6]);
    }
}

#[test]
fn a_table_in_markdown_has_a_cell_for_each_column_and_whole_names() {
    let mut document = Document::default();
    document.table(table());
    let text = markdown_of(&document);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        ["| bytes | name | blocks |", "| ---: | --- | ---: |"]
    );
    assert_eq!(lines[3], "| 22 | 漢字の名前 | 22 |");
    assert_eq!(
        lines[4],
        "| 333 | crab 🦀, heart ❤\u{fe0f}, flag 🇩🇪 | 333 |"
    );
    // Characters that join others could hide a part of a name.
    assert_eq!(
        lines[5],
        r"| 4,444 | family 👩\\u{200d}👩\\u{200d}👧 | 4,444 |"
    );
    for line in &lines {
        let bars = line.replace("\\|", "").matches('|').count();
        assert_eq!(bars, 4, "{line}");
    }
    assert_eq!(lines[7].matches("漢字").count(), 12);
}

#[test]
fn numbers_stay_whole_where_texts_give_way() {
    let mut table = Table::new([left("name"), right("bytes"), left("place")]);
    table.row(["n".repeat(50), "1,234,567".to_owned(), "p".repeat(12)]);
    // Two blanks before each column: 40 - 6 - 9 are 25 for both texts.
    assert_eq!(
        table.lines(Style::plain(40))[1],
        format!("  {}…  1,234,567  {}", "n".repeat(12), "p".repeat(12))
    );
    assert_eq!(columns(&table.lines(Style::plain(80))[1]), 77);
}

#[test]
fn a_narrow_terminal_has_the_numbers_and_not_the_last_text() {
    let numbers = [(); 3].map(|()| right("1,234,567,890"));
    let table = Table::new(numbers.into_iter().chain([left("command")]));
    let [title] = &table.lines(Style::plain(48))[..] else {
        panic!("one line");
    };
    assert_eq!(title.trim_start(), ["1,234,567,890"; 3].join("  "));
    assert!(table.lines(Style::plain(52))[0].ends_with("  comm…"));
}

#[test]
fn columns_without_text_and_blanks_at_the_end_are_left_out() {
    let table = Table::new([left(""), right(""), left("")]).rows([["a", "", ""], ["bcd", "", "e"]]);
    assert_eq!(table.lines(Style::default()), ["  a", "  bcd  e"]);
    let top = Table::new([right("n")]).rows([["1"], ["2"], ["3"]]).top(1);
    assert_eq!(top.lines(Style::default()), ["  n", "  1", "  … 2 more"]);
}

#[test]
fn lines_can_be_written_before_all_rows_are_known() {
    let table = Table::new([right("time").at_least(6), left("thread").filling()]).indent(0);
    let style = Style::plain(40);
    assert_eq!(table.titles(style), "  time  thread");
    let line = table.line(["1.5 s".to_owned(), "x".repeat(50)], style);
    assert_eq!(line, format!(" 1.5 s  {}…", "x".repeat(31)));
    assert_eq!(table.line(["1234567 s", "x"], style), "1234567 s  x");
}

#[test]
fn colours_do_not_count_as_columns() {
    let style = Style {
        color: true,
        width: 80,
    };
    let mut table = Table::new([left(""), left("")]);
    table.row([Text::of(Role::Function, "f"), "a".into()]);
    table.row_in(Role::Title, ["long", "b"]);
    assert_eq!(
        table.lines(style),
        ["  \x1b[36mf\x1b[0m     a", "\x1b[1m  long  b\x1b[0m"]
    );
}

#[test]
fn names_are_no_markup() {
    let hostile = "a|b <script> `x` *y* [l](u)\n# z";
    let mut document = Document::default();
    document.heading(1, hostile);
    document.heading(2, hostile);
    document.text(hostile);
    document.table(Table::new([right("a"), left("b")]).rows([["1", hostile]]));
    document.commands(["x '```'".to_owned()]);
    document.folded("</summary> `a`", Document::default());
    let text = markdown_of(&document);
    assert!(!text.contains("<script>"), "{text}");
    assert!(text.contains("a\\|b"), "{text}");
    assert!(text.contains("````sh\n"), "{text}");
    assert!(
        text.contains("<summary>&lt;/summary> `a`</summary>"),
        "{text}"
    );
    // The line break is shown, so it begins no heading.
    assert_eq!(text.lines().filter(|it| it.starts_with('#')).count(), 2);
}

#[test]
fn code_is_code_in_sentences_and_cells() {
    let mut document = Document::default();
    document.text(
        Text::from("in ")
            .and(Role::Code, "a|b`c")
            .and(Role::Title, "*"),
    );
    document.numbered([Text::of(Role::Emphasis, "try <it>")]);
    document.table(Table::new([left("f")]).rows([[Text::of(Role::Function, "a|b`c")]]));
    assert_eq!(
        markdown_of(&document),
        "in ``` a|b`c ```**\\***\n\n1. *try &lt;it\\>*\n\n| f |\n| --- |\n| ``` a\\|b`c ``` |\n"
    );
}

#[test]
fn everything_fits_and_commands_can_be_pasted() {
    let long = "word ".repeat(40);
    let command = format!(
        "allotrope replay 'my app' --alloc {}",
        "x=./y.so ".repeat(9)
    );
    let mut document = Document::default();
    document.heading(1, &*long);
    document.heading(3, &*long);
    document.text("x".repeat(200));
    document.list([&*long]);
    let columns = [right("share"), left("function")];
    let rows = ["1".repeat(50), long.clone()];
    document.table(Table::new(columns).rows([rows]).more("3 more"));
    document.commands([command.clone()]);
    let text = text_of(&document, 80);
    assert!(text.lines().all(|it| it.chars().count() <= 80), "{text}");
    let joined = text.replace(" \\\n   ", "");
    assert!(joined.contains(command.trim_end()), "{joined}");
    assert!(text.contains("… 3 more"), "{text}");
}

#[test]
fn headings_are_marked_by_their_level() {
    let mut document = Document::default();
    document.heading(1, "title");
    document.heading(2, "漢字");
    document.heading(3, "part");
    document.warning("careful");
    document.numbered(["one"]);
    document.lines("a\tb\n\x1b[2J");
    assert_eq!(
        text_of(&document, 80),
        "title\n\n漢字\n====\n\n- part\n! careful\n1. one\na\tb\n\\x1b[2J\n"
    );
}

/// Any text, with many of the characters that could break a line or a layout.
fn any_text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "\n",
        "\r",
        "\t",
        "\x1b[2J",
        "\u{9b}",
        "\u{202e}",
        "\u{200d}",
        "漢字",
        "🦀",
        "👩\u{200d}👧",
        "e\u{301}",
        "|",
        "`",
        "```",
        "\\",
        " ",
        "##[",
        "::",
        "word",
        "❤\u{fe0f}",
    ]);
    let piece = prop_oneof![
        odd.prop_map(str::to_owned),
        any::<char>().prop_map(String::from)
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_line_is_too_wide_and_no_control_character_gets_through(
        texts in prop::collection::vec(any_text(), 12),
        width in 40_usize..200,
    ) {
        let mut document = Document::default();
        document.heading(1, &*texts[0]);
        // A command in backticks stays whole.
        document.heading(3, texts[1].replace('`', "'"));
        document.text(texts[2].replace('`', "'"));
        document.warning(texts[3].replace('`', "'"));
        document.list([texts[4].replace('`', "'")]);
        let columns = [right(&*texts[5]), left(&*texts[6]), left("").cut_by(crate::cut_middle)];
        document.table(Table::new(columns).rows([&texts[6..9], &texts[9..12]]).more(&*texts[0]));
        let text = text_of(&document, width);
        for line in text.lines() {
            prop_assert!(crate::columns(line) <= width, "{width}: {line}");
            prop_assert!(line.chars().all(crate::is_shown), "{line:?}");
        }
        // Each row has a cell for each column: bars of names are escaped.
        for line in markdown_of(&document).lines().filter(|line| line.starts_with("| ")) {
            let bars = line.replace("\\\\", "").replace("\\|", "").matches('|').count();
            prop_assert_eq!(bars, 4, "{}", line);
        }
        document.lines(&*texts[1]);
        document.folded(&*texts[2], document.clone());
        let markdown = markdown_of(&document);
        prop_assert!(markdown.chars().all(|c| matches!(c, '\n' | '\t') || crate::is_shown(c)));
    }
}
