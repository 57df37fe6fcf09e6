//! Hooks of the functions that replace this program by another one (the exec
//! family) or start one beside it (`posix_spawn`).
//!
//! If the new program cannot be recorded, a diagnostic is posted before it runs,
//! because it may end before the collector finds the process. If its loader
//! could not load the recorder and would complain on the program's standard
//! error, the recorder is taken out of the program's `LD_PRELOAD`; the rest of
//! its environment is not touched.

use core::ffi::{CStr, c_char, c_int, c_void};

use allotrope_shm::layout::ENVIRONMENT_VARIABLE;
use allotrope_target::{NotRecordable, Start};

use crate::capture::modules;
use crate::emit::diagnostics;
use crate::exec::program::{self, Path, Program};
use crate::lifecycle::exit;
use crate::state::image;
use crate::sys::arch::exec_registers::ExecRegisters;
use crate::sys::digits::Digits;
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::system;

type Strings = *const *const c_char;

/// Beginning of the file names of our libraries.
const PREFIX: &[u8] = b"liballotrope_";
const PRELOAD: &[u8] = b"LD_PRELOAD";
const ASAN_OPTIONS: &[u8] = b"ASAN_OPTIONS";

/// The arguments of an exec or spawn function that matter here.
struct Call {
    directory: c_int,
    path: *const c_char,
    /// The path is searched for in `PATH`.
    searches: bool,
    /// The program is this open file.
    descriptor: Option<c_int>,
    environment: Strings,
}

/// Prepares an exec. `registers` are the caller's arguments, which this may
/// change for the next function of the exec family; the result is that
/// function's address.
pub unsafe extern "C" fn prepare(registers: *mut ExecRegisters, function: usize) -> usize {
    // SAFETY: the entry stub gives its own; the arguments are the caller's,
    // who promises what the function asks for.
    unsafe {
        let call = read_call(registers, function);
        let shown = if call.descriptor.is_some() || call.path.is_null() {
            &[]
        } else {
            CStr::from_ptr(call.path).to_bytes()
        };
        exit::note_exec(shown);
        let mut target = function;
        if let Some(refusal) = judge(&call) {
            refusal.post(system::process_id());
            if let Some(environment) = refusal.environment {
                target = replace_environment(registers, function, environment);
            }
        }
        match next::address_at(target) {
            0 if next::resolve() => next::address_at(target),
            address => address,
        }
    }
}

unsafe fn read_call(registers: *const ExecRegisters, function: usize) -> Call {
    let is = |other: Function| function == other as usize;
    // SAFETY: the stub's own; the variadic arguments end with a null pointer,
    // behind which `execle` has the environment.
    let (first, second, third, fourth, fifth, after_list) = unsafe {
        let after_list = if is(Function::Execle) {
            ExecRegisters::argument(registers, arguments(registers) + 1)
        } else {
            0
        };
        let it = &*registers;
        (
            it.first, it.second, it.third, it.fourth, it.fifth, after_list,
        )
    };
    let path = first as *const c_char;
    let mut call = Call {
        directory: libc::AT_FDCWD,
        path,
        searches: is(Function::Execvp) || is(Function::Execvpe) || is(Function::Execlp),
        descriptor: None,
        environment: image::environment(),
    };
    if is(Function::Execve) || is(Function::Execvpe) || is(Function::Fexecve) {
        call.environment = third as Strings;
    }
    if is(Function::Fexecve) {
        call.descriptor = Some(first as c_int);
    } else if is(Function::Execveat) {
        call.directory = first as c_int;
        call.path = second as *const c_char;
        call.environment = fourth as Strings;
        if fifth as c_int & libc::AT_EMPTY_PATH != 0 {
            call.descriptor = Some(call.directory);
        }
    } else if is(Function::Execle) {
        call.environment = after_list as Strings;
    }
    call
}

/// The number of strings behind the path, up to the null pointer.
unsafe fn arguments(registers: *const ExecRegisters) -> usize {
    let mut count = 0;
    // SAFETY: the caller ends them with a null pointer.
    while unsafe { ExecRegisters::argument(registers, count) } != 0 {
        count += 1;
    }
    count
}

/// A program that cannot be recorded.
struct Refusal {
    reason: NotRecordable,
    path: Path,
    /// A copy of its environment without the recorder, if its loader would
    /// complain about that.
    environment: Option<Strings>,
}

impl Refusal {
    fn post(&self, process_id: u32) {
        diagnostics::post(process_id, self.reason, self.path.as_c_str().to_bytes());
    }
}

/// Why the program cannot be recorded; `None` if it can be, or is not found.
unsafe fn judge(call: &Call) -> Option<Refusal> {
    // SAFETY: the caller's arguments, see `prepare`.
    unsafe {
        let preload = find_variable(call.environment, PRELOAD);
        let list = preload.map_or(&b""[..], |entry| value(entry, PRELOAD));
        let recorder = libraries(list).find(|library| is_ours(library));
        let (directory, path) = match call.descriptor {
            Some(descriptor) => (libc::AT_FDCWD, Path::of_descriptor(descriptor)?),
            None if call.path.is_null() => return None,
            None if call.searches => (libc::AT_FDCWD, Path::search(call.path)?),
            None => (call.directory, Path::given(call.path)?),
        };
        let options = find_variable(call.environment, ASAN_OPTIONS);
        let start = Start {
            preload: behind_recorder(list),
            asan_options: options.map(|entry| value(entry, ASAN_OPTIONS)),
        };
        let reason = match program::inspect(directory, path.as_c_str(), &start) {
            Program::NotExecutable => return None,
            Program::Executable(Some(reason)) => reason,
            Program::Executable(None) => missing(call, recorder)?,
        };
        let complains = reason.breaks_with_recorder() && recorder.is_some();
        let preload = preload.filter(|_| complains);
        let environment = preload.and_then(|it| without_recorder(call.environment, it));
        Some(Refusal {
            reason,
            path,
            environment,
        })
    }
}

/// What a recordable program lacks in its environment or its surroundings.
unsafe fn missing(call: &Call, recorder: Option<&[u8]>) -> Option<NotRecordable> {
    // SAFETY: the caller's arguments, see `prepare`.
    let arena = unsafe { find_variable(call.environment, ENVIRONMENT_VARIABLE.as_bytes()) };
    let (Some(recorder), Some(_)) = (recorder, arena) else {
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
unsafe fn replace_environment(
    registers: *mut ExecRegisters,
    function: usize,
    environment: Strings,
) -> usize {
    let is = |other: Function| function == other as usize;
    // SAFETY: the stub's own.
    unsafe {
        if is(Function::Execveat) {
            (*registers).fourth = environment as u64;
            return function;
        }
        if is(Function::Execl) || is(Function::Execlp) || is(Function::Execle) {
            let Some(list) = argument_list(registers) else {
                return function;
            };
            (*registers).second = list as u64;
        }
        (*registers).third = environment as u64;
    }
    if is(Function::Execvp) || is(Function::Execlp) || is(Function::Execvpe) {
        Function::Execvpe as usize
    } else if is(Function::Fexecve) {
        function
    } else {
        Function::Execve as usize
    }
}

/// The variadic arguments as an array.
unsafe fn argument_list(registers: *const ExecRegisters) -> Option<Strings> {
    // SAFETY: as `arguments`; the new mapping has room for all of them.
    unsafe {
        let count = arguments(registers);
        let list = system::map_private((count + 1) * size_of::<usize>()).cast::<u64>();
        if list.is_null() {
            return None;
        }
        for index in 0..count {
            list.add(index)
                .write(ExecRegisters::argument(registers, index));
        }
        Some(list as Strings)
    }
}

/// The entry of a variable in an environment.
unsafe fn find_variable(environment: Strings, name: &[u8]) -> Option<Strings> {
    if environment.is_null() {
        return None;
    }
    let mut entry = environment;
    // SAFETY: an array of C strings that ends with a null pointer.
    unsafe {
        while !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if text.starts_with(name) && text.get(name.len()) == Some(&b'=') {
                return Some(entry);
            }
            entry = entry.add(1);
        }
    }
    None
}

/// The value in an entry that [`find_variable`] returned for `name`.
unsafe fn value<'a>(entry: Strings, name: &[u8]) -> &'a [u8] {
    // SAFETY: the entry is a C string of the caller's environment; `find_variable`
    // found the name and `=` at its beginning.
    unsafe { &CStr::from_ptr(*entry).to_bytes()[name.len() + 1..] }
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

/// A copy of the environment without our libraries in `LD_PRELOAD`. It is passed
/// to the exec and ends with this program; if the exec fails, a few pages stay
/// mapped.
unsafe fn without_recorder(environment: Strings, preload: Strings) -> Option<Strings> {
    // SAFETY: as `find_variable`; the mapping has room for the pointers, then
    // for the variable, which becomes no longer.
    unsafe {
        let mut count = 0;
        while !(*environment.add(count)).is_null() {
            count += 1;
        }
        let list = value(preload, PRELOAD);
        let pointers = (count + 1) * size_of::<usize>();
        let memory = system::map_private(pointers + PRELOAD.len() + list.len() + 2);
        if memory.is_null() {
            return None;
        }
        let copy = memory.cast::<*const c_char>();
        let text =
            core::slice::from_raw_parts_mut(memory.add(pointers), PRELOAD.len() + list.len() + 2);
        let mut writer = Digits {
            bytes: text,
            used: 0,
        };
        writer.text(PRELOAD);
        writer.text(b"=");
        let empty = writer.used;
        for library in libraries(list).filter(|library| !is_ours(library)) {
            if writer.used > empty {
                writer.text(b":");
            }
            writer.text(library);
        }
        let is_empty = writer.used == empty;
        let mut copied = 0;
        for index in 0..count {
            let entry = environment.add(index);
            if entry != preload {
                copy.add(copied).write(*entry);
            } else if is_empty {
                continue;
            } else {
                copy.add(copied).write(memory.add(pointers).cast());
            }
            copied += 1;
        }
        Some(copy.cast_const())
    }
}

type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Strings,
    Strings,
) -> c_int;

macro_rules! spawn {
    ($name:ident, $function:ident, $searches:literal) => {
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
            arguments: Strings,
            environment: Strings,
        ) -> c_int {
            let mut address = next::address(Function::$function);
            if address == 0 && next::resolve() {
                address = next::address(Function::$function);
            }
            if address == 0 {
                return libc::ENOSYS;
            }
            let call = Call {
                directory: libc::AT_FDCWD,
                path,
                searches: $searches,
                descriptor: None,
                environment,
            };
            // SAFETY: `dlsym` found the function of this name; the arguments
            // are the caller's.
            unsafe {
                let next = core::mem::transmute::<usize, Spawn>(address);
                let refusal = judge(&call);
                let replaced = refusal.as_ref().and_then(|refusal| refusal.environment);
                let mut child = 0;
                let pid = if pid.is_null() { &raw mut child } else { pid };
                let error = next(
                    pid,
                    path,
                    actions,
                    attributes,
                    arguments,
                    replaced.unwrap_or(environment),
                );
                // The process id is known only now. `OtherNamespaces` is only
                // a suspicion, which must come before the program's image, and
                // the image may have begun.
                let refusal =
                    refusal.filter(|it| error == 0 && it.reason != NotRecordable::OtherNamespaces);
                if let Some(refusal) = refusal {
                    refusal.post(pid.read() as u32);
                }
                error
            }
        }
    };
}

spawn!(posix_spawn, PosixSpawn, false);
spawn!(posix_spawnp, PosixSpawnp, true);
