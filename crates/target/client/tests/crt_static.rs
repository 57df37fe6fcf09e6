//! The crate in a statically linked program, which has no dynamic loader: it links, and
//! only calls the measured closure.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
use std::alloc::{GlobalAlloc, Layout, System};

struct Own;
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: allotrope_client::Recorded<Own> = allotrope_client::Recorded::new(Own);

fn main() {
    let bytes = allotrope_client::measure("vector", 1, || vec![1_u8; 100]);
    println!("{} {:?}", bytes.len(), allotrope_client::recording());
}
"#;

#[track_caller]
fn rustc(folder: &Path, arguments: &[&str]) {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "-Ctarget-feature=+crt-static"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("rustc can be started");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && messages.is_empty(), "{messages}");
}

#[test]
fn a_statically_linked_program() {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let folder = folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let source = source.display().to_string();
    let library = [
        "--crate-type=rlib",
        "--crate-name=allotrope_client",
        &source,
    ];
    rustc(folder, &library);
    std::fs::write(folder.join("program.rs"), PROGRAM).expect("the folder is writable");
    let client = "allotrope_client=liballotrope_client.rlib";
    rustc(folder, &["--extern", client, "program.rs"]);
    let output = Command::new(folder.join("program")).output();
    let output = output.expect("the program can be started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100 No\n");
}
