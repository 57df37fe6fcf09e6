//! A frame in our JSON formats.

use std::borrow::Cow;

use allotrope_trace::model::NamedFrame;
use serde::{Deserialize, Serialize};

use crate::named_frame::StackFrame;

/// The fields of a frame, in the order in which all formats write them. A line or column of 0
/// and an empty text mean unknown.
#[derive(Debug, Serialize, Deserialize)]
pub struct FrameForm<'a> {
    /// As in [`NamedFrame`].
    pub function: Cow<'a, str>,
    /// As in [`NamedFrame`].
    pub signature: Cow<'a, str>,
    /// The module's file name.
    pub module: Cow<'a, str>,
    /// As in [`NamedFrame`].
    pub file: Cow<'a, str>,
    /// As in [`NamedFrame`].
    pub line: u32,
    /// As in [`NamedFrame`].
    pub column: u32,
    /// `null` if unknown; some formats have 0 then.
    pub offset: Option<u64>,
    /// As in [`NamedFrame`].
    pub inlined: bool,
    /// As in [`NamedFrame`]; absent from some formats, or where it is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<bool>,
}

impl<'a> FrameForm<'a> {
    /// A frame as in `allotrope-stacks/1`.
    pub fn new<M>(frame: &'a NamedFrame<M>, module: Cow<'a, str>) -> Self {
        Self {
            function: Cow::Borrowed(&frame.function),
            signature: Cow::Borrowed(&frame.signature),
            module,
            file: Cow::Borrowed(&frame.file),
            line: frame.line,
            column: frame.column,
            offset: frame.offset,
            inlined: frame.inlined,
            generated: frame.generated.then_some(true),
        }
    }
}

impl From<FrameForm<'_>> for StackFrame {
    fn from(form: FrameForm<'_>) -> Self {
        Self {
            function: form.function.into(),
            signature: form.signature.into(),
            module: form.module.into(),
            file: form.file.into(),
            line: form.line,
            column: form.column,
            offset: form.offset,
            inlined: form.inlined,
            generated: form.generated.unwrap_or(false),
            allocates: None,
            interrupted: false,
        }
    }
}
