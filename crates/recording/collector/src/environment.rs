//! The environment of a new image, for the trace: number, order and lengths of its variables,
//! and their names if the recording keeps them. Values are read and dropped here.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use allotrope_shm::layout::{ALLOCATORS_VARIABLE, ENVIRONMENT_VARIABLE};
use allotrope_trace::model::{Environment, ImageId, Variable};

use crate::process;

/// How the file names of the tool's libraries begin.
const PREFIX: &[u8] = b"liballotrope_";

/// What is kept of environments.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentOptions {
    /// Names are kept.
    pub(crate) names: bool,
    /// The preloaded recorder.
    pub(crate) recorder: PathBuf,
}

impl EnvironmentOptions {
    /// The environment with which the image in this process began; `None` if it cannot be
    /// read, or not all of it.
    pub(crate) fn read(&self, image: ImageId, pid: u32) -> Option<Environment> {
        let bytes = process::environment(pid)?;
        Some(self.parse(image, &bytes))
    }

    /// Parses entries, each of which ends with a zero byte.
    fn parse(&self, image: ImageId, bytes: &[u8]) -> Environment {
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let entries = bytes.split(|byte| *byte == 0);
        // No entry at all, which `split` returns as an empty one.
        let entries = entries.filter(|_| !bytes.is_empty());
        Environment {
            image,
            variables: entries.filter_map(|entry| self.variable(entry)).collect(),
        }
    }

    /// A variable as the program would have it without the recording.
    fn variable(&self, entry: &[u8]) -> Option<Variable> {
        let equals = entry.iter().position(|byte| *byte == b'=');
        let name = &entry[..equals.unwrap_or(entry.len())];
        let mut value_bytes = equals.map(|at| (entry.len() - at - 1) as u32);
        if [ENVIRONMENT_VARIABLE, ALLOCATORS_VARIABLE]
            .map(str::as_bytes)
            .contains(&name)
        {
            return None;
        }
        let is_preload = name == b"LD_PRELOAD";
        if is_preload && let Some(at) = equals {
            value_bytes = Some(self.users_preload(&entry[at + 1..])?);
        }
        Some(Variable {
            name_bytes: name.len() as u32,
            // A replay puts its allocator in the place of this one.
            name: (self.names || is_preload).then(|| OsString::from_vec(name.to_vec())),
            value_bytes,
        })
    }

    /// Length of the user's part of `LD_PRELOAD`; `None` if only the recording set it.
    fn users_preload(&self, list: &[u8]) -> Option<u32> {
        let separators = |byte: &u8| matches!(byte, b' ' | b':');
        let all = || list.split(separators).filter(|it| !it.is_empty());
        let is_own = |library: &&[u8]| {
            let name = library.rsplit(|byte| *byte == b'/').next();
            name.is_some_and(|name| name.starts_with(PREFIX))
                || Path::new(std::ffi::OsStr::from_bytes(library)) == self.recorder
        };
        if !all().any(|library| is_own(&library)) {
            return Some(list.len() as u32);
        }
        let lengths = all().filter(|it| !is_own(it)).map(|it| it.len() as u32);
        lengths.reduce(|sum, length| sum + 1 + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(environment: &Environment) -> Vec<(u32, Option<u32>)> {
        let variables = environment.variables.iter();
        variables
            .map(|it| (it.name_bytes, it.value_bytes))
            .collect()
    }

    #[test]
    fn order_and_lengths_are_kept_without_values() {
        let options = EnvironmentOptions::default();
        let read = options.parse(3, b"PATH=/bin\0EMPTY=\0odd\0=x=y\0PATH=/\0");
        assert_eq!(read.image, 3);
        let expected = [
            (4, Some(4)),
            (5, Some(0)),
            (3, None),
            (0, Some(3)),
            (4, Some(1)),
        ];
        assert_eq!(lengths(&read), expected);
        assert!(read.variables.iter().all(|it| it.name.is_none()));
        assert_eq!(options.parse(3, b"").variables, []);
        assert_eq!(lengths(&options.parse(3, b"\0")), []);
    }

    #[test]
    fn names_are_kept_on_request() {
        let options = EnvironmentOptions {
            names: true,
            ..EnvironmentOptions::default()
        };
        let read = options.parse(0, b"A=secret\0B\xff=\0");
        let names: Vec<_> = read
            .variables
            .into_iter()
            .filter_map(|it| it.name)
            .collect();
        assert_eq!(
            names,
            [OsString::from("A"), OsString::from_vec(b"B\xff".to_vec())]
        );
    }

    #[test]
    fn what_the_recording_added_is_left_out() {
        let options = EnvironmentOptions {
            names: false,
            recorder: "/opt/recorder.so".into(),
        };
        let of = |text: &[u8]| lengths(&options.parse(0, text));
        let arena = b"A=1\0LD_PRELOAD=/x/liballotrope_recorder-1.so\0ALLOTROPE_ARENA=secret\0";
        assert_eq!(of(arena), [(1, Some(1))]);
        assert_eq!(
            of(b"LD_PRELOAD=/opt/recorder.so:mine.so yours.so\0"),
            [(10, Some(16))]
        );
        // The list of a program that is not ours is as it was.
        assert_eq!(of(b"LD_PRELOAD=a.so::b.so\0"), [(10, Some(10))]);
        assert_eq!(of(b"LD_PRELOAD=\0"), [(10, Some(0))]);
    }
}
