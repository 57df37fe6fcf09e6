//! Hostile modules with an index cache, and hostile indexes: loading and resolving end,
//! with one answer for each address.
//!
//! Input: a byte (0: the rest is a module; otherwise: an index for the build id
//! 01020304), then the file. Good seeds are a small program linked with
//! `-Wl,--build-id=0x01020304`, and its index.

#![no_main]

use allotrope_symbols::{FileIdentity, Ran, IndexCache, Locator, ModuleSymbols};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, file)) = input.split_first() else {
        return;
    };
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let cache = IndexCache::at(folder.path().join("cache")).with_least_size(0);
    let locator = Locator::new().with_index_cache(cache);
    let path = folder.path().join("module");
    let addresses: Vec<(u64, bool)> = (0x1000..0x1100).map(|address| (address, true)).collect();
    if *kind == 0 {
        if std::fs::write(&path, file).is_err() {
            return;
        }
        for _ in 0..2 {
            if let Ok(symbols) = ModuleSymbols::load(&locator, &path, &Ran::unverified(), None) {
                assert_eq!(symbols.resolve(&addresses).len(), addresses.len());
            }
        }
        return;
    }
    let index = folder.path().join("cache/01020304.1.index");
    let written =
        std::fs::create_dir(folder.path().join("cache")).and_then(|()| std::fs::write(index, file));
    if written.is_ok()
        && let Ok(symbols) = ModuleSymbols::load(&locator, &path, &Ran::new(&[1, 2, 3, 4], FileIdentity::default()), None)
    {
        assert_eq!(symbols.resolve(&addresses).len(), addresses.len());
    }
});
