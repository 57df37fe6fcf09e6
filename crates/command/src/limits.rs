//! Limits of resources (`getrlimit(2)`): those that keep a process from having the memory with its
//! samples, and our own.

use allotrope_shm::samples::layout::BYTES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The recorder uses no descriptor below this one, so that the program's own have their usual
/// numbers.
const DESCRIPTORS: u64 = 100;

/// Why a process with this process's limits cannot be watched, as the start of a sentence.
pub fn against_watching() -> Option<String> {
    let [descriptors, file_size] =
        [Resource::Nofile, Resource::Fsize].map(|it| getrlimit(it).current);
    of(descriptors, file_size)
}

/// Raises this process's limit of descriptors as far as it may. Programs that it starts inherit that.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let highest = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without it there are fewer.
    let _ = setrlimit(Resource::Nofile, highest);
}

fn of(descriptors: Option<u64>, file_size: Option<u64>) -> Option<String> {
    if let Some(limit) = descriptors.filter(|it| *it <= DESCRIPTORS) {
        return Some(format!(
            "the limit of descriptors (ulimit -n) is {limit} and must be above {DESCRIPTORS}"
        ));
    }
    let too_small = file_size.filter(|it| *it < BYTES as u64);
    too_small.map(|_| {
        let needed = BYTES.div_ceil(1 << 20);
        format!("the limit of file sizes (ulimit -f) is below {needed} MiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_high_enough_are_no_reason() {
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(101), Some(BYTES as u64)), None);
        let text = of(Some(100), None).expect("a reason");
        assert!(text.contains("ulimit -n"), "{text}");
        let text = of(Some(101), Some(BYTES as u64 - 1)).expect("a reason");
        assert!(text.contains("ulimit -f"), "{text}");
    }
}
