//! A test in Python that opens its windows through ctypes, with the code of the
//! client's README.

use crate::project::Project;
use crate::support::skip;

/// The README's Python code without its example of use.
fn client() -> String {
    let readme = include_str!("../../../target/client/README.md");
    let (_, block) = readme.split_once("```python\n").expect("it is there");
    let (block, _) = block.split_once("with window(").expect("it shows the use");
    block.to_owned()
}

#[test]
fn windows_are_opened_through_ctypes() {
    if !crate::support::is_installed("python3") {
        return skip("install Debian's python3");
    }
    let project = Project::new(
        "[tests.parse]\ncommand = [\"python3\", \"parse.py\"]\n\
         tolerance = { allocations = \"±20\" }\n",
    );
    // Python itself takes nearly all its memory from arenas of its own; the blocks
    // that count are the 1000 and 2000 of malloc.
    let uses = "\
malloc = recorder.malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
free = recorder.free
free.restype, free.argtypes = None, [ctypes.c_void_p]
def parse(times):
    for _ in range(times):
        free(malloc(100))
parse(10)
with window(\"small\", 1000):
    parse(1000)
with window(\"large\", 2000):
    parse(2000)
";
    project.write("parse.py", &format!("{}{uses}", client()));
    project.accept();
    let budget = project.read("allotrope-budgets/parse.toml");
    let numbers: Vec<u64> = budget
        .lines()
        .filter_map(|line| line.strip_prefix("allocations = ")?.parse().ok())
        .collect();
    let &[large, small] = &numbers[..] else {
        panic!("two cases in {budget}");
    };
    assert!((1000..1100).contains(&small), "{budget}");
    assert!((2000..2100).contains(&large), "{budget}");
    project
        .test(&[])
        .ok()
        .has("ok    parse/large")
        .has("ok    parse/small");
    project.replace("parse.py", "range(times)", "range(times + 100)");
    project
        .test(&[])
        .code(3)
        .has("FAIL  parse/large")
        .has("FAIL  parse/small");
}
