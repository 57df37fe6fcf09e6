//! The environment of a process image: what a look-up in it costs, and no values.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::ImageId;

/// Largest number of bytes of an environment, with one more for each entry. Linux lets
/// arguments and environment of a program have no more than 6 MiB together (execve(2)).
pub const MAX_ENVIRONMENT: u64 = 6 << 20;

/// The environment with which an image began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The image.
    pub image: ImageId,
    /// The variables in their order, without what the recording added.
    pub variables: Vec<Variable>,
}

/// A variable of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variable {
    /// Bytes of its name.
    pub name_bytes: u32,
    /// Its name, if the recording keeps names (`record --environment-names`).
    pub name: Option<OsString>,
    /// Bytes of its value; `None` for an entry without `=`, which is all name.
    pub value_bytes: Option<u32>,
}

impl Environment {
    /// Number of bytes of all entries, each with the zero byte at its end.
    pub fn bytes(&self) -> u64 {
        let entries = self.variables.iter().map(|it| {
            let value = it.value_bytes.map_or(0, |bytes| u64::from(bytes) + 1);
            u64::from(it.name_bytes) + value + 1
        });
        entries.sum()
    }

    /// Why no process can have this environment.
    pub(crate) fn inconsistency(&self) -> Option<&'static str> {
        if self.bytes() > MAX_ENVIRONMENT {
            return Some("an environment is larger than a process can have");
        }
        let mut names = self.variables.iter().filter_map(|it| it.name.as_ref());
        let is_bad = |name: &OsString| name.as_bytes().iter().any(|&it| matches!(it, 0 | b'='));
        names
            .any(is_bad)
            .then_some("the name of an environment variable has a `=` or a zero byte in it")
    }
}
