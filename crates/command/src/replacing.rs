//! Which existing files commands replace: those that they wrote themselves, recognised by how they
//! begin, and with `--force` all regular files. `allotrope-files` decides what may be written to at
//! all. `docs/exports.md` lists the kinds of files.

use std::path::Path;

use allotrope_files::{Kept, Target};
use allotrope_text::{Shown, shown_path};
use allotrope_trace::MAGIC;
use anyhow::{Context, Result, bail};

/// The option of the commands that write files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ForceArguments {
    /// Replace files that allotrope did not write
    ///
    /// Also files of another user.
    #[arg(long, hide_short_help = true)]
    pub force: bool,
}

/// A kind of file.
#[derive(Clone, Copy)]
pub struct Kind<'a> {
    /// What an earlier one is called.
    pub what: &'static str,
    /// Whether a file that begins so is one of them. The bytes may end anywhere.
    pub is_own: &'a dyn Fn(&[u8]) -> bool,
}

impl std::fmt::Debug for Kind<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.what)
    }
}

/// A trace.
pub const TRACE: Kind<'static> = Kind {
    what: "trace",
    is_own: &|head| head.starts_with(&MAGIC),
};

/// A sampled profile, which has the format of a trace.
pub const PROFILE: Kind<'static> = Kind {
    what: "earlier profile or recording",
    is_own: TRACE.is_own,
};

/// A page of `report`, `diff` or `allocators`.
pub const PAGE: Kind<'static> = Kind {
    what: "earlier page",
    is_own: &allotrope_page::is_page,
};

/// A flame graph of `report` or `diff`.
pub const FLAME_GRAPH: Kind<'static> = Kind {
    what: "earlier flame graph",
    is_own: &allotrope_report::flame_graph::is_flame_graph,
};

/// Fails if the file at this path is none that may be written to or replaced. Without `force`, an
/// existing one must be empty or of this kind, and belong to this user. `remedy`: what to do
/// then, such as `name another file`.
pub fn target(path: &Path, kind: Kind<'_>, force: bool, remedy: &str) -> Result<Target> {
    let cannot = || format!("cannot write {}", path.shown());
    let target = Target::of(path).with_context(cannot)?;
    if force {
        return Ok(target);
    }
    match target.kept(kind.is_own).with_context(cannot)? {
        None => Ok(target),
        Some(Kept::Strangers) => bail!("{} belongs to another user; {remedy}", path.shown()),
        Some(Kept::Foreign) => bail!("{} is no {}; {remedy}", path.shown(), kind.what),
    }
}

/// The remedy of commands with [`ForceArguments`].
pub const REMEDY: &str = "name another file, or replace it with --force";

/// The target of a path, if a trace may be written there: no file yet, an empty
/// file or an earlier trace of this user; with `force` any regular file.
pub fn replaceable(given: &Path, force: bool) -> Result<Target> {
    let remedy = "name another file by -o, or replace it with --force";
    regular(given, "trace", target(given, TRACE, force, remedy))
}

/// Same as [`replaceable`], for a sampled profile, which has the format of a trace.
pub fn replaceable_by_profile(given: &Path, force: bool) -> Result<Target> {
    regular(given, "profile", target(given, PROFILE, force, REMEDY))
}

/// Same as [`replaceable_by_profile`], where there are no options.
pub fn replaceable_by_profile_only(given: &Path) -> Result<Target> {
    regular(
        given,
        "profile",
        target(given, PROFILE, false, "name another file"),
    )
}

/// The target, if it can be renamed to.
fn regular(given: &Path, what: &str, target: Result<Target>) -> Result<Target> {
    match target? {
        Target::Stream(_) => bail!(
            "the {what} cannot be written to {}, which is no regular file",
            shown_path(given)
        ),
        target => Ok(target),
    }
}
