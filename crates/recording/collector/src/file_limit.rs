//! The limit of file sizes (`ulimit -f`, `RLIMIT_FSIZE` of getrlimit(2)). It applies to files in
//! memory, too, whose size is that of the recording's shared memory however little of it is
//! used.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Calls `make`, which makes a file of so many bytes, and raises the limit of this process for
/// that time if it is lower. Another thread may write a file meanwhile.
///
/// # Errors
/// The limit in bytes, if this process may not raise it as far.
pub fn with_file_size<T>(bytes: u64, make: impl FnOnce() -> T) -> Result<T, u64> {
    let limit = getrlimit(Resource::Fsize);
    let Some(current) = limit.current.filter(|limit| *limit < bytes) else {
        return Ok(make());
    };
    let raised = Rlimit {
        current: Some(bytes),
        // A privileged process may raise that, too.
        maximum: limit.maximum.map(|maximum| maximum.max(bytes)),
    };
    setrlimit(Resource::Fsize, raised).map_err(|_| current)?;
    let made = make();
    // A process may always lower it.
    let _ = setrlimit(Resource::Fsize, limit);
    Ok(made)
}
