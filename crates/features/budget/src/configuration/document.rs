//! A TOML document with typed access. Errors name file, line and key and, for
//! an unknown key, the most similar known one. The keys are defined in `read`.
//!
//! Not derived with serde: its errors lack the full key (`tests.encode.runs`) and the bounds of a
//! number, and half of the keys are checked against others. The spans are toml's.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigurationError;

/// The least similarity (Jaro-Winkler, 0 to 1) at which a known key is
/// proposed.
const MIN_SIMILARITY: f64 = 0.75;

/// A text and its byte range in the document.
pub(super) type Located = (String, Range<usize>);

type Entry<'a> = (&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

/// A table of the document.
pub(super) struct Section<'a> {
    document: Document<'a>,
    name: String,
    table: &'a DeTable<'a>,
    at: Range<usize>,
}

/// The text of the document and its file.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    text: &'a str,
    file: &'a Path,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, file: &'a Path) -> Self {
        Self { text, file }
    }

    pub(super) fn parse(self) -> Result<Spanned<DeTable<'a>>, ConfigurationError> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let problem = format!("this is no TOML: {}", error.message().replace('\n', "; "));
            self.error(at, "", problem)
        })
    }

    pub(super) fn root(self, table: &'a Spanned<DeTable<'a>>) -> Section<'a> {
        Section {
            document: self,
            name: String::new(),
            table: table.get_ref(),
            at: 0..0,
        }
    }

    fn error(self, at: usize, key: &str, problem: impl Into<String>) -> ConfigurationError {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        ConfigurationError::Invalid {
            file: self.file.to_owned(),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            key: key.to_owned(),
            problem: problem.into(),
        }
    }
}

impl<'a> Section<'a> {
    /// Fails for a key that is not in `known`.
    pub(super) fn reject_unknown_keys(&self, known: &[&str]) -> Result<(), ConfigurationError> {
        let unknown = self
            .entries()
            .into_iter()
            .find(|(key, _)| !known.contains(&&**key.get_ref()));
        let Some((key, _)) = unknown else {
            return Ok(());
        };
        let name = key.get_ref();
        let like = |other: &&str| strsim::jaro_winkler(name, other);
        let nearest = known.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
        let remedy = match nearest {
            Some(nearest) if like(nearest) >= MIN_SIMILARITY => {
                format!("did you mean `{nearest}`?")
            }
            _ => format!("the keys here are {}", known.join(", ")),
        };
        Err(self.error_at(key.span(), name, format!("there is no such key; {remedy}")))
    }

    /// The keys, in the order of the file.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let entries = self.entries().into_iter();
        entries.map(|(key, _)| -> &'a str { key.get_ref() })
    }

    /// The tables in this one, in the order of the file.
    pub(super) fn tables(&self) -> Result<Vec<(&'a str, Section<'a>)>, ConfigurationError> {
        let entries = self.entries().into_iter();
        entries
            .map(|(key, _)| {
                let name: &'a str = key.get_ref();
                let section = self
                    .table(name)?
                    .ok_or_else(|| self.error_at(key.span(), name, "it must be a table"))?;
                Ok((name, section))
            })
            .collect()
    }

    /// The table under a key of this one.
    pub(super) fn table(&self, key: &str) -> Result<Option<Section<'a>>, ConfigurationError> {
        self.with(key, "a table", |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
        .map(|found| {
            found.map(|(table, at)| Section {
                document: self.document,
                name: self.full(key),
                table,
                at,
            })
        })
    }

    /// The tables of a list, `[[like.this]]`.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Section<'a>>, ConfigurationError> {
        let expected = format!("a list of tables, [[{}]]", self.full(key));
        let found = self.with(key, &expected, |value| match value {
            DeValue::Array(array) => {
                let tables = array.iter().map(|item| match item.get_ref() {
                    DeValue::Table(table) => Some((table, item.span())),
                    _ => None,
                });
                tables.collect::<Option<Vec<_>>>()
            }
            _ => None,
        })?;
        let sections = found.map_or_else(Vec::new, |(tables, _)| tables);
        let section = |(table, at)| Section {
            document: self.document,
            name: self.full(key),
            table,
            at,
        };
        Ok(sections.into_iter().map(section).collect())
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ConfigurationError> {
        let found = self.with(key, "a text in quotes", |value| match value {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        })?;
        Ok(found.map(|(text, _)| text))
    }

    /// Whether the table has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Whether the value of a key is a text.
    pub(super) fn is_text(&self, key: &str) -> bool {
        let entry = self.entry(key);
        entry.is_some_and(|(_, value)| matches!(value.get_ref(), DeValue::String(_)))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigurationError> {
        let found = self.with(key, "true or false", |value| match value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => None,
        })?;
        Ok(found.map(|(flag, _)| flag))
    }

    /// A whole number within `bounds`.
    pub(super) fn number(
        &self,
        key: &str,
        bounds: Range<u64>,
    ) -> Result<Option<u64>, ConfigurationError> {
        let expected = format!("a whole number from {} to {}", bounds.start, bounds.end - 1);
        let found = self.with(key, &expected, |value| match value {
            DeValue::Integer(number) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
                bounds.contains(&number).then_some(number)
            }
            _ => None,
        })?;
        Ok(found.map(|(number, _)| number))
    }

    /// A list of texts, each with its byte range.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<Located>>, ConfigurationError> {
        let found = self.with(key, "a list of texts, [\"like\", \"this\"]", |value| {
            let DeValue::Array(array) = value else {
                return None;
            };
            let texts = array.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some((text.to_string(), item.span())),
                _ => None,
            });
            texts.collect()
        })?;
        Ok(found.map(|(texts, _)| texts))
    }

    /// The words of a command: a list or, if `shell` is set, a line for the
    /// shell.
    pub(super) fn words(
        &self,
        key: &str,
        shell: bool,
    ) -> Result<Option<Vec<String>>, ConfigurationError> {
        if let Some(entry) = self.entry(key)
            && let DeValue::String(line) = entry.1.get_ref()
        {
            if shell {
                return Ok(Some(vec!["sh".into(), "-c".into(), line.to_string()]));
            }
            let problem = "it must be a list of words, [\"./bench\", \"encode\"]: a shell in \
                           between would be measured too";
            return Err(self.value_error(key, problem));
        }
        let Some(words) = self.texts(key)? else {
            return Ok(None);
        };
        let words: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
        match words.first() {
            Some(program) if !program.is_empty() => Ok(Some(words)),
            _ => Err(self.value_error(key, "it must name a program")),
        }
    }

    /// An error at the value of a key.
    pub(super) fn value_error(&self, key: &str, problem: impl Into<String>) -> ConfigurationError {
        let at = self.entry(key).map(|(_, value)| value.span());
        self.error_at(at.unwrap_or_else(|| self.at.clone()), key, problem)
    }

    /// An error at a position within the value of a key.
    pub(super) fn error_at(
        &self,
        at: Range<usize>,
        key: &str,
        problem: impl Into<String>,
    ) -> ConfigurationError {
        self.document.error(at.start, &self.full(key), problem)
    }

    /// An error about the table as a whole.
    pub(super) fn table_error(&self, problem: impl Into<String>) -> ConfigurationError {
        self.document.error(self.at.start, &self.name, problem)
    }

    /// The full name of a key, like `tests.encode.runs`.
    fn full(&self, key: &str) -> String {
        match (self.name.as_str(), key) {
            ("", key) => key.to_owned(),
            (name, "") => name.to_owned(),
            (name, key) => format!("{name}.{key}"),
        }
    }

    /// The entries in the order of the file.
    fn entries(&self) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'a>> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    fn entry(&self, key: &str) -> Option<Entry<'a>> {
        self.table.iter().find(|(name, _)| &**name.get_ref() == key)
    }

    /// Reads the value of a key with `read`; fails if `read` refuses it.
    fn with<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<(T, Range<usize>)>, ConfigurationError> {
        let Some((_, value)) = self.entry(key) else {
            return Ok(None);
        };
        match read(value.get_ref()) {
            Some(read) => Ok(Some((read, value.span()))),
            None => Err(self.value_error(key, format!("it must be {expected}"))),
        }
    }
}

/// A path in the configuration: relative to `folder`, unless it is absolute.
pub(super) fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path)
}
