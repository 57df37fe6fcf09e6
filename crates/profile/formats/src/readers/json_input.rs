//! Bounded parsing of untrusted JSON: strings have a maximum length, lists are
//! processed element by element, errors have a line number.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::marker::PhantomData;

use allotrope_profile::Metric;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

use crate::budget::check_depth;
use crate::error::{Fault, Location, Problem};
use crate::format::Format;
use crate::lines::MAX_LINE;

/// A reader that fails at a string that is too long. serde_json would store such a string
/// completely.
struct BoundedStrings<'a> {
    input: &'a mut dyn BufRead,
    /// The length of the current string; `None` outside of strings.
    string: Option<usize>,
    escaped: bool,
}

impl BoundedStrings<'_> {
    /// Updates the state by a byte; an error if the current string is too long.
    fn check(&mut self, byte: u8) -> io::Result<()> {
        let Some(length) = self.string else {
            if byte == b'"' {
                self.string = Some(0);
            }
            return Ok(());
        };
        self.string = if byte == b'"' && !self.escaped {
            None
        } else {
            Some(length + 1)
        };
        self.escaped = byte == b'\\' && !self.escaped;
        if length > MAX_LINE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a string is longer than {MAX_LINE} bytes"),
            ));
        }
        Ok(())
    }
}

impl Read for BoundedStrings<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        for byte in &buffer[..read] {
            self.check(*byte)?;
        }
        Ok(read)
    }
}

/// Reads the object in a file into `visitor`.
pub(super) fn read_object<V>(
    input: &mut dyn BufRead,
    format: Format,
    visitor: V,
) -> Result<(), Fault>
where
    V: for<'de> Visitor<'de, Value = ()>,
{
    let bounded = BoundedStrings {
        input,
        string: None,
        escaped: false,
    };
    let buffered = io::BufReader::with_capacity(256 << 10, bounded);
    let mut json = serde_json::Deserializer::from_reader(buffered);
    let value = (&mut json)
        .deserialize_map(visitor)
        .and_then(|value| json.end().map(|()| value));
    value.map_err(|error| Fault {
        location: if error.line() > 0 {
            Location::Line(error.line() as u64)
        } else {
            Location::Whole
        },
        problem: Problem::Malformed {
            format,
            what: without_location(&error),
        },
    })
}

/// The message without serde_json's " at line 3 column 5".
fn without_location(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let own = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&own).unwrap_or(&text);
    format!("{what} (column {})", error.column())
}

/// Calls a function for each element of a list.
pub(super) struct Each<T, F> {
    take: F,
    element: PhantomData<T>,
}

impl<T, F> Each<T, F>
where
    F: FnMut(T) -> Result<(), Problem>,
{
    pub fn new(take: F) -> Self {
        Self {
            take,
            element: PhantomData,
        }
    }
}

impl<'de, T, F> DeserializeSeed<'de> for Each<T, F>
where
    T: DeserializeOwned,
    F: FnMut(T) -> Result<(), Problem>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T, F> Visitor<'de> for Each<T, F>
where
    T: DeserializeOwned,
    F: FnMut(T) -> Result<(), Problem>,
{
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.take)(element).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Deserializes the frame indexes of one stack, up to the maximum depth.
pub(super) fn stack<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let mut frames = Vec::new();
    Each::new(|frame: u32| {
        frames.push(frame);
        check_depth(frames.len())
    })
    .deserialize(deserializer)?;
    Ok(frames)
}

/// Deserializes figures, at most one for each metric.
pub(super) fn stack_figures<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u64>, D::Error> {
    let most = Metric::OF_STACKS.len();
    let mut figures = Vec::with_capacity(most);
    Each::new(|figure: u64| {
        figures.push(figure);
        if figures.len() > most {
            return Err(Problem::TooMuch {
                what: "figures of one stack",
                limit: most as u64,
            });
        }
        Ok(())
    })
    .deserialize(deserializer)?;
    Ok(figures)
}
