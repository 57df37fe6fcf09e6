//! Whether a program is not recorded because the kernel sets `AT_SECURE`: by its exec it
//! gets rights that its caller does not have. Its loader ignores `LD_PRELOAD` then, and a
//! recorder that `/etc/ld.so.preload` names does nothing in it.
//!
//! The rule is the kernel's `bprm_fill_uid` (fs/exec.c) and
//! `cap_bprm_creds_from_file` (security/commoncap.c); see also capabilities(7),
//! "Transformation of capabilities during execve()". Unlike the kernel, [`judge`] returns
//! a reason in two cases without one: a file whose owner the process's user namespace
//! does not map, and file capabilities that were set for another user namespace.

use crate::not_recordable::NotRecordable;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
/// The set-group-ID bit has its meaning only together with this one.
const GROUP_EXECUTES: u32 = 0o010;

/// Bytes of the longest value of the extended attribute `security.capability`
/// (`struct vfs_ns_cap_data`).
pub const CAPABILITY_BYTES: usize = 24;
/// Name of this attribute.
pub const CAPABILITY_ATTRIBUTE: &core::ffi::CStr = c"security.capability";

/// The users, groups and capabilities of a process, from `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    real_user: u32,
    effective_user: u32,
    real_group: u32,
    effective_group: u32,
    inheritable: u64,
    permitted: u64,
    bounding: u64,
    ambient: u64,
    no_new_privileges: bool,
    /// A system call filter (seccomp) is installed. It may kill the process for system
    /// calls that the program itself would not make.
    pub is_filtered: bool,
}

impl Credentials {
    /// Parses the text of `/proc/PID/status`; `None` if a field is missing.
    pub fn parse(status: &[u8]) -> Option<Self> {
        let field = |name: &[u8]| {
            let mut lines = status.split(|byte| *byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name))
        };
        // Fields: real, effective, saved and file system id.
        let ids = |name: &[u8]| {
            let words = field(name)?.split(u8::is_ascii_whitespace);
            let mut words = words.filter(|word| !word.is_empty());
            let mut id = || number(words.next()?, 10)?.try_into().ok();
            Some((id()?, id()?))
        };
        let set = |name: &[u8]| number(field(name)?.trim_ascii(), 16);
        let is_on = |name: &[u8]| field(name).is_some_and(|value| value.trim_ascii() != b"0");
        let (real_user, effective_user) = ids(b"Uid:")?;
        let (real_group, effective_group) = ids(b"Gid:")?;
        Some(Self {
            real_user,
            effective_user,
            real_group,
            effective_group,
            inheritable: set(b"CapInh:")?,
            permitted: set(b"CapPrm:")?,
            bounding: set(b"CapBnd:")?,
            // Exists since Linux 4.3.
            ambient: set(b"CapAmb:").unwrap_or(0),
            no_new_privileges: is_on(b"NoNewPrivs:"),
            is_filtered: is_on(b"Seccomp:"),
        })
    }

    /// Why the loader of a running program has probably ignored `LD_PRELOAD`, judged by
    /// the program's credentials shortly after its start.
    pub fn of_privileged_program(&self) -> Option<NotRecordable> {
        let changed = self.effective_user != self.real_user;
        if changed || self.effective_group != self.real_group {
            return Some(NotRecordable::Privileged);
        }
        let grew = self.permitted & !self.ambient != 0;
        (self.real_user != 0 && grew).then_some(NotRecordable::Capabilities)
    }
}

/// How many system call filters (seccomp) a process has, by the text of its
/// `/proc/PID/status`; `None` if that is not known: it has some, on Linux before 5.9.
pub fn system_call_filters(status: &[u8]) -> Option<u32> {
    let field = |name: &[u8]| {
        let mut lines = status.split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        number(value.trim_ascii(), 10)?.try_into().ok()
    };
    match field(b"Seccomp:") {
        Some(0) => Some(0),
        _ => field(b"Seccomp_filters:"),
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = (*digit as char).to_digit(radix)?;
        value.checked_mul(radix.into())?.checked_add(digit.into())
    })
}

/// The properties of an executable file on which the rule depends.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// `st_mode`.
    pub mode: u32,
    /// The owner, `st_uid`.
    pub user: u32,
    /// The group, `st_gid`.
    pub group: u32,
    /// Value of the attribute [`CAPABILITY_ATTRIBUTE`]; empty if the file has none.
    pub capabilities: &'a [u8],
    /// The file is on a file system that is mounted `nosuid`.
    pub is_nosuid: bool,
}

/// Why the loader ignores `LD_PRELOAD` if a process with `credentials` executes
/// `file`; `None` if it does not.
pub fn judge(credentials: &Credentials, file: &File<'_>) -> Option<NotRecordable> {
    let changes_ids = !file.is_nosuid && !credentials.no_new_privileges;
    let user = match changes_ids && file.mode & SET_USER_ID != 0 {
        true => file.user,
        false => credentials.effective_user,
    };
    let group_bits = SET_GROUP_ID | GROUP_EXECUTES;
    let group = match changes_ids && file.mode & group_bits == group_bits {
        true => file.group,
        false => credentials.effective_group,
    };
    if user != credentials.real_user || group != credentials.real_group {
        return Some(NotRecordable::Privileged);
    }
    // If the real user is root, capabilities do not set `AT_SECURE`.
    if credentials.real_user == 0 || file.is_nosuid {
        return None;
    }
    let (effective, mut permitted) = capabilities(file.capabilities, credentials)?;
    if credentials.no_new_privileges {
        permitted &= credentials.permitted;
    }
    (effective || permitted != 0).then_some(NotRecordable::Capabilities)
}

/// Decodes a file's capabilities (`struct vfs_cap_data` of `linux/capability.h`): whether
/// they become effective at once, and which ones the program is permitted.
fn capabilities(value: &[u8], credentials: &Credentials) -> Option<(bool, u64)> {
    const EFFECTIVE: u32 = 1;
    let word = |index: usize| {
        let bytes = value.get(index * 4..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let head = word(0)?;
    let set = |index: usize| {
        let upper = match head >> 24 {
            1 => 0,
            _ => word(index + 2)?,
        };
        Some(u64::from(word(index)?) | u64::from(upper) << 32)
    };
    let (permitted, inheritable) = (set(1)?, set(2)?);
    let gained = permitted & credentials.bounding | inheritable & credentials.inheritable;
    Some((head & EFFECTIVE != 0, gained))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n\
        CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\n";
    const RAW: u32 = 1 << 13;

    #[test]
    fn filters_of_system_calls_are_counted() {
        assert_eq!(system_call_filters(STATUS.as_bytes()), Some(0));
        let filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(system_call_filters(filtered.as_bytes()), Some(3));
        assert_eq!(system_call_filters(b"Name:\tx\nSeccomp:\t2\n"), None);
        assert_eq!(system_call_filters(b""), None);
    }

    fn user() -> Credentials {
        Credentials::parse(STATUS.as_bytes()).unwrap()
    }

    fn root() -> Credentials {
        let status = STATUS.replace("1000", "0").replace("100\t", "0\t");
        let status = status.replace("\t100\n", "\t0\n");
        Credentials::parse(status.as_bytes()).unwrap()
    }

    fn value(head: u32, permitted: u32, inheritable: u32) -> Vec<u8> {
        let words = [head, permitted, inheritable, 0, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn file(mode: u32, user: u32, group: u32) -> File<'static> {
        File {
            mode,
            user,
            group,
            capabilities: &[],
            is_nosuid: false,
        }
    }

    fn capable(value: &[u8]) -> File<'_> {
        File {
            capabilities: value,
            ..file(0o755, 0, 0)
        }
    }

    #[test]
    fn a_status_is_parsed() {
        let credentials = user();
        assert_eq!(credentials.effective_user, 1000);
        assert_eq!(credentials.real_group, 100);
        assert_eq!(credentials.bounding, 0x1ff_ffff_ffff);
        assert!(!credentials.is_filtered && !credentials.no_new_privileges);
        assert_eq!(credentials.of_privileged_program(), None);
        let cut = &STATUS.as_bytes()[..STATUS.len() - 80];
        assert_eq!(Credentials::parse(cut), None);
        let own = std::fs::read("/proc/self/status").unwrap();
        assert!(Credentials::parse(&own).is_some());
    }

    #[test]
    fn set_id_bits_count_if_they_change_an_id() {
        let of = |credentials, file: File<'_>| judge(&credentials, &file);
        assert_eq!(of(user(), file(0o755, 0, 0)), None);
        assert_eq!(
            of(user(), file(0o4755, 0, 0)),
            Some(NotRecordable::Privileged)
        );
        assert_eq!(of(user(), file(0o4755, 1000, 0)), None);
        assert_eq!(of(root(), file(0o4755, 0, 0)), None);
        assert_eq!(
            of(user(), file(0o2755, 0, 0)),
            Some(NotRecordable::Privileged)
        );
        assert_eq!(of(user(), file(0o2745, 0, 0)), None);
        assert_eq!(of(user(), file(0o2755, 0, 100)), None);
        let nosuid = File {
            is_nosuid: true,
            ..file(0o6755, 0, 0)
        };
        assert_eq!(of(user(), nosuid), None);
        let confined = Credentials {
            no_new_privileges: true,
            ..user()
        };
        assert_eq!(of(confined, file(0o6755, 0, 0)), None);
    }

    /// A server of root that has become another user by `seteuid` starts a program.
    #[test]
    fn an_effective_user_that_differs_from_the_real_one_is_enough() {
        let acting = Credentials {
            effective_user: 1000,
            ..root()
        };
        assert_eq!(
            judge(&acting, &file(0o755, 0, 0)),
            Some(NotRecordable::Privileged)
        );
        assert_eq!(
            acting.of_privileged_program(),
            Some(NotRecordable::Privileged)
        );
    }

    #[test]
    fn file_capabilities_count_for_all_but_root() {
        let effective = value(2 << 24 | 1, RAW, 0);
        let permitted = value(2 << 24, RAW, 0);
        let inheritable = value(2 << 24, 0, RAW);
        let none = value(2 << 24, 0, 0);
        let found = Some(NotRecordable::Capabilities);
        assert_eq!(judge(&user(), &capable(&effective)), found);
        assert_eq!(judge(&user(), &capable(&permitted)), found);
        assert_eq!(judge(&user(), &capable(&inheritable)), None);
        assert_eq!(judge(&user(), &capable(&none)), None);
        assert_eq!(judge(&user(), &capable(&effective[..7])), None);
        assert_eq!(judge(&root(), &capable(&effective)), None);
        let inherits = Credentials {
            inheritable: RAW.into(),
            ..user()
        };
        assert_eq!(judge(&inherits, &capable(&inheritable)), found);
        let bounded = Credentials {
            bounding: 0,
            ..user()
        };
        assert_eq!(judge(&bounded, &capable(&permitted)), None);
        let nosuid = File {
            is_nosuid: true,
            ..capable(&effective)
        };
        assert_eq!(judge(&user(), &nosuid), None);
    }

    /// The flag alone is enough: the program gains no rights, but its loader ignores
    /// `LD_PRELOAD`.
    #[test]
    fn without_new_privileges_the_effective_flag_still_counts() {
        let confined = Credentials {
            no_new_privileges: true,
            ..user()
        };
        let effective = value(2 << 24 | 1, RAW, 0);
        assert!(judge(&confined, &capable(&effective)).is_some());
        assert!(judge(&confined, &capable(&value(2 << 24, RAW, 0))).is_none());
    }
}
