//! `examples/cmake`: the same CTest project with Allotrope and without.

use crate::build_systems::example::{Example, is_installed};
use crate::support::skip;

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
    example.run(false, CONFIGURE).expect(0);
    example.run(false, BUILD).expect(0);
    example.worsen();
    example
        .run(false, CTEST)
        .expect(0)
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
    example.run(true, CONFIGURE).expect(0);
    example.run(true, BUILD).expect(0);
    example
        .run(true, CTEST)
        .expect(0)
        .has("allotrope")
        .has("out of 3");
    example.worsen();
    example.run(true, BUILD).expect(0);
    // One allocation more in each of 1000 iterations.
    let red = example.run(true, CTEST).expect(8).has("+1,000");
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
        .expect(3);
    let accept = ["cmake", "--build", "build", "--target", "allotrope-accept"];
    example.run(true, &accept).expect(0).has("6,000 → 7,000");
    example
        .run(
            true,
            &["cmake", "--build", "build", "--target", "allotrope"],
        )
        .expect(0);
}
