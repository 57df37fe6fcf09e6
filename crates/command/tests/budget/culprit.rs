//! Which line is responsible: the first one in this repository, with the library through
//! which it allocates beneath it. Annotations point to files that exist here.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::run;

/// A library in a header: 16 bytes for each time.
const LIBRARY: &str = "\
#include <cstdlib>
namespace jsonish {
template <class T> struct basic_parser {
    void *grow(std::size_t size) { return std::malloc(size); }
    void parse(int times) {
        for (int i = 0; i < times; i++) {
            std::free(grow(16));
        }
    }
};
}
";

const PROGRAM: &str = "\
#include \"jsonish.hpp\"

static void load() {
    jsonish::basic_parser<int> parser;
    parser.parse(100);
}

int main() { load(); }
";
/// Where the program calls the library.
const LINE: usize = 5;

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    let above = path.parent().expect("it is in the folder");
    std::fs::create_dir_all(above).expect("the folder is the test's");
    std::fs::write(path, text).expect("the folder is the test's");
}

/// A project whose program is built from `src/main.cpp` with the library's header in a
/// folder.
fn project(include: &str, glue: &str) -> Project {
    let project = Project::new("[tests.unused]\ncommand = [\"./bench\"]\n");
    let build = format!("c++ -g -O0 -isystem {include} -o app src/main.cpp");
    let configuration = format!(
        "build = \"{build}\"\n{glue}\n[defaults]\nruns = 2\n[tests.app]\ncommand = [\"./app\"]\n"
    );
    project.write("allotrope.toml", &configuration);
    write(project.folder(), "src/main.cpp", PROGRAM);
    project
}

/// Fails unless `load` is responsible for 50 more allocations.
#[track_caller]
fn check(project: &Project) {
    project.accept();
    project.replace("src/main.cpp", "parse(100)", "parse(150)");
    let text = project.test(&["--format", "github"]).code(3);
    let through = "through jsonish::basic_parser<int>::parse";
    let heading = "1. changed +50  load\n      ";
    text.has(format!("{heading}{through}\n"))
        .has(format!("src/main.cpp:{LINE}"))
        .has(format!("::error file=src/main.cpp,line={LINE},"))
        .has(format!("+50 in load {through}"));
    let json: Value = project.test(&["--format", "json"]).code(3).json();
    let entry = &json["tests"][0]["cases"][0]["responsible"][0]["entries"][0];
    assert_eq!(entry["blame"]["file"], "src/main.cpp");
    assert_eq!(entry["in_repository"], true);
    let called = &entry["through"]["function"];
    assert_eq!(called, "jsonish::basic_parser<int>::parse");
}

#[test]
fn a_library_outside_the_repository() {
    let library = tempfile::tempdir().expect("a temporary folder");
    write(library.path(), "jsonish.hpp", LIBRARY);
    let project = project(&library.path().display().to_string(), "");
    check(&project);
}

#[test]
fn a_vendored_library() {
    let project = project("third_party", "glue = [\"file:third_party/\"]");
    write(project.folder(), "third_party/jsonish.hpp", LIBRARY);
    check(&project);
    // Without the pattern, nothing distinguishes it from the project's own code.
    project.replace("allotrope.toml", "glue = ", "# ");
    project
        .test(&[])
        .code(3)
        .has("1. changed +50  jsonish::basic_parser<int>::grow");
}

#[test]
fn a_library_that_git_ignores_or_that_is_a_repository_of_its_own() {
    let project = project("vendor/jsonish", "");
    write(project.folder(), "vendor/jsonish/jsonish.hpp", LIBRARY);
    let mut init = Command::new("git");
    let output = run(
        init.args(["init", "--quiet"]).current_dir(project.folder()),
        b"",
    );
    assert!(output.status.success());
    write(project.folder(), ".gitignore", "/vendor\n");
    check(&project);
    write(project.folder(), ".gitignore", "");
    let own = "1. changed +50  jsonish::basic_parser<int>::grow";
    project.test(&[]).code(3).has(own);
    write(
        project.folder(),
        "vendor/jsonish/.git",
        "gitdir: /nowhere\n",
    );
    project.test(&[]).code(3).has("1. changed +50  load");
}

#[test]
fn a_path_dependency_of_a_rust_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = "pub fn decode(times: u32) {\n    for _ in 0..times { drop(grow()); }\n}\n\
                   fn grow() -> Box<[u8; 16]> { std::hint::black_box(Box::new([0; 16])) }\n";
    let package = |name| format!("[package]\nname = \"{name}\"\nedition = \"2021\"\n[workspace]\n");
    write(folder.path(), "decoder/Cargo.toml", &package("decoder"));
    write(folder.path(), "decoder/src/lib.rs", library);
    let project = Project::new("[tests.unused]\ncommand = [\"./bench\"]\n");
    let path = folder.path().join("decoder").display().to_string();
    let manifest = format!(
        "{}[dependencies]\ndecoder = {{ path = {path:?} }}\n",
        package("app")
    );
    project.write("Cargo.toml", &manifest);
    let program = "fn load() {\n    decoder::decode(100);\n}\n\nfn main() {\n    load();\n}\n";
    write(project.folder(), "src/main.rs", program);
    project.write(
        "allotrope.toml",
        "build = \"cargo build --quiet --offline --target-dir target\"\n\
         [defaults]\nruns = 2\n[tests.app]\ncommand = [\"target/debug/app\"]\n",
    );
    project.accept();
    project.replace("src/main.rs", "(100)", "(150)");
    project
        .test(&["--format", "github"])
        .code(3)
        .has("1. changed +50  app::load\n      through decoder::decode\n")
        .has("::error file=src/main.rs,line=2,");
}

#[test]
fn without_a_line_of_the_repository_the_definition_is_annotated() {
    let project = Project::with_cases(&["encode", "crash"]);
    let line = |name: &str| {
        let text = project.read("allotrope.toml");
        let head = format!("[tests.{name}]");
        let line = text.lines().position(|line| line == head);
        line.expect("it is there") + 1
    };
    // The folder of another machine.
    let folder = project.folder().display().to_string();
    let elsewhere = format!("-fdebug-prefix-map={folder}=/builds/project");
    project.compile(&[&elsewhere]);
    project.test(&["--accept"]).code(5);
    project.compile(&[&elsewhere, "-DWORSE"]);
    let [encode, crash] = [line("encode"), line("crash")];
    project
        .test(&["--format", "github"])
        .code(3)
        .has("1. new +50  encode\n")
        .has("/builds/project/bench.c")
        .has("outside the repository")
        .has(format!("::error file=allotrope.toml,line={encode},"))
        .has(format!("::error file=allotrope.toml,line={crash},"));
    // Nor does a relative path that is not there.
    project.compile(&[&format!("-fdebug-prefix-map={folder}=src"), "-DWORSE"]);
    project
        .test(&["--format", "github"])
        .code(3)
        .has("outside the repository")
        .has(format!("::error file=allotrope.toml,line={encode},"));
}

#[test]
fn a_comparison_names_the_line_of_the_repository() {
    let library = tempfile::tempdir().expect("a temporary folder");
    write(library.path(), "jsonish.hpp", LIBRARY);
    let project = project(&library.path().display().to_string(), "");
    write(project.folder(), ".gitignore", "/app\n/bench\n/.cache\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@localhost"]);
        let output = run(git.args(words).current_dir(project.folder()), b"");
        let printed = output.errors();
        assert!(output.status.success(), "{words:?}: {printed}");
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    project.replace("src/main.cpp", "parse(100)", "parse(150)");
    project
        .command("compare", &["main", "."])
        .code(3)
        .has("1. changed +50  load\n      through jsonish::basic_parser<int>::parse\n")
        .has(format!("src/main.cpp:{LINE}"));
    let printed = project.command("compare", &["main", ".", "--format", "json"]);
    let json: Value = printed.code(3).json();
    let number = &json["tests"][0]["cases"][0]["numbers"][0];
    assert_eq!(
        (&number["difference"], &number["rest"]),
        (&50.into(), &0.into())
    );
    let entry = &number["entries"][0];
    assert_eq!(
        (&entry["function"], &entry["in_repository"]),
        (&"load".into(), &true.into())
    );
    assert_eq!(entry["through"], "jsonish::basic_parser<int>::parse");
}
