//! Hooks of the functions that replace this program by another one (the exec
//! family) or start one as a child (`posix_spawn`).
//!
//! If the new program cannot be recorded, a diagnostic is posted before it runs,
//! because it may end before the collector finds the process. If its loader
//! could not load the recorder and would complain on the program's standard
//! error, the recorder is taken out of the program's `LD_PRELOAD`; the rest of
//! its environment is not touched.

use core::ffi::{CStr, c_char, c_int, c_void};

use allotrope_preflight::{NotRecordable, Start};
use allotrope_shm::layout::{ENVIRONMENT_VARIABLE, WATCH_VARIABLE};

use crate::capture::modules;
use crate::emit::diagnostics;
use crate::exec::program::{self, Path, Program};
use crate::lifecycle::exit;
use crate::state::image;
use crate::sys::arch::exec_registers::ExecRegisters;
use crate::sys::c_strings::{self, StringArray, c_string};
use crate::sys::digits::Digits;
use crate::sys::mapping::PrivateMemory;
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::system;

/// Beginning of the file names of our libraries.
const PREFIX: &[u8] = b"liballotrope";
const PRELOAD: &[u8] = b"LD_PRELOAD";
const ASAN_OPTIONS: &[u8] = b"ASAN_OPTIONS";

/// What an exec or spawn function is to run.
enum File<'c> {
    /// The file at this path, relative to an open folder.
    At(c_int, &'c CStr),
    /// The file that a search in the folders of `PATH` finds.
    Named(&'c CStr),
    /// An open file.
    Open(c_int),
}

/// The arguments of an exec or spawn function that matter here.
struct Call<'c> {
    file: File<'c>,
    environment: StringArray<'c>,
}

/// Prepares an exec. `registers` are the caller's arguments, which this may
/// change for the next function of the exec family; the result is that
/// function's address.
pub extern "C" fn prepare(registers: &mut ExecRegisters, function: Function) -> usize {
    if system::has_gained_rights() {
        return next::resolved(function);
    }
    // SAFETY: the program leaves the strings alone during its call of `function`.
    let call = unsafe { Call::read(registers, function) };
    let shown = match &call {
        Some(Call {
            file: File::At(_, path) | File::Named(path),
            ..
        }) => path.to_bytes(),
        _ => &[],
    };
    exit::note_exec(shown);
    let mut target = function;
    if let Some(refusal) = call.as_ref().and_then(judge) {
        refusal.post(system::process_id());
        if let Some(environment) = refusal.environment {
            // It ends with this program. If the exec fails, a few pages stay mapped.
            target = replace_environment(registers, function, environment.leak() as u64);
        }
    }
    next::resolved(target)
}

impl<'c> Call<'c> {
    /// The call of an exec function; `None` if a string of it cannot be read, so that
    /// the exec will fail.
    ///
    /// # Safety
    /// The strings stay and do not change during `'c`.
    unsafe fn read(registers: &ExecRegisters, function: Function) -> Option<Self> {
        let (file, environment) = match function {
            Function::Execve | Function::Execvpe | Function::Fexecve => (0, Some(2)),
            Function::Execle => (0, Some(registers.list_from(1).count() + 2)),
            Function::Execveat => (1, Some(3)),
            _ => (0, None),
        };
        let environment = match environment {
            Some(number) => registers.argument(number) as *const *const c_char,
            None => image::environment(),
        };
        // SAFETY: passed on.
        let path = || unsafe { c_string(registers.argument(file) as *const c_char) };
        let descriptor = registers.argument(0) as c_int;
        let may_be_empty = registers.argument(4) as c_int & libc::AT_EMPTY_PATH != 0;
        let file = match function {
            Function::Fexecve => File::Open(descriptor),
            Function::Execveat => match path()? {
                path if path.is_empty() && may_be_empty => File::Open(descriptor),
                path => File::At(descriptor, path),
            },
            Function::Execvp | Function::Execvpe | Function::Execlp => File::Named(path()?),
            _ => File::At(libc::AT_FDCWD, path()?),
        };
        // SAFETY: passed on.
        let environment = unsafe { StringArray::new(environment) }?;
        Some(Self { file, environment })
    }
}

/// A program that cannot be recorded.
struct Refusal {
    reason: NotRecordable,
    path: Path,
    /// A copy of its environment without the recorder, if its loader would
    /// complain about that.
    environment: Option<PrivateMemory>,
}

impl Refusal {
    fn post(&self, process_id: u32) {
        diagnostics::post(process_id, self.reason, self.path.as_c_str().to_bytes());
    }
}

/// Why the program cannot be recorded; `None` if it can be, or is not found.
fn judge(call: &Call<'_>) -> Option<Refusal> {
    let preload = call.environment.variable(PRELOAD);
    let list = preload.unwrap_or_default();
    let recorder = libraries(list).find(|library| is_ours(library));
    let (directory, path) = match call.file {
        File::Open(descriptor) => (libc::AT_FDCWD, Path::of_descriptor(descriptor)?),
        File::Named(name) => (libc::AT_FDCWD, Path::search(name)?),
        File::At(directory, path) => (directory, Path::given(path)?),
    };
    let start = Start {
        preload: behind_recorder(list),
        asan_options: call.environment.variable(ASAN_OPTIONS),
    };
    let reason = match program::inspect(directory, path.as_c_str(), &start) {
        Program::NotExecutable => return None,
        Program::Executable(Some(reason)) => reason,
        Program::Executable(None) => missing(call, recorder)?,
    };
    let mut environment = None;
    if reason.breaks_with_recorder() && recorder.is_some() {
        environment = without_recorder(call.environment, list);
    }
    Some(Refusal {
        reason,
        path,
        environment,
    })
}

/// What a recordable program lacks in its environment or its surroundings.
fn missing(call: &Call<'_>, recorder: Option<&[u8]>) -> Option<NotRecordable> {
    let mut variables = [ENVIRONMENT_VARIABLE, WATCH_VARIABLE].into_iter();
    let asked = variables.find_map(|it| call.environment.variable(it.as_bytes()));
    let (Some(recorder), Some(_)) = (recorder, asked) else {
        return Some(NotRecordable::EnvironmentCleared);
    };
    if system::is_missing(recorder) {
        Some(NotRecordable::NoRecorder)
    } else if namespaces::has_left() {
        Some(NotRecordable::OtherNamespaces)
    } else {
        None
    }
}

/// Changes the arguments so that the program gets `environment`, and returns the
/// function of the exec family that takes one.
fn replace_environment(
    registers: &mut ExecRegisters,
    function: Function,
    environment: u64,
) -> Function {
    if matches!(function, Function::Execveat) {
        registers.set(3, environment);
        return function;
    }
    if matches!(
        function,
        Function::Execl | Function::Execlp | Function::Execle
    ) {
        let Some(list) = argument_list(registers) else {
            return function;
        };
        registers.set(1, list.leak() as u64);
    }
    registers.set(2, environment);
    match function {
        Function::Execvp | Function::Execlp | Function::Execvpe => Function::Execvpe,
        Function::Fexecve => Function::Fexecve,
        _ => Function::Execve,
    }
}

/// The variadic arguments as an array.
fn argument_list(registers: &ExecRegisters) -> Option<PrivateMemory> {
    let count = registers.list_from(1).count();
    let mut list = PrivateMemory::new((count + 1) * size_of::<usize>())?;
    for (to, argument) in list.words().iter_mut().zip(registers.list_from(1)) {
        *to = argument;
    }
    Some(list)
}

fn libraries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b' ' | b':'))
        .filter(|library| !library.is_empty())
}

fn is_ours(library: &[u8]) -> bool {
    let name = library.rsplit(|byte| *byte == b'/').next();
    name.is_some_and(|name| name.starts_with(PREFIX)) || modules::is_own_path(library)
}

/// The part of a list of libraries behind the first one of ours; empty if there
/// is none of ours.
fn behind_recorder(list: &[u8]) -> &[u8] {
    let recorder = libraries(list).find(|library| is_ours(library));
    // Parts of a slice: the distance of their beginnings is a position in it.
    let end = recorder.map(|it| it.as_ptr().addr() - list.as_ptr().addr() + it.len());
    end.and_then(|end| list.get(end..)).unwrap_or_default()
}

/// A copy of the environment without our libraries in `LD_PRELOAD`, which is `list`: the
/// addresses of its entries, then the one that changes.
fn without_recorder(environment: StringArray<'_>, list: &[u8]) -> Option<PrivateMemory> {
    let pointers = (environment.pointers().len() + 1) * size_of::<usize>();
    let mut memory = PrivateMemory::new(pointers + PRELOAD.len() + list.len() + 2)?;
    let mut text = Digits {
        bytes: &mut memory.bytes()[pointers..],
        used: 0,
    };
    text.text(PRELOAD);
    text.text(b"=");
    let empty = text.used;
    for library in libraries(list).filter(|library| !is_ours(library)) {
        if text.used > empty {
            text.text(b":");
        }
        text.text(library);
    }
    let changed = (text.used > empty).then_some(memory.start() as u64 + pointers as u64);
    let is_preload = |entry: &[u8]| c_strings::value(entry, PRELOAD).is_some();
    let preload = environment.iter().position(is_preload);
    let entries = environment.pointers().iter().enumerate();
    let kept = entries.filter_map(|(index, entry)| {
        if Some(index) == preload {
            changed
        } else {
            Some(*entry as u64)
        }
    });
    for (to, entry) in memory.words().iter_mut().zip(kept) {
        *to = entry;
    }
    Some(memory)
}

/// Calls `start`, a `posix_spawn` with this process id and environment, for a call of
/// it by the program.
///
/// # Safety
/// The strings stay and do not change, and the process id can be written if it is not
/// null.
unsafe fn spawn(
    searches: bool,
    path: *const c_char,
    pid: *mut libc::pid_t,
    environment: *const *const c_char,
    start: impl FnOnce(*mut libc::pid_t, *const *const c_char) -> c_int,
) -> c_int {
    if system::has_gained_rights() {
        return start(pid, environment);
    }
    // SAFETY: passed on.
    let (path, strings) = unsafe { (c_string(path), StringArray::new(environment)) };
    let refusal = path.zip(strings).and_then(|(path, environment)| {
        let file = if searches {
            File::Named(path)
        } else {
            File::At(libc::AT_FDCWD, path)
        };
        judge(&Call { file, environment })
    });
    let replaced = refusal.as_ref().and_then(|it| it.environment.as_ref());
    let environment = replaced.map_or(environment, |it| it.start().cast_const().cast());
    let mut child = 0;
    let pid = if pid.is_null() { &raw mut child } else { pid };
    let error = start(pid, environment);
    // The process id is known only now. `OtherNamespaces` is only
    // a suspicion, which must come before the program's image, and
    // the image may have begun.
    let refusal = refusal.filter(|it| it.reason != NotRecordable::OtherNamespaces);
    if let Some(refusal) = refusal.filter(|_| error == 0) {
        // SAFETY: the call that succeeded has written it.
        refusal.post(unsafe { pid.read() } as u32);
    }
    error
}

macro_rules! spawn {
    ($name:ident, $searches:literal) => {
        /// See the function of this name in the C library's manual.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pid: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: *const *const c_char,
            environment: *const *const c_char,
        ) -> c_int {
            let Some(next) = next::$name() else {
                return libc::ENOSYS;
            };
            // SAFETY: all are the arguments of the program's call.
            unsafe {
                spawn($searches, path, pid, environment, |pid, environment| {
                    next(pid, path, actions, attributes, arguments, environment)
                })
            }
        }
    };
}

spawn!(posix_spawn, false);
spawn!(posix_spawnp, true);
