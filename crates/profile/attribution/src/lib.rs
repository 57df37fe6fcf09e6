//! Attribution: whose code each frame of a profile is ([`Origin`]), which frame heads each of
//! its stacks ([`Headlines`]), and which leaked blocks are expected ([`Suppressions`]).
//! [`Attributed`] has a profile together with the first two.
//!
//! Nothing here changes what is counted. The lists are text files beside the code that reads
//! them: `glue.txt`, `wrappers.txt`, `suppressions.txt`. Users add to the first and the last.
//!
//! - `own_code`: origins by the paths of source files and the names of modules.
//! - `glue`, `names`: origins by patterns on function names, after normalising these.
//! - `generic_names`, `passing`, `wrappers`, `roots`: functions that say nothing about a stack.
//! - `heads`: which frame heads a stack in a list. Differences are headed by [`Heads`].
//! - `main_crate`: own code among what cargo downloaded.
//! - `block_types`: which types the names in a stack prove.
//! - `headlines`, `attributed`: all of this for the frames and stacks of one profile.
#![forbid(unsafe_code)]

mod attributed;
mod block_types;
mod error;
mod generic_names;
mod glue;
mod headlines;
mod heads;
mod main_crate;
pub mod names;
mod own_code;
mod passing;
mod roots;
mod suppressions;
mod wrappers;

pub use crate::attributed::Attributed;
pub use crate::block_types::BlockTypes;
pub use crate::error::ListError;
pub use crate::glue::Glue;
pub use crate::headlines::{Headlines, headline};
pub use crate::own_code::{Code, Origin};
pub use crate::roots::mark_roots;
pub use crate::suppressions::{FrameText, Matcher, Rule, Suppressions};
pub use crate::wrappers::{Heads, Requests, Standing, mark_forwarding};
