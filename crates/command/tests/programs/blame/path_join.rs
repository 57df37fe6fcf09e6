// Each look-up joins the path, which used to be joined once.
// BLAME find
use std::hint::black_box;
use std::path::Path;

#[inline(never)]
fn find(folder: &Path, times: usize) -> usize {
    let mut found = 0;
    #[cfg(not(after))]
    let file = folder.join("settings.toml");
    for _ in 0..times {
        #[cfg(after)]
        let file = folder.join("settings.toml"); // MARK blame
        found += black_box(&file).as_os_str().len();
    }
    found
}

fn main() {
    black_box(find(Path::new("/etc/program"), 1000));
}
