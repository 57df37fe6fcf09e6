//! Opens a file in headless Chromium and returns the text of the page.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{run, skip};

/// Opens speedscope with a file, at its table of functions. `None` if that is not possible
/// here.
pub fn speedscope(folder: &Path, file: &[u8]) -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let app = target.join("viewers/node_modules/speedscope/dist/release/index.html");
    if !app.exists() {
        skip("speedscope is not installed; scripts/viewers does that");
        return None;
    }
    // As speedscope's own command passes a file.
    let numbers: Vec<String> = file.iter().map(u8::to_string).collect();
    let script = format!(
        "speedscope.loadFileFromBase64('ours.json', btoa(new Uint8Array([{}]).reduce((text, byte) => text + String.fromCharCode(byte), '')))",
        numbers.join(",")
    );
    let path = folder.join("load.js");
    std::fs::write(&path, script).expect("the folder is ours");
    let address = format!(
        "file://{}#view=sandwich&localProfilePath={}",
        app.display(),
        path.display()
    );
    let page = page(folder, &address)?;
    Some(text(&page))
}

/// The page at an address after its scripts have run.
fn page(folder: &Path, address: &str) -> Option<String> {
    let Some(chromium) = chromium() else {
        skip("chromium is not installed");
        return None;
    };
    let profile = format!("--user-data-dir={}", folder.join("chromium").display());
    let output = run(
        Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            // speedscope draws with WebGL, here on the processor.
            .args(["--use-angle=swiftshader", "--enable-unsafe-swiftshader"])
            .args(["--virtual-time-budget=60000", "--dump-dom"])
            .args([&profile, address]),
        b"",
    );
    assert!(
        output.status.success(),
        "chromium ended with {}",
        output.status
    );
    Some(output.text())
}

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.exists())
}

/// The text between the tags, a space for each tag.
fn text(page: &str) -> String {
    let parts = page.split('<').map(|part| match part.split_once('>') {
        Some((_, text)) => text,
        None => part,
    });
    let text: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
    text.join(" ")
}
