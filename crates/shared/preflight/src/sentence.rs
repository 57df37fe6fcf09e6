//! The sentences for users, one for each [`NotRecordable`].

use crate::not_recordable::NotRecordable;

impl NotRecordable {
    /// Why the program is not recorded, without a full stop. `detail` is the path
    /// of the module, or for a linked sanitizer its name; most reasons have none.
    pub fn why(self, detail: &str) -> String {
        let why = match self {
            Self::Static => "it is statically linked, so no library can be preloaded into it",
            Self::StaticGo => "it is a static Go program, whose memory does not come from malloc",
            Self::ThirtyTwoBit => "it is a 32-bit program",
            Self::OtherMachine => "it is built for another processor than x86-64",
            Self::OtherLibc => "its C library is not glibc",
            Self::Privileged => {
                "it runs with another user's or group's rights than the user who starts it (it is setuid or setgid, or was started with only its effective user changed); such a program is never recorded"
            }
            Self::Capabilities => {
                "it has file capabilities; a program that gains rights by them is never recorded"
            }
            Self::AddressSanitizer => {
                "it loads AddressSanitizer's library (it was built with AddressSanitizer), which ends a program in which the recorder's is loaded before it"
            }
            Self::PreloadedAddressSanitizer => {
                "it loads AddressSanitizer's library (it is started with AddressSanitizer in LD_PRELOAD), which ends a program in which the recorder's is loaded before it"
            }
            Self::LinkedSanitizer => {
                return format!(
                    "it has {detail} linked into it, whose malloc is called instead of the recorder's"
                );
            }
            Self::Unreadable => "its file may not be read by this user",
            Self::NoRecorder => {
                "the recorder's file cannot be read from where it runs (a chroot or a container)"
            }
            Self::EnvironmentCleared => {
                "it was started with an environment that does not name the recorder, so neither it nor what it starts is recorded"
            }
            Self::OtherNamespaces => {
                "it runs in namespaces of its own (a container or sandbox), from which neither its recorder nor one in what it starts reaches the collector"
            }
            Self::OwnMalloc => {
                return format!(
                    "a malloc of its own, in {detail}, is called instead of the recorder's"
                );
            }
            Self::Valgrind => "valgrind puts its own malloc before the recorder's",
            Self::AllocatorOperators => {
                return format!(
                    "its allocator {detail} defines C++'s operators new and delete, which are recorded only where the recording's first program is linked against such an allocator"
                );
            }
            Self::LinkMapNamespace => {
                return format!(
                    "{detail} was opened with dlmopen, in a namespace with a C library of its own, whose allocations are not seen"
                );
            }
            Self::DeepBinding => {
                "libraries that it opened with RTLD_DEEPBIND call the C library's malloc, which is not this program's, so their allocations are not seen"
            }
            Self::NotDetoured => {
                return format!(
                    "of the allocator that is linked into it, {detail} cannot be patched, so their calls are not seen"
                );
            }
            Self::Unknown => {
                "its recorder did not report; perhaps its environment was cleared (LD_PRELOAD and ALLOTROPE_ARENA have to reach it) or it ended at once"
            }
        };
        why.to_owned()
    }

    /// What the user can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Static => {
                "link it dynamically against glibc (without -static; for Rust, a -gnu target without +crt-static)"
            }
            Self::StaticGo => "use the Go run-time system's own heap profile (runtime/pprof)",
            Self::ThirtyTwoBit | Self::OtherMachine => "build it for x86-64 (64 bits)",
            Self::OtherLibc => {
                "build it for glibc 2.34 or newer (for example x86_64-unknown-linux-gnu)"
            }
            Self::Privileged => {
                "record a copy without these rights (cp makes one), or as the user it switches to"
            }
            Self::Capabilities => "record a copy without them (cp makes one), or as root",
            Self::AddressSanitizer | Self::PreloadedAddressSanitizer => {
                "record a build without -fsanitize=address, or set ASAN_OPTIONS=verify_asan_link_order=0"
            }
            Self::LinkedSanitizer => "record a build without -fsanitize",
            Self::Unreadable => "give yourself read permission for it",
            Self::NoRecorder => {
                "bind-mount the folder of the recorder there, or give one that it can read with --recorder"
            }
            Self::EnvironmentCleared => "let LD_PRELOAD and ALLOTROPE_ARENA reach it",
            Self::OtherNamespaces => {
                "give it the network namespace of its surroundings, or run `allotrope record` inside"
            }
            Self::OwnMalloc => {
                "link the allocator as a shared library, report its blocks (allotrope.h in C and C++, allotrope-client's Recorded in Rust), or build without the sanitizer that brings it"
            }
            Self::Valgrind => "record the program without valgrind",
            Self::AllocatorOperators => "record the program directly",
            Self::LinkMapNamespace => "open it with dlopen for the recording",
            Self::DeepBinding => {
                "record it without the allocator that was preloaded, or open them without the flag"
            }
            Self::NotDetoured => {
                "link the allocator as a shared library, or wrap it in allotrope-client's Recorded (Rust)"
            }
            Self::Unknown => "run `allotrope doctor` on it",
        }
    }

    /// One sentence without its full stop: why, and what to do.
    pub fn sentence(self, detail: &str) -> String {
        format!("{}; {}", self.why(detail), self.remedy())
    }
}
