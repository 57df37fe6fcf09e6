//! Reads and writes the file `TEST.toml`: one number per line, so that a code review
//! shows which one changed, and two branches conflict only in a number that both changed.
//!
//! ```toml
//! allocations = 1000
//! bytes = { least = 48000, typical = 48064, most = 48512, runs = 10, because = "a cache" }
//! ```
//!
//! What a person has added to the file (comments, the order of its lines) is preserved.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use super::{Budget, BudgetError, BudgetScope, Number, check_merged};
use crate::spread::Spread;
use allotrope_profile::Metric;

const FORMAT: &str = "allotrope-budgets/1";

/// How numbers are written.
const FORMS: &str = "write a number as `5`, one with a reason as `{ number = 5, because = \"…\" }`, \
                     one that fluctuates as `{ least = 4, typical = 5, most = 6, runs = 10 }`";

/// All budgets of a test.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) shared: Option<Section>,
    pub(super) platforms: BTreeMap<String, Section>,
}

/// The budgets of one platform, or of all.
#[derive(Debug)]
pub(super) struct Section {
    /// The fingerprint of the toolchain.
    pub(super) toolchain: String,
    pub(super) cases: BTreeMap<String, Budget>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    format: toml::Spanned<String>,
    shared: Option<SectionForm>,
    #[serde(default)]
    platforms: BTreeMap<String, SectionForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SectionForm {
    #[serde(rename = "made-with")]
    toolchain: String,
    #[serde(default)]
    cases: BTreeMap<String, BTreeMap<toml::Spanned<String>, toml::Value>>,
}

impl Numbers {
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, BudgetError> {
        check_merged(text, file)?;
        let form: FileForm = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(text, file, at, error.message().replace('\n', "; "))
        })?;
        if form.format.get_ref() != FORMAT {
            let problem = format!(
                "the format is {}, but this version reads {FORMAT}",
                form.format.get_ref()
            );
            return Err(invalid(text, file, form.format.span().start, problem));
        }
        let section = |form: SectionForm| -> Result<Section, BudgetError> {
            let mut cases = BTreeMap::new();
            for (name, lines) in form.cases {
                cases.insert(name, budget(lines, text, file)?);
            }
            Ok(Section {
                toolchain: form.toolchain,
                cases,
            })
        };
        let platforms = form.platforms.into_iter();
        Ok(Self {
            shared: form.shared.map(section).transpose()?,
            platforms: platforms
                .map(|(name, form)| Ok((name, section(form)?)))
                .collect::<Result<_, BudgetError>>()?,
        })
    }

    pub(super) fn section(&self, scope: &BudgetScope) -> Option<&Section> {
        match scope {
            BudgetScope::Shared => self.shared.as_ref(),
            BudgetScope::Platform(name) => self.platforms.get(name),
        }
    }
}

/// Whether a text is that of such a file: it can be read, or its first line after comments and the
/// marks of a merge conflict is that of the format, of this version or another.
pub(super) fn is_ours(text: &str) -> bool {
    const MARKS: [&str; 4] = ["<<<<<<< ", "||||||| ", "=======", ">>>>>>> "];
    let is_above = |line: &&str| {
        let is_mark = MARKS.iter().any(|mark| line.starts_with(mark));
        line.trim().is_empty() || line.starts_with('#') || is_mark
    };
    let first = text.lines().find(|line| !is_above(line));
    let is_format = first.is_some_and(|line| {
        let value = line.strip_prefix("format").map(str::trim_start);
        let value = value.and_then(|rest| rest.strip_prefix('='));
        value.is_some_and(|value| value.trim().starts_with("\"allotrope-budgets/"))
    });
    is_format || Numbers::parse(text, Path::new("")).is_ok()
}

/// The text of the file after the budgets of a platform were replaced. `before` is its
/// text until then; one that is no TOML is not preserved. `header` is the comment at the
/// beginning of a new file.
pub(super) fn edited(
    before: Option<&str>,
    header: &str,
    scope: &BudgetScope,
    section: &Section,
) -> String {
    let old = before.and_then(|text| {
        let numbers = Numbers::parse(text, Path::new("")).ok()?;
        Some((text.parse::<DocumentMut>().ok()?, numbers))
    });
    let (mut document, numbers) = old.unwrap_or_else(|| (new_document(header), Numbers::default()));
    let none = BTreeMap::new();
    let before = numbers
        .section(scope)
        .map_or(&none, |section| &section.cases);
    let root = document.as_table_mut();
    let table = match scope {
        BudgetScope::Shared => subtable(root, "shared", false),
        BudgetScope::Platform(name) => subtable(subtable(root, "platforms", true), name, false),
    };
    set(table, "made-with", section.toolchain.as_str().into());
    let cases = subtable(table, "cases", true);
    cases.retain(|case, _| section.cases.contains_key(case));
    for (case, budget) in &section.cases {
        let new = !cases.contains_key(case);
        let old = before.get(case).filter(|_| !new);
        edit_case(subtable(cases, case, false), old, budget);
        if new {
            cases.sort_values();
        }
    }
    document.to_string()
}

fn new_document(header: &str) -> DocumentMut {
    let mut document = DocumentMut::new();
    document.insert("format", FORMAT.into());
    if let Some(mut key) = document.key_mut("format") {
        key.leaf_decor_mut().set_prefix(header);
    }
    document
}

/// The table with this name, which is created if there is none. An implicit table has no
/// header of its own.
fn subtable<'a>(table: &'a mut Table, name: &str, implicit: bool) -> &'a mut Table {
    let item = table.entry(name).or_insert(Item::None);
    if !item.is_table() {
        // The parser accepts a table between braces, too.
        let mut new = std::mem::take(item).into_table().unwrap_or_default();
        new.set_implicit(implicit);
        *item = Item::Table(new);
    }
    match item {
        Item::Table(table) => table,
        _ => unreachable!("it was made one"),
    }
}

fn edit_case(table: &mut Table, before: Option<&Budget>, budget: &Budget) {
    if before.is_none_or(|before| before.iterations != budget.iterations) {
        match budget.iterations.map(i64::try_from) {
            Some(Ok(iterations)) => set(table, "iterations", iterations.into()),
            _ => drop(table.remove("iterations")),
        }
    }
    for metric in Metric::OF_RUNS {
        let number = budget.numbers.get(&metric);
        if before.is_some_and(|before| before.numbers.get(&metric) == number) {
            continue;
        }
        match number {
            Some(number) => set(table, metric.name(), value(number)),
            None => drop(table.remove(metric.name())),
        }
    }
}

/// The place of a key among those of a case.
fn order(key: &str) -> Option<usize> {
    let mut metrics = Metric::OF_RUNS.iter();
    metrics.position(|metric| metric.name() == key)
}

/// Sets a value; comments around the one before are preserved.
fn set(table: &mut Table, key: &str, mut value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(before) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        None => {
            table.insert(key, Item::Value(value));
            table.sort_values_by(|a, _, b, _| order(a).cmp(&order(b)));
        }
    }
}

fn value(number: &Number) -> Value {
    let spread = &number.spread;
    let mut table = InlineTable::new();
    if spread.is_exact() {
        if number.because.is_none() {
            return spread.least.into();
        }
        table.insert("number", spread.least.into());
    } else {
        table.insert("least", spread.least.into());
        table.insert("typical", spread.typical.into());
        table.insert("most", spread.most.into());
        table.insert("runs", i64::from(spread.runs).into());
    }
    if let Some(because) = &number.because {
        table.insert("because", because.as_str().into());
    }
    table.into()
}

fn budget(
    lines: BTreeMap<toml::Spanned<String>, toml::Value>,
    text: &str,
    file: &Path,
) -> Result<Budget, BudgetError> {
    let mut budget = Budget::default();
    for (name, value) in lines {
        let wrong = |problem: String| invalid(text, file, name.span().start, problem);
        let name = name.get_ref().as_str();
        if name == "iterations" {
            let iterations = value.as_integer().and_then(|value| value.try_into().ok());
            let iterations = iterations.ok_or_else(|| wrong("it must be a whole number".into()));
            budget.iterations = Some(iterations?);
            continue;
        }
        let metric = Metric::named(name, &Metric::OF_RUNS).ok_or_else(|| {
            let known = Metric::OF_RUNS.map(Metric::name).join(", ");
            wrong(format!("\"{name}\" is no metric; there are {known}"))
        })?;
        let number = number(&value).ok_or_else(|| wrong(format!("{name}: {FORMS}")))?;
        budget.numbers.insert(metric, number);
    }
    Ok(budget)
}

/// The number that a value stands for; `None` for any other value.
fn number(value: &toml::Value) -> Option<Number> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        number: Option<i64>,
        least: Option<i64>,
        typical: Option<i64>,
        most: Option<i64>,
        runs: Option<u32>,
        because: Option<String>,
    }
    if let Some(exact) = value.as_integer() {
        return Some(Spread::exact(exact).into());
    }
    let form: Form = value.clone().try_into().ok()?;
    let spread = match (form.number, form.least, form.typical, form.most, form.runs) {
        (Some(exact), None, None, None, None) => Spread::exact(exact),
        (None, Some(least), Some(typical), Some(most), Some(runs))
            if least <= typical && typical <= most && runs > 0 =>
        {
            Spread {
                least,
                typical,
                most,
                runs,
            }
        }
        _ => return None,
    };
    Some(Number {
        spread,
        because: form.because,
    })
}

/// An error at the byte `at` of `text`.
pub(super) fn invalid(text: &str, file: &Path, at: usize, problem: String) -> BudgetError {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    BudgetError::Invalid {
        file: file.to_owned(),
        line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
        problem,
    }
}

/// Quotes a text as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
