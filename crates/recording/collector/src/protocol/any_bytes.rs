//! JSON encoding of paths and arguments, which may contain any bytes: a string if the
//! bytes are UTF-8, otherwise an array of the bytes.
//!
//! For `#[serde(with = …)]` in `protocol`: this module for one value, [`optional`] for
//! an `Option`, [`many`] for a `Vec`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Text(String),
    Bytes(Vec<u8>),
}

fn written(value: &OsStr) -> Written<'_> {
    match value.to_str() {
        Some(text) => Written::Text(text),
        None => Written::Bytes(value.as_bytes()),
    }
}

fn read<T: From<OsString>>(value: Read) -> T {
    match value {
        Read::Text(text) => OsString::from(text),
        Read::Bytes(bytes) => OsString::from_vec(bytes),
    }
    .into()
}

pub(super) fn serialize<S: Serializer>(
    value: &impl AsRef<OsStr>,
    to: S,
) -> Result<S::Ok, S::Error> {
    written(value.as_ref()).serialize(to)
}

pub(super) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Read::deserialize(from).map(read)
}

pub(super) mod optional {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<impl AsRef<OsStr>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let value = value.as_ref().map(|value| written(value.as_ref()));
        value.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Read>::deserialize(from)?.map(read))
    }
}

pub(super) mod many {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        values: &[impl AsRef<OsStr>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| written(value.as_ref())))
    }

    pub(in super::super) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let values = Vec::<Read>::deserialize(from)?;
        Ok(values.into_iter().map(read).collect())
    }
}
