//! Any text as a name: demangling ends, and only the empty name becomes empty.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| {
    let names = allotrope_demangle::demangle(name);
    assert_eq!(names.function.is_empty(), name.is_empty(), "{name:?}");
});
