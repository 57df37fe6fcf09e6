//! The reasons why a program is not recorded, or only in part.

/// Why a program is not recorded, or only in part.
///
/// The recorder writes the numbers to shared memory, and the collector reads them. Both
/// are from the same build, so numbers may change between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum NotRecordable {
    /// The reason is not known.
    Unknown = 0,
    /// The program has no loader that could load the recorder.
    Static = 1,
    /// A 32-bit ELF file, including x32.
    ThirtyTwoBit = 2,
    /// The program's machine is not x86-64.
    OtherMachine = 3,
    /// The recorder's file cannot be read from where the program runs.
    NoRecorder = 4,
    /// The program's C library is not glibc.
    OtherLibc = 5,
    /// The program or a library of it defines a `malloc` that is called in place
    /// of the recorder's.
    OwnMalloc = 6,
    /// It gets another user or group by its exec, or had one before (`AT_SECURE`).
    Privileged = 7,
    /// It runs under a valgrind tool that has its own `malloc`.
    Valgrind = 8,
    /// It needs AddressSanitizer's shared library, which must be the first one.
    AddressSanitizer = 9,
    /// AddressSanitizer's shared library, which must be the first one, is in
    /// `LD_PRELOAD`.
    PreloadedAddressSanitizer = 10,
    /// A static Go program.
    StaticGo = 11,
    /// A sanitizer's run-time library, with a `malloc`, is linked into it.
    LinkedSanitizer = 12,
    /// The program's file cannot be read.
    Unreadable = 13,
    /// The program's environment does not name the recorder or the arena.
    EnvironmentCleared = 16,
    /// It runs in other namespaces than the last image that reached the collector. If it
    /// can reach the collector too, an image of it follows.
    OtherNamespaces = 17,
    /// The program's file has capabilities (`AT_SECURE`).
    Capabilities = 18,
    /// The program's allocator defines C++'s operators, and the library that hooks them is not
    /// loaded.
    AllocatorOperators = 32,
    /// A module was opened in a link-map namespace of its own (`dlmopen`).
    LinkMapNamespace = 33,
    /// Libraries that it opens with `RTLD_DEEPBIND` do not find the recorder.
    DeepBinding = 34,
    /// Functions of an allocator that is linked into it could not be patched.
    NotDetoured = 35,
}

/// Reasons from this number on concern only part of the program.
const PARTIAL: u32 = NotRecordable::AllocatorOperators as u32;

impl NotRecordable {
    const ALL: [Self; 21] = [
        Self::Unknown,
        Self::Static,
        Self::ThirtyTwoBit,
        Self::OtherMachine,
        Self::NoRecorder,
        Self::OtherLibc,
        Self::OwnMalloc,
        Self::Privileged,
        Self::Valgrind,
        Self::AddressSanitizer,
        Self::PreloadedAddressSanitizer,
        Self::StaticGo,
        Self::LinkedSanitizer,
        Self::Unreadable,
        Self::EnvironmentCleared,
        Self::OtherNamespaces,
        Self::Capabilities,
        Self::AllocatorOperators,
        Self::LinkMapNamespace,
        Self::DeepBinding,
        Self::NotDetoured,
    ];

    /// The number in shared memory.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The reason with this number; [`Unknown`](Self::Unknown) for any other.
    pub fn of_code(code: u32) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|reason| reason.code() == code)
            .unwrap_or(Self::Unknown)
    }

    /// Whether the process is recorded and only part of it is missing.
    pub const fn is_partial(self) -> bool {
        self.code() >= PARTIAL
    }

    /// Whether a recorder inside the process itself reports this reason, so that the
    /// collector knows the process.
    pub const fn is_within(self) -> bool {
        matches!(self, Self::OwnMalloc | Self::Valgrind) || self.is_partial()
    }

    /// Whether no process that runs this program can load a recorder. (A setuid program
    /// can, if its owner runs it.)
    pub const fn is_certain(self) -> bool {
        matches!(
            self,
            Self::Static
                | Self::StaticGo
                | Self::OtherLibc
                | Self::ThirtyTwoBit
                | Self::OtherMachine
        )
    }

    /// Whether the program's loader, or a library in it, would print an error or end the
    /// program if `LD_PRELOAD` still named the recorder.
    pub const fn breaks_with_recorder(self) -> bool {
        matches!(
            self,
            Self::ThirtyTwoBit
                | Self::OtherMachine
                | Self::NoRecorder
                | Self::AddressSanitizer
                | Self::PreloadedAddressSanitizer
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_stands_for_one_reason() {
        for reason in NotRecordable::ALL {
            assert_eq!(NotRecordable::of_code(reason.code()), reason);
        }
        assert_eq!(NotRecordable::of_code(999), NotRecordable::Unknown);
    }
}
