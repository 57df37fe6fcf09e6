//! Which file a process has mapped as a module. The recorder notes it when the module
//! appears; whoever reads symbols later compares it with a file that may be the one. The
//! path alone proves nothing: another build may lie there by then.

/// Number of words of an encoded [`FileIdentity`].
pub const IDENTITY_WORDS: usize = 5;

/// A file as `fstat` describes it, with a hash of what is mapped of it. All zero: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileIdentity {
    /// `st_dev`. It is another number after the file system was mounted again.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_size`, in bytes.
    pub size: u64,
    /// `st_mtim`, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// [`code_hash`] of the module's memory; 0: unknown.
    pub code: u64,
}

impl FileIdentity {
    /// The words of a message or a table.
    pub const fn to_words(self) -> [u64; IDENTITY_WORDS] {
        [
            self.device,
            self.inode,
            self.size,
            self.modified_ns,
            self.code,
        ]
    }

    /// The inverse of [`Self::to_words`].
    pub const fn from_words(words: [u64; IDENTITY_WORDS]) -> Self {
        let [device, inode, size, modified_ns, code] = words;
        Self {
            device,
            inode,
            size,
            modified_ns,
            code,
        }
    }

    /// Whether the file is known at all.
    pub const fn is_known(&self) -> bool {
        self.inode != 0
    }

    /// Whether `other` is the same file with the same contents. The device is not
    /// compared: after a reboot it is another number. Two files that agree in all the
    /// rest are the same one.
    pub const fn is_same_file(&self, other: &Self) -> bool {
        self.is_known()
            && self.inode == other.inode
            && self.size == other.size
            && self.modified_ns == other.modified_ns
            && (self.code == other.code || self.code == 0 || other.code == 0)
    }
}

/// Largest number of bytes of code that [`code_hash`] takes: a page.
pub const HASHED_CODE: usize = 4096;

/// A hash of a module's program headers and the first page of its code: the same from the
/// file as from memory, since neither is relocated. Zero bytes at the end of the code do not
/// count, since the file may end within the page. Never 0.
pub fn code_hash(program_headers: &[u8], code: &[u8]) -> u64 {
    let code = &code[..code.len().min(HASHED_CODE)];
    let used = code.iter().rposition(|&byte| byte != 0);
    let code = &code[..used.map_or(0, |last| last + 1)];
    // FNV-1a (Fowler, Noll, Vo).
    let hash = program_headers
        .iter()
        .chain(code)
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIdentity = FileIdentity {
        device: 1,
        inode: 2,
        size: 3,
        modified_ns: 4,
        code: 5,
    };

    #[test]
    fn words_keep_all_fields() {
        assert_eq!(FileIdentity::from_words(FILE.to_words()), FILE);
    }

    #[test]
    fn a_file_is_the_same_if_everything_but_the_device_agrees() {
        let on_other_device = FileIdentity { device: 9, ..FILE };
        assert!(FILE.is_same_file(&on_other_device));
        assert!(FILE.is_same_file(&FileIdentity { code: 0, ..FILE }));
        for other in [
            FileIdentity { inode: 9, ..FILE },
            FileIdentity { size: 9, ..FILE },
            FileIdentity {
                modified_ns: 9,
                ..FILE
            },
            FileIdentity { code: 9, ..FILE },
        ] {
            assert!(!FILE.is_same_file(&other), "{other:?}");
        }
        let unknown = FileIdentity::default();
        assert!(!unknown.is_same_file(&unknown));
    }

    #[test]
    fn zeros_behind_the_code_do_not_count() {
        let hash = code_hash(b"headers", b"code");
        assert_eq!(hash, code_hash(b"headers", b"code\0\0\0"));
        assert_ne!(hash, code_hash(b"headers", b"code2"));
        assert_ne!(hash, code_hash(b"header2", b"code"));
        assert_ne!(code_hash(b"", b""), 0);
    }
}
