//! `examples/cmake`: the same CTest project with Allotrope and without.

use crate::build_systems::example::Example;
use crate::support::{is_installed, skip};

const CONFIGURE: &[&str] = &[
    "cmake",
    "-S",
    ".",
    "-B",
    "build",
    // Else CMake would also find an Allotrope that is installed and not in PATH.
    "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
];
const BUILD: &[&str] = &["cmake", "--build", "build"];
const CTEST: &[&str] = &["ctest", "--test-dir", "build", "--output-on-failure"];

#[test]
fn without_allotrope_the_programs_are_ordinary_tests() {
    if !is_installed("cmake") {
        return skip("install Debian's cmake");
    }
    let example = Example::new("cmake");
    example.run(false, CONFIGURE).ok();
    example.run(false, BUILD).ok();
    example.worsen();
    example
        .run(false, CTEST)
        .ok()
        .has("split")
        .has("join")
        .has("out of 2");
    assert!(!example.folder().join("build/allotrope.toml").exists());
}

#[test]
fn with_allotrope_a_test_compares_what_they_allocate() {
    if !is_installed("cmake") {
        return skip("install Debian's cmake");
    }
    let example = Example::new("cmake");
    example.has_the_budgets_of_lines();
    example.run(true, CONFIGURE).ok();
    example.run(true, BUILD).ok();
    example
        .run(true, CTEST)
        .ok()
        .has("allotrope")
        .has("out of 3");
    example.worsen();
    example.run(true, BUILD).ok();
    // One allocation more in each of 1000 iterations.
    let red = example.run(true, CTEST).code(8).has("+1,000");
    let red = red
        .has("1 tests failed out of 3")
        .has("examples/cmake/src/lines.c:16");
    let again = red.after("Run again:");
    assert_eq!(
        again,
        "allotrope test --config examples/cmake/build/allotrope.toml split"
    );
    example
        .run(true, &["sh", "-c", &format!("cd ../..; {again}")])
        .code(3);
    let accept = ["cmake", "--build", "build", "--target", "allotrope-accept"];
    example.run(true, &accept).ok().has("6,000 → 7,000");
    example
        .run(
            true,
            &["cmake", "--build", "build", "--target", "allotrope"],
        )
        .ok();
}
