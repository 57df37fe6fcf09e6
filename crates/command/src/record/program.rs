//! The program to record: finds it as execvp(3) would, checks whether it can be
//! recorded and starts it with the recorder preloaded.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use allotrope_preflight::allocator::{OF_PRIVATE, OF_REPLACING, OF_STRIPPED, SymbolFacts};
use allotrope_preflight::executable::{Executable, Kind};
use allotrope_preflight::linked_allocator::{self, LinkedAllocator};
use allotrope_preflight::loaded_libraries;
use allotrope_text::Shown;
use anyhow::anyhow;
use rustix::fs::Access;

use crate::exec_program;
use crate::exit_status::{Failure, NOT_EXECUTABLE, NOT_FOUND, RECORD_FAILED};

/// Where execvp(3) looks if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program whose file shows nothing that prevents a recording.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    command: Vec<OsString>,
    /// The program's file, parsed; `None` if it cannot be read.
    executable: Option<Executable>,
}

impl Program {
    /// Looks for the program of a command line that is not empty.
    pub fn find(command: Vec<OsString>) -> Result<Self, Failure> {
        Self::find_to("record", command)
    }

    /// Same as [`Self::find`]: what cannot be recorded cannot be watched.
    pub fn find_to_watch(command: Vec<OsString>) -> Result<Self, Failure> {
        Self::find_to("watch", command)
    }

    fn find_to(verb: &str, command: Vec<OsString>) -> Result<Self, Failure> {
        let program = Self::find_to_sample(command)?;
        let executable = program.executable.as_ref();
        if let Some(refusal) = executable.and_then(Executable::refusal) {
            let path = program.path.shown();
            let (why, remedy) = (refusal.why, refusal.remedy);
            let sentence = anyhow!("cannot {verb} {path}: {why}; {remedy}");
            return Err(Failure::new(RECORD_FAILED, sentence));
        }
        Ok(program)
    }

    /// Same as [`Self::find`], also for a program that cannot be recorded: `allotrope cpu` preloads
    /// nothing.
    pub fn find_to_sample(command: Vec<OsString>) -> Result<Self, Failure> {
        let name = command.first().cloned().unwrap_or_default();
        let path = search(&name)?;
        let executable = match Executable::inspect(&path) {
            Ok(executable) => executable,
            // Execute permission is enough to execute a file.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Self {
                    path,
                    command,
                    executable: None,
                });
            }
            Err(error) => return Err(unreadable(&path, &error)),
        };
        if let Kind::Program(program) = &executable.image().kind
            && program.loader.as_ref().is_some_and(|it| !it.exists())
            // What prevents a recording says more: a 32-bit program lacks its loader on most
            // machines.
            && executable.refusal().is_none()
        {
            return Err(no_loader(&path));
        }
        Ok(Self {
            path,
            command,
            executable: Some(executable),
        })
    }

    /// The command as the user typed it. The trace contains it.
    pub fn command(&self) -> Vec<OsString> {
        self.command.clone()
    }

    /// A warning if an allocator is linked into the program, whose blocks are not
    /// recorded.
    pub fn caveat(&self) -> Option<String> {
        let executable = self.executable.as_ref()?.image();
        let (symbols, linked) = LinkedAllocator::with_facts(executable).ok()?;
        let image = &executable.path;
        let stripped = || linked_allocator::without_symbols(image).ok().flatten();
        if let Some(linked) = linked.filter(|linked| linked.detoured > 0) {
            // The recorder reports functions that it could not patch.
            let name = linked.only_standard.then(stripped)??;
            return Some(format!(
                "{} has {name} linked into it, of which only the functions that every allocator \
                 has are recorded: the symbols of the others are stripped; {OF_STRIPPED}",
                image.shown()
            ));
        }
        if symbols.name.is_none()
            && !symbols.reported
            && let Some(name) = stripped()
        {
            return Some(format!(
                "{} has {name} linked into it, whose blocks cannot be seen: its symbols are \
                 stripped; {OF_STRIPPED}",
                image.shown()
            ));
        }
        let remedy = match symbols.name {
            _ if symbols.reported => return None,
            _ if symbols.exports_malloc => OF_REPLACING,
            Some(_) => OF_PRIVATE,
            None => return None,
        };
        let name = symbols.name.unwrap_or("an allocator of its own");
        Some(format!(
            "{} has {name} linked into it, whose blocks cannot be seen; {remedy}",
            image.shown()
        ))
    }

    /// The program's file, for a script its interpreter's, and those of the libraries that it loads when it
    /// starts; `None` if it cannot be read.
    pub fn files(&self) -> Option<Vec<PathBuf>> {
        let image = self.executable.as_ref()?.image();
        let Kind::Program(program) = &image.kind else {
            return Some(vec![image.path.clone()]);
        };
        let preload = std::env::var_os("LD_PRELOAD");
        let loader = program.loader.iter();
        let libraries =
            loader.flat_map(|it| loaded_libraries::of(it, &image.path, preload.as_deref()));
        Some([image.path.clone()].into_iter().chain(libraries).collect())
    }

    /// Whether the program will load an allocator library that also defines C++'s
    /// operators: calls of these do not pass through `malloc`.
    pub fn allocator_defines_operators(&self, preload: Option<&OsStr>) -> bool {
        let image = self.executable.as_ref().map(Executable::image);
        let Some((path, Kind::Program(program))) = image.map(|it| (&it.path, &it.kind)) else {
            return false;
        };
        let Some(loader) = &program.loader else {
            return false;
        };
        let libraries = loaded_libraries::of(loader, path, preload);
        libraries.iter().any(|library| {
            SymbolFacts::exported_by(library)
                .is_ok_and(|found| found.defines_malloc && found.defines_operator_new)
        })
    }

    /// Whether the file is a text without an interpreter line, which execve(2) refuses
    /// and a shell runs.
    fn needs_shell(&self) -> bool {
        let executable = self.executable.as_ref();
        executable.is_some_and(|it| it.kind == Kind::ShellText)
    }

    /// The program's name without its folders.
    pub fn name(&self) -> &OsStr {
        let typed = self.command.first().map(Path::new);
        typed
            .and_then(Path::file_name)
            .or_else(|| self.path.file_name())
            .unwrap_or(OsStr::new("program"))
    }

    /// The file to execute, and the arguments, the zeroth included.
    fn file_and_arguments(&self) -> (&Path, Vec<OsString>) {
        let mut arguments = self.command.clone();
        if !self.needs_shell() {
            return (&self.path, arguments);
        }
        arguments.splice(..1, ["sh".into(), self.path.clone().into_os_string()]);
        (Path::new("/bin/sh"), arguments)
    }

    /// Replaces this process by the program, as [`Program::start`] starts it.
    pub fn replace_this_process(
        &self,
        additions: &[(&str, OsString)],
    ) -> Result<Infallible, Failure> {
        let (path, arguments) = self.file_and_arguments();
        let replaced = exec_program::replace(path, &arguments, additions);
        replaced.map_err(|error| Failure::new(NOT_EXECUTABLE, error))
    }

    /// Starts the program as this process's child, with the same process group,
    /// descriptors and working directory, and with the same environment plus `additions`.
    pub fn start(&self, additions: &[(&str, OsString)]) -> Result<Child, Failure> {
        self.start_with(additions, |_| {})
    }

    /// Same as [`Program::start`]; `redirect` may give the program other standard streams.
    pub fn start_with(
        &self,
        additions: &[(&str, OsString)],
        redirect: impl FnOnce(&mut Command),
    ) -> Result<Child, Failure> {
        let (path, arguments) = self.file_and_arguments();
        // `Command` alone resets the signals that this process was started with and
        // sorts the environment; `exec_program` restores both in an intermediate process.
        let started = if exec_program::is_possible() {
            exec_program::start(path, &arguments, additions, redirect)
        } else {
            let mut command = Command::new(path);
            command.arg0(&arguments[0]).args(&arguments[1..]);
            command.envs(additions.iter().map(|(name, value)| (name, value)));
            redirect(&mut command);
            command.spawn()
        };
        started.map_err(|error| not_started(&self.path, &error))
    }
}

/// Looks for a program as execvp(3) does.
pub fn search(name: &OsStr) -> Result<PathBuf, Failure> {
    let missing = || {
        Failure::new(
            NOT_FOUND,
            anyhow!(
                "the program {} was not found; check its name and the PATH",
                Path::new(name).shown()
            ),
        )
    };
    if name.is_empty() {
        return Err(missing());
    }
    if name.as_bytes().contains(&b'/') {
        return check(PathBuf::from(name)).map_err(|failure| failure.unwrap_or_else(missing));
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    for folder in env::split_paths(&folders) {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".").to_owned()
        } else {
            folder
        };
        match check(folder.join(name)) {
            Ok(path) => return Ok(path),
            Err(failure) => refused = refused.or(failure),
        }
    }
    Err(refused.unwrap_or_else(missing))
}

/// Returns the path if it can be executed. `Err(None)` means that there is no such file.
fn check(path: PathBuf) -> Result<PathBuf, Option<Failure>> {
    let refuse = |why: String| {
        let sentence = anyhow!("cannot execute {}: {why}", path.shown());
        Err(Some(Failure::new(NOT_EXECUTABLE, sentence)))
    };
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => refuse("it is a folder".into()),
        Ok(metadata) if !metadata.is_file() => refuse("it is not a regular file".into()),
        Ok(_) => match rustix::fs::access(&path, Access::EXEC_OK) {
            Ok(()) => Ok(path),
            Err(_) => refuse("you have no permission to; see chmod +x".into()),
        },
        Err(error) if is_missing(&error) => Err(None),
        Err(error) => refuse(error.to_string()),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let status = if is_missing(error) {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    Failure::new(status, anyhow!("cannot execute {}: {error}", path.shown()))
}

fn no_loader(path: &Path) -> Failure {
    let sentence = anyhow!(
        "cannot execute {}: the loader that it names does not exist on this machine",
        path.shown()
    );
    Failure::new(NOT_FOUND, sentence)
}

fn not_started(path: &Path, error: &io::Error) -> Failure {
    if is_missing(error) {
        // The file exists: the kernel did not find its loader.
        return no_loader(path);
    }
    let sentence = anyhow!("cannot execute {}: {error}", path.shown());
    Failure::new(NOT_EXECUTABLE, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn status(name: &OsStr) -> u8 {
        Program::find(vec![name.to_owned()]).unwrap_err().status
    }

    #[test]
    fn failures_have_the_statuses_of_env() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        assert_eq!(status(file.as_os_str()), NOT_FOUND);
        assert_eq!(status(folder.path().as_os_str()), NOT_EXECUTABLE);
        fs::write(&file, "#!/no/such/interpreter\n").unwrap();
        assert_eq!(status(file.as_os_str()), NOT_EXECUTABLE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(status(file.as_os_str()), NOT_FOUND);
        assert_eq!(status(file.join("below").as_os_str()), NOT_FOUND);
        assert_eq!(status(OsStr::new("")), NOT_FOUND);
    }

    /// A program of another machine that names a loader which is not here.
    fn foreign_program(class: u8, machine: u16) -> Vec<u8> {
        let (header, segment) = if class == 1 { (52, 32) } else { (64, 56) };
        let mut bytes = vec![0; header + segment];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
        bytes[16] = 2;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        // The offset of the segments, their size and number, and the one that names the loader.
        let (offset, size) = if class == 1 { (28, 42) } else { (32, 54) };
        bytes[offset] = u8::try_from(header).unwrap();
        bytes[size] = u8::try_from(segment).unwrap();
        bytes[size + 2] = 1;
        bytes[header] = 3;
        let loader = b"/lib/no-such-loader.so\0";
        let (at, length) = if class == 1 { (4, 16) } else { (8, 32) };
        bytes[header + at] = u8::try_from(header + segment).unwrap();
        bytes[header + length] = u8::try_from(loader.len()).unwrap();
        bytes.extend(loader);
        bytes
    }

    #[test]
    fn a_program_of_another_machine_is_refused_for_that() {
        const I386: u16 = 3;
        const AARCH64: u16 = 183;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        for (class, machine, why) in [(1, I386, "it is a 32-bit program"), (2, AARCH64, "it is ")] {
            fs::write(&file, foreign_program(class, machine)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            let failure = Program::find(vec![file.clone().into_os_string()]).unwrap_err();
            assert_eq!(failure.status, RECORD_FAILED);
            let sentence = failure.error.to_string();
            assert!(sentence.contains(why), "{sentence}");
            assert!(!sentence.contains("loader"), "{sentence}");
        }
    }

    #[test]
    fn a_text_without_interpreter_line_needs_the_shell() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        fs::write(&file, "exit 3\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::find(vec![file.into_os_string()]).unwrap();
        assert!(program.needs_shell());
        assert_eq!(program.name(), "text");
    }
}
