//! `record --allocator`: the allocators of a program's own that the user names. Whether the text makes
//! sense and the program has the functions is known before it starts.

use std::ffi::OsString;

use allotrope_detour::functions;
use allotrope_detour::named::{self, Error, Fault, MAX_ARGUMENT, MAX_FUNCTIONS};
use allotrope_preflight::named_functions::{self, Finding};
use allotrope_text::{Shown, shown};
use anyhow::anyhow;

use super::program::Program;
use crate::exit_status::{Failure, RECORD_FAILED};

/// The parser of an option's value.
pub fn parse(text: &str) -> Result<String, String> {
    if text.as_bytes().contains(&named::SEPARATOR) {
        return Err("it contains `;`: give each allocator an option of its own".to_owned());
    }
    match named::check(text.as_bytes()) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(sentence(&error)),
    }
}

fn sentence(error: &Error<'_>) -> String {
    let part = shown(&String::from_utf8_lossy(error.part)).to_string();
    match error.fault {
        Fault::Kind => format!(
            "`{part}` is none of alloc=NAME:SIZE, realloc=NAME:BLOCK:SIZE, free=NAME:BLOCK and \
             reset=NAME:OWNER"
        ),
        Fault::Name => {
            format!("`{part}` has no name of a function, as the program's symbols have it")
        }
        Fault::Arguments => format!(
            "`{part}` needs the numbers of the function's arguments behind its name: alloc=NAME:SIZE, \
             alloc=NAME:COUNT*SIZE, realloc=NAME:BLOCK:SIZE, free=NAME:BLOCK or reset=NAME:OWNER, \
             and @OWNER behind a size"
        ),
        Fault::Number => {
            format!(
                "`{part}`: arguments have numbers from 1 to {MAX_ARGUMENT}, which are in registers"
            )
        }
        Fault::Twice => format!("the function of `{part}` is named twice: leave one out"),
        Fault::NothingAllocates => {
            format!("`{part}` names no function that allocates: add alloc=NAME:SIZE")
        }
        Fault::SomeOwners => format!(
            "in `{part}` some functions have an owner (@) and others have none: add it, or give the \
             others an option of their own"
        ),
        Fault::NothingToReset => {
            format!(
                "`{part}` frees the blocks of an owner: add @OWNER to the functions that allocate"
            )
        }
        Fault::TooMany => format!("more than {MAX_FUNCTIONS} functions are named: leave some out"),
    }
}

/// The value of the variable for the program, and a warning; `None`: no allocator is named.
pub fn value(
    program: &Program,
    texts: &[String],
) -> Result<Option<(OsString, Option<String>)>, Failure> {
    let refused = |why: String| {
        let sentence = anyhow!("cannot record the allocator: {why}");
        Failure::new(RECORD_FAILED, sentence)
    };
    if texts.is_empty() {
        return Ok(None);
    }
    let value = texts.join(";");
    named::check(value.as_bytes()).map_err(|error| refused(sentence(&error)))?;
    let items: Vec<_> = named::all(value.as_bytes()).collect();
    let name = |at: usize| shown(&String::from_utf8_lossy(items[at].name)).to_string();
    let recorded = |at| refused(format!("{} is recorded without it: leave it out", name(at)));
    let is_standard = |known: functions::Known| known.is_standard();
    let mut known = items.iter().map(|item| functions::by_name(item.name));
    if let Some(at) = known.position(|known| known.is_some_and(is_standard)) {
        return Err(recorded(at));
    }
    let Some(files) = program.files() else {
        return Ok(Some((value.into(), None)));
    };
    let mut findings = vec![Finding::Missing; items.len()];
    for (at, file) in files.iter().enumerate() {
        let found = named_functions::of(file, at == 0, value.as_bytes()).unwrap_or_default();
        for (finding, found) in findings.iter_mut().zip(found) {
            *finding = finding.or(found);
        }
    }
    let image = files[0].shown();
    if findings.iter().all(|found| *found == Finding::Missing) {
        // It may start the program that is meant.
        let warning = format!(
            "{image} and the libraries that it loads at its start have no symbol of {}: only \
             programs that it starts are recorded with that allocator, if they have them",
            (0..items.len()).map(name).collect::<Vec<_>>().join(", ")
        );
        return Ok(Some((value.into(), Some(warning))));
    }
    for (at, finding) in findings.iter().enumerate() {
        let name = name(at);
        if *finding == Finding::Missing {
            return Err(refused(format!(
                "{image} and the libraries that it loads at its start have no function {name} in their \
                 symbol tables; check the name, or record a build that is not stripped"
            )));
        }
        if *finding == Finding::Recorded {
            return Err(recorded(at));
        }
        if let Some(why) = finding.why() {
            return Err(refused(format!(
                "{name} cannot be patched: {why}; leave it out, or name a function that calls it"
            )));
        }
    }
    Ok(Some((value.into(), None)))
}
