//! Separate debug files: where they are found, and when they are refused.

mod fixture;

use std::fs::File;
use std::path::{Path, PathBuf};

use allotrope_symbols::{FileIdentity, Locator, ModuleSymbols, Ran, SymbolError};
use fixture::{C_SOURCE, Program, compile, run};

const OPTIONS: [&str; 3] = ["-O2", "-g", "-Wl,--build-id=sha1"];

/// A program whose debug information was split off into `debug`.
struct Split {
    program: Program,
    debug: PathBuf,
    mark: u64,
    build_id: Vec<u8>,
}

fn split() -> Option<Split> {
    let program = compile("cc", &OPTIONS, "truth.c", C_SOURCE)?;
    let mark = program.address("mark_inner");
    let path = program.path.to_str()?.to_owned();
    let notes = run("readelf", &["-n", &path])?;
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .unwrap();
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
    let build_id = (0..id.len()).step_by(2).map(byte).collect();
    let debug = program.path.with_extension("debug");
    let debug_text = debug.to_str()?.to_owned();
    run(
        "objcopy",
        &[
            "--only-keep-debug",
            "--compress-debug-sections",
            &path,
            &debug_text,
        ],
    )?;
    run(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink", &debug_text, &path],
    )?;
    Some(Split {
        program,
        debug,
        mark,
        build_id,
    })
}

impl Split {
    fn move_debug_file(&self, to: &Path) {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::rename(&self.debug, to).unwrap();
    }

    fn build_id_path(&self, folder: &Path) -> PathBuf {
        let hex: String = self
            .build_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        folder
            .join(".build-id")
            .join(&hex[..2])
            .join(format!("{}.debug", &hex[2..]))
    }

    /// The functions at the mark, innermost first.
    fn functions(&self, locator: &Locator) -> Vec<String> {
        let symbols = ModuleSymbols::load(
            locator,
            &self.program.path,
            &Ran::new(&self.build_id, FileIdentity::default()),
            None,
        );
        functions(&symbols.unwrap(), self.mark)
    }
}

fn functions(symbols: &ModuleSymbols, address: u64) -> Vec<String> {
    let resolved = symbols.resolve(&[(address, true)]);
    let frames = resolved[0].frames.iter();
    frames.map(|frame| frame.function.to_string()).collect()
}

const FULL: [&str; 3] = ["inner", "middle", "outer"];

#[test]
fn a_debug_link_is_resolved_in_all_its_folders() {
    let Some(split) = split() else { return };
    assert_eq!(split.functions(&Locator::new()), FULL);

    let folder = split.program.path.parent().unwrap();
    let name = split.debug.file_name().unwrap();
    let hidden = folder.join(".debug").join(name);
    split.move_debug_file(&hidden);
    assert_eq!(split.functions(&Locator::new()), FULL);

    let extra = tempfile::tempdir().unwrap();
    let elsewhere = extra
        .path()
        .join(folder.strip_prefix("/").unwrap())
        .join(name);
    std::fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    std::fs::copy(&hidden, &elsewhere).unwrap();
    std::fs::remove_file(&hidden).unwrap();
    assert!(split.functions(&Locator::new()).is_empty());
    let locator = Locator::new().with_debug_folder(extra.path());
    assert_eq!(split.functions(&locator), FULL);
}

#[test]
fn a_debug_file_with_another_checksum_is_ignored() {
    let Some(split) = split() else { return };
    // One more byte at the end changes the checksum, but not the debug information.
    let mut bytes = std::fs::read(&split.debug).unwrap();
    bytes.push(0);
    std::fs::write(&split.debug, bytes).unwrap();
    assert!(split.functions(&Locator::new()).is_empty());
}

#[test]
fn a_debug_file_is_found_by_build_id_in_a_debug_folder() {
    let Some(split) = split() else { return };
    let extra = tempfile::tempdir().unwrap();
    split.move_debug_file(&split.build_id_path(extra.path()));
    assert!(split.functions(&Locator::new()).is_empty());
    let locator = Locator::new().with_debug_folder(extra.path());
    assert_eq!(split.functions(&locator), FULL);
    assert_eq!(
        ModuleSymbols::load(&locator, &split.program.path, &Ran::unverified(), None)
            .unwrap()
            .unoptimised(),
        Some(false)
    );
}

#[test]
fn with_a_sysroot_modules_and_debug_files_are_read_below_it() {
    let Some(split) = split() else { return };
    let image = tempfile::tempdir().unwrap();
    let folder = split.program.path.parent().unwrap();
    let below = folder.strip_prefix("/").unwrap();
    let module = image.path().join("opt/program");
    std::fs::create_dir_all(module.parent().unwrap()).unwrap();
    std::fs::rename(&split.program.path, &module).unwrap();
    let locator = Locator::new().with_sysroot(image.path());
    let functions = |locator: &Locator| {
        let path = Path::new("/opt/program");
        let symbols = ModuleSymbols::load(
            locator,
            path,
            &Ran::new(&split.build_id, FileIdentity::default()),
            None,
        );
        symbols.map_or_else(
            |error| vec![error.to_string()],
            |it| functions(&it, split.mark),
        )
    };
    assert!(
        functions(&locator).is_empty(),
        "the module is stripped, and there is no debug file"
    );
    let debug = image.path().join("usr/lib/debug/opt/program.debug");
    split.move_debug_file(&debug);
    assert_eq!(functions(&locator), FULL);
    move_file(
        &debug,
        &split.build_id_path(&image.path().join("usr/lib/debug")),
    );
    assert_eq!(functions(&locator), FULL);
    let elsewhere = Locator::new().with_sysroot(image.path().join(below));
    assert!(functions(&elsewhere)[0].starts_with("cannot read "));
}

/// Moves a file to a path whose folder may not exist yet.
fn move_file(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, to).unwrap();
}

#[test]
fn a_given_file_is_used_for_the_module_with_its_build_id() {
    let Some(split) = split() else { return };
    let elsewhere = split.program.path.with_file_name("some-name");
    split.move_debug_file(&elsewhere);
    assert!(split.functions(&Locator::new()).is_empty());
    let locator = Locator::new().with_file(&elsewhere).unwrap();
    assert_eq!(split.functions(&locator), FULL);
    // It is also used if the stripped program itself was given first.
    let locator = Locator::new()
        .with_file(&split.program.path)
        .and_then(|locator| locator.with_file(&elsewhere))
        .unwrap();
    assert_eq!(split.functions(&locator), FULL);
    let error = Locator::new()
        .with_file(&split.program.source_path)
        .unwrap_err();
    assert!(matches!(error, SymbolError::NotElf { .. }), "{error}");
}

#[test]
fn a_rebuilt_module_is_refused_and_its_old_debug_file_is_used() {
    let (Some(split), Some(other)) = (
        split(),
        compile("cc", &["-O0", "-Wl,--build-id=sha1"], "other.c", C_SOURCE),
    ) else {
        return;
    };
    let extra = tempfile::tempdir().unwrap();
    let locator = Locator::new().with_debug_folder(extra.path());
    std::fs::copy(&other.path, &split.program.path).unwrap();
    let error = ModuleSymbols::load(
        &locator,
        &split.program.path,
        &Ran::new(&split.build_id, FileIdentity::default()),
        None,
    )
    .unwrap_err();
    assert!(
        matches!(error, SymbolError::BuildIdDiffers { .. }),
        "{error}"
    );
    split.move_debug_file(&split.build_id_path(extra.path()));
    assert_eq!(split.functions(&locator), FULL);
}

#[test]
fn a_deleted_module_is_read_through_its_open_file() {
    let Some(program) = compile("cc", &OPTIONS, "truth.c", C_SOURCE) else {
        return;
    };
    let mark = program.address("mark_inner");
    let file = File::open(&program.path).unwrap();
    std::fs::remove_file(&program.path).unwrap();
    let gone =
        ModuleSymbols::load(&Locator::new(), &program.path, &Ran::unverified(), None).unwrap_err();
    assert!(matches!(gone, SymbolError::Unreadable { .. }), "{gone}");
    let symbols = ModuleSymbols::load(
        &Locator::new(),
        &program.path,
        &Ran::unverified(),
        Some(file),
    )
    .unwrap();
    assert_eq!(functions(&symbols, mark), FULL);
}

#[test]
fn if_the_open_file_is_of_another_build_the_path_is_read() {
    let Some(split) = split() else { return };
    let Some(other) = compile("cc", &["-O0", "-Wl,--build-id=sha1"], "other.c", C_SOURCE) else {
        return;
    };
    let file = File::open(&other.path).unwrap();
    let path = &split.program.path;
    let symbols = ModuleSymbols::load(
        &Locator::new(),
        path,
        &Ran::new(&split.build_id, FileIdentity::default()),
        Some(file),
    )
    .unwrap();
    assert_eq!(functions(&symbols, split.mark), FULL);
}

#[test]
fn the_c_library_has_lines_if_its_debug_package_is_installed() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !path.exists() || !Path::new("/usr/lib/debug/.build-id").exists() {
        println!("skipped: no {} with debug files installed", path.display());
        return;
    }
    let listing = run("nm", &["-D", "--defined-only", path.to_str().unwrap()]).unwrap();
    let malloc = listing
        .lines()
        .find(|line| line.contains(" malloc@@"))
        .unwrap();
    let address = u64::from_str_radix(malloc.split(' ').next().unwrap(), 16).unwrap();
    let symbols = ModuleSymbols::load(&Locator::new(), path, &Ran::unverified(), None).unwrap();
    let resolved = symbols.resolve(&[(address, true), (address + 4, true)]);
    let frame = resolved[0].frames.last().unwrap();
    assert!(frame.function.ends_with("malloc"), "{frame:?}");
    assert_eq!(frame.offset, Some(0));
    if !frame.file.is_empty() {
        assert!(
            frame.file.ends_with("malloc.c") && frame.line > 0,
            "{frame:?}"
        );
    }
    assert_eq!(resolved[1].frames.last().unwrap().offset, Some(4));
}

/// A function whose name is in the supplementary file, as dwz writes it
/// (`DW_FORM_GNU_ref_alt`): the entry at offset 12 there, after a unit header of 11 bytes
/// and a root entry of 1 byte. In the symbol table its name is `symbol_name`.
const SHARING_SOURCE: &str = r#"
    .text
    .globl symbol_name
    .type symbol_name, @function
symbol_name: nop
    ret
    .size symbol_name, . - symbol_name
end_of_code:
    .section .debug_abbrev
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e
    .byte 0
    .uleb128 0x31, 0x1f20, 0x11, 0x01, 0x12, 0x07, 0, 0
    .byte 0
    .section .debug_info
    .long end_of_unit - start_of_unit
start_of_unit:
    .2byte 4
    .long 0
    .byte 8
    .uleb128 1
    .quad symbol_name, end_of_code - symbol_name
    .uleb128 2
    .long 12
    .quad symbol_name, end_of_code - symbol_name
    .byte 0
end_of_unit:
"#;

const SHARED_SOURCE: &str = r#"
    .section .debug_abbrev
    .uleb128 1, 0x3c
    .byte 1
    .uleb128 0, 0, 2, 0x2e
    .byte 0
    .uleb128 0x03, 0x0e, 0, 0
    .byte 0
    .section .debug_str
    .asciz "shared_name"
    .section .debug_info
    .long end_of_unit - start_of_unit
start_of_unit:
    .2byte 4
    .long 0
    .byte 8
    .uleb128 1, 2
    .long 0
    .byte 0
end_of_unit:
"#;

#[test]
fn names_in_a_supplementary_file_are_followed() {
    let options = ["-shared", "-nostdlib", "-Wl,--build-id=0x0123456789"];
    let sharing = compile(
        "cc",
        &["-static", "-nostdlib", "-Wl,-e,symbol_name"],
        "sharing.s",
        SHARING_SOURCE,
    );
    let shared = compile("cc", &options, "shared.s", SHARED_SOURCE);
    let (Some(sharing), Some(shared)) = (sharing, shared) else {
        return;
    };
    let link = |build_id: &[u8]| {
        let content = sharing.path.with_extension("link");
        std::fs::write(&content, [b"parts/shared.debug\0", build_id].concat()).unwrap();
        let linked = sharing.path.with_extension("linked");
        let add = format!(".gnu_debugaltlink={}", content.display());
        let paths = [sharing.path.to_str().unwrap(), linked.to_str().unwrap()];
        run("objcopy", &["--add-section", &add, paths[0], paths[1]]).unwrap();
        let symbols =
            ModuleSymbols::load(&Locator::new(), &linked, &Ran::unverified(), None).unwrap();
        functions(&symbols, sharing.address("symbol_name"))
    };
    let build_id = [0x01, 0x23, 0x45, 0x67, 0x89];
    assert_eq!(
        link(&build_id),
        ["symbol_name"],
        "the file does not exist yet"
    );
    let parts = sharing.path.parent().unwrap().join("parts");
    std::fs::create_dir(&parts).unwrap();
    std::fs::copy(&shared.path, parts.join("shared.debug")).unwrap();
    assert_eq!(link(&build_id), ["shared_name"]);
    assert_eq!(
        link(&[1, 2, 3]),
        ["symbol_name"],
        "the file is of another build"
    );
}
