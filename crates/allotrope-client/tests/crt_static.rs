//! The crate in a program without a loader: it links, and does nothing but call.

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
    let made = allotrope_client::measure("made", 1, || vec![1_u8; 100]);
    println!("{} {:?}", made.len(), allotrope_client::recording());
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
        .expect("cargo has a rustc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
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
    std::fs::write(folder.join("program.rs"), PROGRAM).expect("the folder is ours");
    let client = "allotrope_client=liballotrope_client.rlib";
    rustc(folder, &["--extern", client, "program.rs"]);
    let output = Command::new(folder.join("program")).output();
    let output = output.expect("it was just made");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100 No\n");
}
