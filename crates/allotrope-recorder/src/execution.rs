//! The functions that replace this program by another, or start one beside it.
//!
//! A program that cannot be recorded is reported before it runs: it may end
//! before anybody looks. Where its loader could not load the recorder, and
//! would say so into the program's output, the recorder is taken out of the
//! `LD_PRELOAD` that it gets; nothing else of its environment is touched.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use allotrope_shm::layout::{ENVIRONMENT_VARIABLE, diagnostic};

use crate::arch::entry::ExecRegisters;
use crate::next::{self, Function};
use crate::program::{self, Path, Program};
use crate::{diagnostics, hooks, image, modules, namespaces, system};

type Strings = *const *const c_char;

/// Beginning of the file names of our libraries.
const PREFIX: &[u8] = b"liballotrope_";
const VARIABLE: &[u8] = b"LD_PRELOAD";

/// Where an exec function has what it is called with.
struct Call {
    directory: c_int,
    path: *const c_char,
    /// The path is looked for in `PATH`.
    searches: bool,
    /// The file is an open descriptor.
    descriptor: Option<c_int>,
    environment: Strings,
}

/// Prepares an exec: `registers` are the arguments as they came, in which this
/// may change what the next function gets. Gives that function's address.
pub unsafe extern "C" fn prepare(registers: *mut ExecRegisters, function: usize) -> usize {
    // SAFETY: the entry stub gives its own; the arguments are the caller's,
    // who promises what the function asks for.
    unsafe {
        let call = read_call(registers, function);
        let shown = if call.descriptor.is_some() {
            ptr::null()
        } else {
            call.path
        };
        hooks::note_exec(shown);
        let mut target = function;
        if let Some(verdict) = judge(&call) {
            verdict.tell(system::process_id());
            if let Some(environment) = verdict.environment {
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

/// How many of the strings behind the path there are, up to the null pointer.
unsafe fn arguments(registers: *const ExecRegisters) -> usize {
    let mut count = 0;
    // SAFETY: the caller ends them with a null pointer.
    while unsafe { ExecRegisters::argument(registers, count) } != 0 {
        count += 1;
    }
    count
}

/// A program that cannot be recorded.
struct Verdict {
    /// Why, one of [`diagnostic`].
    what: u32,
    path: Path,
    /// The environment it is to have instead, if its loader must not see the
    /// recorder.
    environment: Option<Strings>,
}

impl Verdict {
    fn tell(&self, process_id: u32) {
        diagnostics::post(process_id, self.what, self.path.as_c_str().to_bytes());
    }
}

/// Whether the program can be recorded; `None` if it can, or is not meant to be.
unsafe fn judge(call: &Call) -> Option<Verdict> {
    // SAFETY: the caller's arguments, see `prepare`.
    unsafe {
        let preload = find_variable(call.environment, VARIABLE);
        let recorder = preload.and_then(|preload| ours(value(preload)).next());
        let (directory, path) = match call.descriptor {
            Some(descriptor) => (libc::AT_FDCWD, Path::of_descriptor(descriptor)?),
            None if call.path.is_null() => return None,
            None if call.searches => (libc::AT_FDCWD, Path::search(call.path)?),
            None => (call.directory, Path::given(call.path)?),
        };
        let what = match program::look_at(directory, path.as_c_str()) {
            Program::NotExecutable => return None,
            Program::Obstacle(diagnostic::ADDRESS_SANITIZER) if !insists(call.environment) => {
                missing(call, recorder)?
            }
            Program::Obstacle(what) => what,
            Program::Fine => match missing(call, recorder) {
                None if preloads_address_sanitizer(preload) && insists(call.environment) => {
                    diagnostic::ADDRESS_SANITIZER
                }
                missing => missing?,
            },
        };
        let complains = matches!(
            what,
            diagnostic::THIRTY_TWO_BIT
                | diagnostic::OTHER_MACHINE
                | diagnostic::NO_RECORDER
                | diagnostic::ADDRESS_SANITIZER
        );
        let preload = preload.filter(|_| complains && recorder.is_some());
        let environment = preload.and_then(|it| without_recorder(call.environment, it));
        Some(Verdict {
            what,
            path,
            environment,
        })
    }
}

/// What a program lacks that could be recorded by its file.
unsafe fn missing(call: &Call, recorder: Option<&[u8]>) -> Option<u32> {
    // SAFETY: the caller's arguments, see `prepare`.
    let arena = unsafe { find_variable(call.environment, ENVIRONMENT_VARIABLE.as_bytes()) };
    let (Some(recorder), Some(_)) = (recorder, arena) else {
        return Some(diagnostic::CLEARED);
    };
    if system::is_missing(recorder) {
        Some(diagnostic::NO_RECORDER)
    } else if namespaces::has_left() {
        Some(diagnostic::ELSEWHERE)
    } else {
        None
    }
}

/// Has the exec pass `environment` on; gives the function that can.
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

/// Whether AddressSanitizer's library stands behind the recorder in `LD_PRELOAD`.
unsafe fn preloads_address_sanitizer(preload: Option<Strings>) -> bool {
    let Some(preload) = preload else {
        return false;
    };
    // SAFETY: passed on.
    let mut list = libraries(unsafe { value(preload) });
    list.by_ref().any(is_ours) && list.any(program::is_address_sanitizer)
}

/// Whether AddressSanitizer insists on being a program's first library, where it
/// is shared. The last of several flags counts; they are set off as in
/// `sanitizer_flag_parser.cpp` of compiler-rt.
unsafe fn insists(environment: Strings) -> bool {
    const OPTIONS: &[u8] = b"ASAN_OPTIONS";
    // SAFETY: passed on; `find_variable` gives a C string that begins with the
    // name.
    let options = unsafe {
        match find_variable(environment, OPTIONS) {
            Some(entry) => &CStr::from_ptr(*entry).to_bytes()[OPTIONS.len() + 1..],
            None => return true,
        }
    };
    let flags = options.split(|byte| b" ,:\n\t\r".contains(byte));
    let last = flags
        .filter_map(|flag| flag.strip_prefix(b"verify_asan_link_order="))
        .next_back();
    !matches!(last, Some(b"0" | b"no" | b"false"))
}

/// The place of a variable in an environment.
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

unsafe fn value<'a>(entry: Strings) -> &'a [u8] {
    // SAFETY: `find_variable` gave it.
    unsafe { &CStr::from_ptr(*entry).to_bytes()[VARIABLE.len() + 1..] }
}

fn libraries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b' ' | b':'))
        .filter(|library| !library.is_empty())
}

fn is_ours(library: &[u8]) -> bool {
    let name = library.rsplit(|byte| *byte == b'/').next();
    name.is_some_and(|name| name.starts_with(PREFIX)) || modules::is_own_path(library)
}

fn ours(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    libraries(list).filter(|library| is_ours(library))
}

/// A copy of the environment without our libraries. It is given to the exec and
/// gone with this program; should the exec fail, a few pages stay mapped.
unsafe fn without_recorder(environment: Strings, preload: Strings) -> Option<Strings> {
    // SAFETY: as `find_variable`; the mapping has room for the pointers, then
    // for the variable, which becomes no longer.
    unsafe {
        let mut count = 0;
        while !(*environment.add(count)).is_null() {
            count += 1;
        }
        let list = value(preload);
        let pointers = (count + 1) * size_of::<usize>();
        let memory = system::map_private(pointers + VARIABLE.len() + list.len() + 2);
        if memory.is_null() {
            return None;
        }
        let copy = memory.cast::<*const c_char>();
        let text =
            core::slice::from_raw_parts_mut(memory.add(pointers), VARIABLE.len() + list.len() + 2);
        let mut writer = image::Digits {
            bytes: text,
            used: 0,
        };
        writer.text(VARIABLE);
        writer.text(b"=");
        let empty = writer.used;
        for library in libraries(list).filter(|library| !is_ours(library)) {
            if writer.used > empty {
                writer.text(b":");
            }
            writer.text(library);
        }
        let is_empty = writer.used == empty;
        let mut kept = 0;
        for index in 0..count {
            let entry = environment.add(index);
            if entry != preload {
                copy.add(kept).write(*entry);
            } else if is_empty {
                continue;
            } else {
                copy.add(kept).write(memory.add(pointers).cast());
            }
            kept += 1;
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
                let verdict = judge(&call);
                let replaced = verdict.as_ref().and_then(|verdict| verdict.environment);
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
                // What only may be so is to be said before the program runs,
                // and its process id is known when it does.
                let verdict = verdict.filter(|it| error == 0 && it.what != diagnostic::ELSEWHERE);
                if let Some(verdict) = verdict {
                    verdict.tell(pid.read() as u32);
                }
                error
            }
        }
    };
}

spawn!(posix_spawn, PosixSpawn, false);
spawn!(posix_spawnp, PosixSpawnp, true);
