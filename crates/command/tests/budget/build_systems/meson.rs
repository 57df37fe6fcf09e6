//! `examples/meson`: the same Meson project with Allotrope and without.

use crate::build_systems::example::Example;
use crate::support::{Text, is_installed, skip};

const SETUP: &[&str] = &["meson", "setup", "build"];
const TEST: &[&str] = &["meson", "test", "-C", "build", "--print-errorlogs"];

fn is_meson_there() -> bool {
    is_installed("meson") && is_installed("ninja")
}

#[test]
fn without_allotrope_the_programs_are_ordinary_tests() {
    if !is_meson_there() {
        return skip("install Debian's meson");
    }
    let example = Example::new("meson");
    example.run(false, SETUP).ok().has("allotrope found: NO");
    example.worsen();
    let green = example.run(false, TEST).ok();
    green.has("2/2").lacks("3/3 allotrope");
}

#[test]
fn with_allotrope_a_test_compares_what_they_allocate() {
    if !is_meson_there() {
        return skip("install Debian's meson");
    }
    let example = Example::new("meson");
    example.has_the_budgets_of_lines();
    example.run(true, SETUP).ok();
    example.run(true, TEST).ok().has("3/3");
    example.worsen();
    // One allocation more in each of 1000 iterations.
    example
        .run(true, TEST)
        .code(1)
        .has("+1,000")
        .has("allotrope test --config examples/meson/build/allotrope.toml split");
    let accept = ["meson", "compile", "-C", "build", "allotrope-accept"];
    example.run(true, &accept).ok();
    example.run(true, TEST).ok();
    let split = example.budget("split");
    split.has("allocations = 7000\n");
}
