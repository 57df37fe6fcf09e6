//! Whether a module was compiled with optimisation, as far as the recording or its folder says:
//! rustc writes no options into the debug information, but the folder of Cargo's profile shows
//! whether it optimises.

use std::path::Path;

use allotrope_profile::Module;

/// The folder of the Cargo profile in which a module is: `debug`, `release`, or one with
/// the name of another profile. Cargo puts a file `.cargo-lock` into these folders.
pub(super) fn cargo_profile(module: &Path) -> Option<&str> {
    // In it, in `deps` or `examples`, or in `build/PACKAGE`.
    let mut folders = module.ancestors().skip(1).take(3);
    let folder = folders.find(|folder| folder.join(".cargo-lock").is_file())?;
    folder.file_name()?.to_str()
}

/// Whether a module was compiled with optimisation; `None` if nothing says so. Cargo's
/// profiles may be changed; their usual settings are assumed.
pub(super) fn is_optimised(module: &Module) -> Option<bool> {
    let by_profile = || match cargo_profile(&module.path)? {
        "debug" => Some(false),
        "release" => Some(true),
        _ => None,
    };
    let by_options = module.unoptimised.map(|unoptimised| !unoptimised);
    by_options.or_else(by_profile)
}
