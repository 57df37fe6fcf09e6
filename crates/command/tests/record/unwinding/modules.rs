//! Modules that are loaded and unloaded: stacks lead through the right one, each time.

use std::path::PathBuf;

use crate::support::record;
use crate::unwinding::building::{build, c};
use crate::unwinding::truth;

fn plugin(name: &str) -> PathBuf {
    build("cc", "plugin.c")
        .flags([format!("-DNAME={name}")])
        .library(&format!("{name}.so"))
        .run()
}

fn check(case: &str, plugins: &[PathBuf]) {
    let program = c("opening.c");
    let recording = record(&program).arg(case).args(plugins).run().ok();
    truth::compare(&recording, &program, case);
}

/// Three libraries are loaded at one address in turn, 3,000 times.
#[test]
fn libraries_at_the_same_address() {
    check(
        "same_address",
        &["plugin_a", "plugin_b", "plugin_c"].map(plugin),
    );
}

#[test]
fn a_cxx_plugin_in_a_c_program() {
    let plugin = build("c++", "cxx_plugin.cc").library("plugin_cxx.so").run();
    check("cxx_plugin", &[plugin]);
}

/// The plugin has the whole C++ runtime in it: exceptions, `new` and their tables.
#[test]
fn a_cxx_plugin_with_a_runtime_of_its_own() {
    let plugin = build("c++", "cxx_plugin.cc")
        .flags(["-static-libstdc++", "-static-libgcc"])
        .library("plugin_cxx_alone.so")
        .run();
    check("cxx_plugin", &[plugin]);
}

/// Character sets and name services, which the C library opens and closes
/// without a `dlopen` of the program.
#[test]
fn modules_of_the_c_library() {
    check("library_modules", &["plugin_a", "plugin_b"].map(plugin));
}

#[test]
fn a_library_is_unloaded_while_another_thread_allocates() {
    check("beside_a_thread", &["plugin_a", "plugin_b"].map(plugin));
}

#[test]
fn a_library_is_unloaded_while_another_thread_uses_it() {
    check("in_two_threads", &[plugin("plugin_a")]);
}

#[test]
fn a_library_is_unloaded_while_its_frames_are_on_a_stack() {
    check("unloaded_beneath", &[plugin("plugin_a")]);
}

/// The loader calls a resolver that allocates, when its function is called
/// first.
#[test]
fn a_resolver_that_allocates() {
    let library = build("cc", "resolver_library.c")
        .library("plugin_resolver.so")
        .run();
    let library = library.to_str().expect("cargo's folder has an ASCII name");
    let program = build("cc", "resolver.c")
        .flags(["-Wl,-z,lazy", library])
        .run();
    truth::check(&program, "");
}

/// Resolvers that allocate while the loader relocates: before it has relocated
/// the recorder (the library's) and after (the program's).
#[test]
fn resolvers_that_allocate_while_the_program_is_loaded() {
    let library = build("cc", "resolver_library.c")
        .library("plugin_resolver.so")
        .run();
    let library = library.to_str().expect("cargo's folder has an ASCII name");
    let program = build("cc", "resolvers.c")
        .flags(["-Wl,-z,now", library])
        .run();
    truth::check(&program, "");
}
