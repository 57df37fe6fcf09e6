//! The allocators that a command line names. What cannot be used is said before anything is
//! measured, which takes minutes.

use std::borrow::Cow;

use allotrope_allocators::Pair;
use allotrope_allocators::replay::allocators::{self, BASIC, Candidate, check};

use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::message;
use anyhow::anyhow;

/// The allocators to measure.
pub struct Candidates {
    all: Vec<Candidate>,
    /// Those of which it was said that they cannot be used.
    said: Vec<String>,
}

impl Candidates {
    /// Those of the command line. A sentence is printed for each one that cannot be used.
    ///
    /// # Errors
    /// If none can be used: there is nothing to measure.
    pub fn of(words: &[String]) -> Result<Self, Failure> {
        let mut all = match words.is_empty() {
            true => allocators::installed_ones(),
            false => allocators::allocators(words),
        };
        for (allocator, error) in &mut all {
            let library = allocator.library.as_deref().filter(|_| error.is_none());
            *error = error
                .take()
                .or_else(|| library.and_then(|it| check(it, &BASIC).err()));
        }
        let unusable = all.iter().filter_map(|(allocator, error)| {
            let why = format!("cannot be used: {}", error.as_ref()?);
            Some((allocator.name.clone(), why))
        });
        let unusable: Vec<(String, String)> = unusable.collect();
        if unusable.len() == all.len() {
            let mut sentences = sentences(unusable.iter().map(|(name, why)| (&**name, why)));
            let last = sentences.pop().unwrap_or_default();
            sentences.iter().for_each(message::print);
            return Err(Failure::new(BAD_INPUT, anyhow!(last)));
        }
        print(unusable.iter().map(|(name, why)| (&**name, why)));
        let said = unusable.into_iter().map(|(name, _)| name).collect();
        Ok(Self { all, said })
    }

    /// All that are named, or those that are installed if none is; afterwards there are none.
    pub fn take(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.all)
    }

    /// Prints a sentence for each earlier version that cannot be used.
    pub fn say_earlier(&mut self, earlier: &[Pair]) {
        for (name, (allocator, error)) in earlier {
            let library = allocator.library.as_deref();
            let why = match error {
                Some(error) => error.to_string(),
                None => match library.and_then(|it| check(it, &BASIC).err()) {
                    Some(error) => error.to_string(),
                    None => continue,
                },
            };
            message::print(format_args!(
                "{name}: the earlier version cannot be used: {why}"
            ));
            self.said.push(format!("{name}:"));
        }
    }

    /// Prints a sentence for each reason why further allocators were not measured; returns the exit
    /// status.
    pub fn refuse<'a>(
        &self,
        refused: impl Iterator<Item = (impl Into<Cow<'a, str>>, &'a String)>,
    ) -> u8 {
        let refused = refused.map(|(name, why)| (name.into(), why));
        let is_new = |(name, _): &(Cow<'a, str>, &String)| !self.said.iter().any(|it| it == name);
        match print(refused.filter(is_new)) && self.said.is_empty() {
            true => FINE,
            false => BAD_INPUT,
        }
    }
}

/// Prints the sentences; returns whether there are none.
fn print<'a>(refused: impl Iterator<Item = (impl Into<Cow<'a, str>>, &'a String)>) -> bool {
    let sentences = sentences(refused);
    sentences.iter().for_each(message::print);
    sentences.is_empty()
}

/// A sentence for each reason.
fn sentences<'a>(
    refused: impl Iterator<Item = (impl Into<Cow<'a, str>>, &'a String)>,
) -> Vec<String> {
    // One machine often refuses all of them for one reason.
    let mut reasons: Vec<(&String, Vec<Cow<'a, str>>)> = Vec::new();
    for (name, why) in refused {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name.into()),
            None => reasons.push((why, vec![name.into()])),
        }
    }
    let reasons = reasons.iter().map(|(why, names)| {
        // The reasons are those of one.
        let why = match why.strip_prefix("was ") {
            Some(rest) if names.len() > 1 => format!("were {rest}"),
            _ => (*why).clone(),
        };
        format!("{} {why}", names.join(", "))
    });
    reasons.collect()
}
