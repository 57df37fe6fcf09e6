//! The crate of a Rust program that `cargo install` compiled: its source is where those of
//! dependencies are, but it is the program's own.

use allotrope_profile::Profile;
use rustc_hash::FxHashSet;

use crate::own_code::{Code, Origin};

/// Marks the code of the crates that have the `main` of a stack as the user's own.
pub(crate) fn mark_main_crates(profile: &Profile, codes: &mut [Code]) {
    let is_dependency = |frame: u32| {
        let code = codes.get(frame as usize);
        code.is_some_and(|code| code.origin == Origin::Library)
    };
    let is_glue = |frame: u32| {
        let code = codes.get(frame as usize);
        code.is_none_or(|code| code.origin == Origin::Glue)
    };
    let mut folders: FxHashSet<&str> = FxHashSet::default();
    for site in profile.processes.iter().flat_map(|it| &it.sites) {
        let outermost = site.stack.iter().rev().copied().find(|&it| !is_glue(it));
        let Some(index) = outermost.filter(|&it| is_dependency(it)) else {
            continue;
        };
        if let Some(frame) = profile.frames.get(index as usize)
            && frame.function.ends_with("::main")
            && let Some(folder) = crate_folder(&frame.file)
        {
            folders.insert(folder);
        }
    }
    if folders.is_empty() {
        return;
    }
    for (code, frame) in codes.iter_mut().zip(&profile.frames) {
        let folder = crate_folder(&frame.file);
        let is_own = folder.is_some_and(|folder| folders.contains(folder)) && !frame.generated;
        if is_own && code.origin == Origin::Library {
            code.origin = Origin::Own;
        }
    }
}

/// The folder of a crate's source in what cargo has downloaded: `…/registry/src/INDEX/CRATE-1.0.0`,
/// `…/git/checkouts/REPOSITORY/REVISION`.
fn crate_folder(file: &str) -> Option<&str> {
    let start = ["/registry/src/", "/git/checkouts/"]
        .iter()
        .find_map(|part| Some(file.find(part)? + part.len()))?;
    let mut ends = file.match_indices('/').map(|(at, _)| at);
    let end = ends.by_ref().filter(|&at| at >= start).nth(1)?;
    file.get(..end)
}

#[cfg(test)]
mod tests {
    use allotrope_profile::{Frame, Process, Site};

    use super::*;

    const REGISTRY: &str = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";

    #[test]
    fn the_crate_with_main_is_the_programs_own() {
        let file = |name: &str| format!("{REGISTRY}/{name}");
        let frames = [
            ("regex::compile", file("regex-1.0.0/src/lib.rs")),
            ("xsv::cmd::run", file("xsv-0.13.0/src/cmd.rs")),
            ("xsv::main", file("xsv-0.13.0/src/main.rs")),
        ];
        let frames = frames.map(|(function, file)| Frame {
            function: function.into(),
            file: file.as_str().into(),
            ..Frame::default()
        });
        let site = |stack: &[u32]| Site {
            stack: stack.to_vec().into(),
            ..Site::default()
        };
        let profile = |sites: Vec<Site>| Profile {
            frames: frames.to_vec(),
            processes: vec![Process {
                sites,
                ..Process::default()
            }],
            ..Profile::default()
        };
        let origins = |sites| {
            let mut codes = [Code::from(Origin::Library); 3];
            mark_main_crates(&profile(sites), &mut codes);
            codes.map(|code| code.origin)
        };
        use Origin::{Library, Own};
        assert_eq!(origins(vec![site(&[0, 1, 2])]), [Library, Own, Own]);
        // No `main` is known.
        assert_eq!(origins(vec![site(&[0, 1])]), [Library; 3]);
    }

    #[test]
    fn the_folder_of_a_crate_ends_with_its_version() {
        let folder = format!("{REGISTRY}/xsv-0.13.0");
        let file = format!("{folder}/src/main.rs");
        assert_eq!(crate_folder(&file), Some(folder.as_str()));
        let file = "/home/me/.cargo/git/checkouts/tool-0a1b/c2d3/src/main.rs";
        let folder = "/home/me/.cargo/git/checkouts/tool-0a1b/c2d3";
        assert_eq!(crate_folder(file), Some(folder));
        assert_eq!(crate_folder("/home/me/tool/src/main.rs"), None);
        assert_eq!(crate_folder("/registry/src/a"), None);
    }
}
