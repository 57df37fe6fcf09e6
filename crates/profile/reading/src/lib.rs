//! Reading what Allotrope and other tools wrote: recordings, sampled profiles, and files of
//! stacks in any format that `allotrope-formats` knows.
//!
//! A [`Reader`] opens files within limits and reports to an [`Observer`]. A [`Recording`] is open
//! and makes profiles: of all of it, of a window, of what was live at a [`Moment`]. A [`Source`]
//! is the stacks of a file with their sums, whatever its format. Nothing is printed, and no
//! process is ended: errors are sentences ([`ReadingError`]).
//!
//! ```text
//!  Reader ──open──▶ Recording ──▶ Profile, Selection
//!    │                  ▲
//!    │                  │ if it is a recording
//!    └──stacks──────▶ Source ──▶ StackSet
//! ```
//!
//! The function that allocated most, and its bytes:
//!
//! ```
//! use std::path::Path;
//!
//! use allotrope_reading::{Reader, ReadingError};
//!
//! fn top_site(path: &Path) -> Result<Option<(String, u64)>, ReadingError> {
//!     let mut recording = Reader::default().open(path)?;
//!     let profile = recording.profile()?;
//!     let sites = profile.processes.iter().flat_map(|process| &process.sites);
//!     let top = sites.max_by_key(|site| site.allocated_bytes);
//!     Ok(top.map(|site| {
//!         // The first frame of a stack is the innermost one.
//!         let frame = site.stack.first().and_then(|&frame| profile.frames.get(frame as usize));
//!         let function = frame.map_or("", |frame| &*frame.function);
//!         (function.to_owned(), site.allocated_bytes)
//!     }))
//! }
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("empty.allotrope");
//! # allotrope_trace::TraceWriter::new(std::fs::File::create(&path)?)?.finish()?;
//! # assert_eq!(top_site(&path)?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod moment;
mod naming;
mod observer;
mod reader;
mod recording;
mod source;
mod stacks;
mod window;

pub use error::ReadingError;
pub use moment::{Moment, split, time};
pub use naming::{FETCHING, NAMING, naming, show_naming};
pub use observer::Observer;
pub use reader::{Reader, is_growing};
pub use recording::{Recording, Selection, Wanted, recorded_at};
pub use source::{RecordedSource, Source, WindowRuns};
