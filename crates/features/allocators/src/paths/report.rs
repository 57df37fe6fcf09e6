//! What `allotrope paths` prints and saves: `allotrope-paths/1`.

use std::collections::HashSet;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::replay::EnvironmentRow;

/// The format's name and number.
pub const FORMAT: &str = "allotrope-paths/1";
/// What the name of each version's format begins with.
const FORMATS: &str = "allotrope-paths/";
/// Largest saved report that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;
/// Largest value of a count: what 64 bits hold.
const MAX: f64 = 18_446_744_073_709_551_616.0;
/// Largest error of a sum of rounded numbers, relative to its value.
const ROUNDING: f64 = 1e-9;

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// The recording, as it was named.
    pub recording: String,
    /// Operations of the recording.
    pub recorded_operations: u64,
    /// One of so many of them was stepped.
    pub every: u64,
    /// The environment of the replay; `None` in reports of versions that had a fixed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRow>,
    /// The allocators, in the order given.
    pub allocators: Vec<Allocator>,
}

/// An allocator's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocator {
    /// Name of the allocator as it was given.
    pub name: String,
    /// Path of the allocator's library; empty for the C library of the replayer.
    pub library: String,
    /// How often the same operations were stepped.
    pub runs: u32,
    /// Operations stepped in each run.
    pub operations: u64,
    /// Operations that were too long to be stepped to their end.
    pub cut: u64,
    /// All operations together: `all`; then each entry point.
    pub instructions: Vec<Instructions>,
    /// Instructions by entry point and size.
    pub size_classes: Vec<SizeClass>,
    /// The paths of each entry point, those with most instructions first.
    pub paths: Vec<Path>,
    /// What the allocator calls outside its own code, and system calls and locked
    /// instructions of its own.
    pub callees: Vec<Callee>,
    /// Source lines, those with most instructions first.
    pub lines: Vec<Line>,
    /// Sentences, each with its evidence.
    pub findings: Vec<String>,
}

/// Instructions of an entry point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// `malloc`, …, or `all`.
    pub entry_point: String,
    /// Operations in each run.
    pub operations: u64,
    /// Mean of all runs, an operation.
    pub mean: f64,
    /// The lowest mean of a run.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Half of the operations need at most so many.
    pub median: u64,
    /// 99 of 100 need at most so many.
    pub p99: u64,
    /// Locked instructions, an operation.
    pub locked: f64,
    /// System calls, an operation.
    pub system_calls: f64,
}

impl Instructions {
    /// The spread of the runs relative to their mean; 0 if they are identical.
    pub fn spread(&self) -> f64 {
        match self.mean > 0.0 {
            true => (self.high - self.low) / self.mean,
            false => 0.0,
        }
    }
}

/// Instructions by size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The entry point.
    pub entry_point: String,
    /// Sizes up to this one, and above half of it, in bytes; the first class is up to 16.
    pub up_to_bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Instructions an operation.
    pub mean: f64,
    /// Median of the instructions of an operation.
    pub median: u64,
}

/// Operations that executed the same functions in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The entry point.
    pub entry_point: String,
    /// Functions in the order of their first instruction.
    pub functions: Vec<Function>,
    /// Operations.
    pub operations: u64,
    /// Share of the operations of the entry point, 0 to 1.
    pub share_of_operations: f64,
    /// Instructions an operation.
    pub instructions: f64,
    /// Share of the instructions of the entry point, 0 to 1.
    pub share_of_instructions: f64,
}

/// A function of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Name of the function. Without one, its distance from the nearest exported function or the
    /// start of its section, `malloc+0x340 (no symbol)`; `[.plt]` for the stubs of a linkage table.
    pub function: String,
    /// The source file of its first executed line; empty if unknown.
    pub file: String,
    /// The number of that line; 0 if unknown.
    pub line: u32,
    /// The file of its code.
    pub module: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
    /// Instructions of the function itself, an operation.
    pub instructions: f64,
}

/// What an allocator calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Callee {
    /// The function; `system call` or `locked instruction` for those of the allocator's own
    /// code.
    pub function: String,
    /// `environment`, `locale`, `string compare`, `lock`, `system call`, `memory` or `other`.
    pub kind: String,
    /// The allocator's function that calls it.
    pub caller: String,
    /// The source file of the call; empty if unknown.
    pub file: String,
    /// Line of the call; 0 if unknown.
    pub line: u32,
    /// Operations that call it, of all, 0 to 1.
    pub share_of_operations: f64,
    /// Share of all instructions that the function and what it calls execute, 0 to 1.
    pub share_of_instructions: f64,
    /// Both shares, of the operations and of the instructions of each entry point.
    pub entry_points: Vec<CalleeOfEntry>,
}

/// A callee's part of an entry point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalleeOfEntry {
    /// The entry point.
    pub entry_point: String,
    /// Share of the entry point's operations.
    pub share_of_operations: f64,
    /// Share of the entry point's instructions.
    pub share_of_instructions: f64,
}

/// A source line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The innermost function, inlined or not.
    pub function: String,
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Instructions, an operation (of all).
    pub instructions: f64,
    /// Share of all instructions, 0 to 1.
    pub share_of_instructions: f64,
}

/// Why a saved report cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// It is something else.
    #[error("it is no report of `allotrope paths`")]
    NotPaths,
    /// It was cut or changed.
    #[error("it is a damaged report of `allotrope paths`: {0}")]
    Damaged(String),
}

impl Report {
    /// Whether a file is a saved report: a JSON object whose `format` says so, in any order of
    /// its keys and with any blanks, as other programs write it. It may be cut after that.
    pub fn is_saved(file: impl Read) -> bool {
        let mut format = None;
        let mut json = serde_json::Deserializer::from_reader(file);
        // The error of what follows is that of `read`.
        let _ = FormatOf(&mut format).deserialize(&mut json);
        format.is_some_and(|it: String| it.starts_with(FORMATS))
    }

    /// Reads a saved report, which may be hostile.
    ///
    /// # Errors
    /// If it is none, of another version, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MAX_BYTES || !Self::is_saved(bytes) {
            return Err(ReadError::NotPaths);
        }
        let report: Self =
            serde_json::from_slice(bytes).map_err(|error| ReadError::Damaged(error.to_string()))?;
        if report.format != FORMAT {
            let sentence = format!("its format is {}, not {FORMAT}", report.format);
            return Err(ReadError::Damaged(sentence));
        }
        report.check().map_err(ReadError::Damaged)?;
        Ok(report)
    }

    /// Whether its numbers can be those of a replay. The error is a sentence.
    fn check(&self) -> Result<(), String> {
        if self.every == 0 {
            return Err("one of 0 operations was stepped".to_owned());
        }
        let mut names = HashSet::new();
        for allocator in &self.allocators {
            if !names.insert(&*allocator.name) {
                return Err(format!("it has {} twice", allocator.name));
            }
            let check = allocator.check();
            check.map_err(|error| format!("{}: {error}", allocator.name))?;
        }
        Ok(())
    }
}

impl Allocator {
    fn check(&self) -> Result<(), String> {
        // Two of them would pass each limit.
        if self.instructions.is_empty() {
            return Err("it has no instructions".to_owned());
        }
        let mut entry_points = HashSet::new();
        for row in &self.instructions {
            let entry = &row.entry_point;
            if !entry_points.insert(entry) {
                return Err(format!("it has {entry} twice"));
            }
            let numbers = [row.mean, row.low, row.high, row.locked, row.system_calls];
            numbers.into_iter().try_for_each(count)?;
            let slack = row.high * ROUNDING;
            if row.low > row.mean + slack || row.mean > row.high + slack {
                return Err(format!(
                    "the mean of {entry} is not between its lowest and its highest"
                ));
            }
        }
        let mut classes = HashSet::new();
        for class in &self.size_classes {
            count(class.mean)?;
            if !classes.insert((&class.entry_point, class.up_to_bytes)) {
                return Err(format!(
                    "it has {} up to {} bytes twice",
                    class.entry_point, class.up_to_bytes
                ));
            }
        }
        for path in &self.paths {
            let functions = path.functions.iter().map(|it| it.instructions);
            functions.chain([path.instructions]).try_for_each(count)?;
            share(path.share_of_operations)?;
            share(path.share_of_instructions)?;
        }
        for callee in &self.callees {
            share(callee.share_of_operations)?;
            share(callee.share_of_instructions)?;
            for entry in &callee.entry_points {
                share(entry.share_of_operations)?;
                share(entry.share_of_instructions)?;
            }
        }
        for line in &self.lines {
            count(line.instructions)?;
            share(line.share_of_instructions)?;
        }
        Ok(())
    }
}

fn count(number: f64) -> Result<(), String> {
    match (0.0..MAX).contains(&number) {
        true => Ok(()),
        false if number < 0.0 => Err("a number is negative".to_owned()),
        false => Err("a number is too large".to_owned()),
    }
}

fn share(number: f64) -> Result<(), String> {
    match (0.0..=1.0 + ROUNDING).contains(&number) {
        true => Ok(()),
        false => Err("a share is not between 0 and 1".to_owned()),
    }
}

/// Reads the text `format` of an object, and nothing after it.
struct FormatOf<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for FormatOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FormatOf<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "format" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_refused() {
        for bytes in [
            &b""[..],
            b"{}",
            b"ALLOTROPE",
            b"{\"format\":\"allotrope-cpu/1\"}",
        ] {
            assert_eq!(Report::read(bytes), Err(ReadError::NotPaths));
        }
        let cut = br#"{"format":"allotrope-paths/1","recording":"x"#;
        assert!(matches!(Report::read(cut), Err(ReadError::Damaged(_))));
        let other = br#"{"format":"allotrope-paths/2","recording":"x","recorded_operations":1,"every":1,"allocators":[]}"#;
        let error = Report::read(other).unwrap_err();
        assert!(error.to_string().contains("allotrope-paths/2"), "{error}");
    }

    /// The report is read as jq and other programs write it.
    #[test]
    fn neither_blanks_nor_the_order_of_keys_matter() {
        let empty = Report {
            format: FORMAT.to_owned(),
            recording: "x".to_owned(),
            recorded_operations: 1,
            every: 1,
            environment: None,
            allocators: Vec::new(),
        };
        for text in [
            "{\n  \"format\": \"allotrope-paths/1\",\n  \"recording\": \"x\", \"recorded_operations\": 1, \"every\": 1, \"allocators\": []}",
            " \n{\"allocators\":[],\"every\":1,\"format\" : \"allotrope-paths/1\",\"recorded_operations\":1,\"recording\":\"x\"}\n",
        ] {
            assert_eq!(Report::read(text.as_bytes()).as_ref(), Ok(&empty), "{text}");
        }
        let nested = r#"{"recording":{"format":"allotrope-paths/1"}}"#;
        assert_eq!(Report::read(nested.as_bytes()), Err(ReadError::NotPaths));
    }

    /// An allocator whose `free` calls `f` and takes one path.
    fn allocator() -> Allocator {
        let instructions = Instructions {
            entry_point: "all".to_owned(),
            operations: 10,
            mean: 2.0,
            low: 1.0,
            high: 3.0,
            median: 2,
            p99: 3,
            locked: 0.0,
            system_calls: 0.0,
        };
        let class = SizeClass {
            entry_point: "free".to_owned(),
            up_to_bytes: 16,
            operations: 10,
            mean: 2.0,
            median: 2,
        };
        let path = Path {
            entry_point: "free".to_owned(),
            functions: Vec::new(),
            operations: 10,
            share_of_operations: 1.0,
            instructions: 2.0,
            share_of_instructions: 1.0,
        };
        let callee = Callee {
            function: "f".to_owned(),
            kind: "other".to_owned(),
            caller: "free".to_owned(),
            file: String::new(),
            line: 0,
            share_of_operations: 1.0,
            share_of_instructions: 0.5,
            entry_points: Vec::new(),
        };
        Allocator {
            name: "a".to_owned(),
            library: String::new(),
            runs: 2,
            operations: 10,
            cut: 0,
            instructions: vec![instructions],
            size_classes: vec![class],
            paths: vec![path],
            callees: vec![callee],
            lines: Vec::new(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn impossible_numbers_are_damage() {
        type Change = fn(&mut Report);
        let cases: [(Change, &str); 11] = [
            (
                |it| it.allocators[0].instructions.clear(),
                "a: it has no instructions",
            ),
            (|it| it.every = 0, "one of 0"),
            (|it| it.allocators.push(allocator()), "it has a twice"),
            (
                |it| {
                    let row = it.allocators[0].instructions[0].clone();
                    it.allocators[0].instructions.push(row);
                },
                "a: it has all twice",
            ),
            (
                |it| {
                    let class = it.allocators[0].size_classes[0].clone();
                    it.allocators[0].size_classes.push(class);
                },
                "free up to 16 bytes twice",
            ),
            (|it| it.allocators[0].instructions[0].low = 2.5, "between"),
            (|it| it.allocators[0].instructions[0].high = 1.5, "between"),
            (
                |it| it.allocators[0].instructions[0].locked = -1.0,
                "negative",
            ),
            (|it| it.allocators[0].size_classes[0].mean = 1e300, "large"),
            (
                |it| it.allocators[0].paths[0].share_of_operations = 1.5,
                "share",
            ),
            (
                |it| it.allocators[0].callees[0].share_of_instructions = -0.5,
                "share",
            ),
        ];
        let report = Report {
            format: FORMAT.to_owned(),
            recording: "x".to_owned(),
            recorded_operations: 100,
            every: 10,
            environment: None,
            allocators: vec![allocator()],
        };
        let read = |report: &Report| Report::read(&serde_json::to_vec(report).unwrap());
        assert_eq!(read(&report).as_ref(), Ok(&report));
        for (change, sentence) in cases {
            let mut changed = report.clone();
            change(&mut changed);
            match read(&changed) {
                Err(ReadError::Damaged(found)) => assert!(found.contains(sentence), "{found}"),
                other => panic!("{sentence}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_report_survives_being_saved() {
        let report = Report {
            format: FORMAT.to_owned(),
            recording: "x".to_owned(),
            recorded_operations: 3,
            every: 1,
            environment: None,
            allocators: Vec::new(),
        };
        let saved = serde_json::to_vec(&report).unwrap();
        assert_eq!(Report::read(&saved), Ok(report));
    }

    /// Two reports are the same only if what was saved is read to the last digit.
    #[test]
    fn numbers_survive_being_saved() {
        let row = |at: u32| Instructions {
            entry_point: "all".to_owned(),
            operations: 1,
            mean: f64::from(at) / 7.0,
            low: f64::from(at) / 11.0,
            high: f64::from(at).sqrt(),
            median: 1,
            p99: 1,
            locked: 0.1 * f64::from(at),
            system_calls: 1.0 / f64::from(at),
        };
        for at in 1..10_000 {
            let saved = serde_json::to_string(&row(at)).unwrap();
            let read: Instructions = serde_json::from_str(&saved).unwrap();
            assert_eq!(read, row(at), "{saved}");
        }
    }
}
