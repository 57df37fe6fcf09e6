//! Names of Linux signals (signal(7), x86 and ARM numbers).

/// Signals 1 to 31.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];
/// The first real-time signal that glibc leaves to programs.
const REAL_TIME_FIRST: i32 = 34;
const REAL_TIME_LAST: i32 = 64;

/// The name of a signal: `SIGKILL`, `SIGRTMIN+3`; `SIG32` if it has none.
pub fn signal_name(signal: i32) -> String {
    let name = usize::try_from(signal)
        .ok()
        .and_then(|number| NAMES.get(number.checked_sub(1)?));
    match (name, signal) {
        (Some(name), _) => (*name).to_owned(),
        (None, REAL_TIME_FIRST) => "SIGRTMIN".to_owned(),
        (None, REAL_TIME_FIRST..=REAL_TIME_LAST) => {
            format!("SIGRTMIN+{}", signal - REAL_TIME_FIRST)
        }
        (None, _) => format!("SIG{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_name() {
        // From signal(7).
        for (number, name) in [
            (1, "SIGHUP"),
            (6, "SIGABRT"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (15, "SIGTERM"),
            (31, "SIGSYS"),
            (34, "SIGRTMIN"),
            (37, "SIGRTMIN+3"),
            (64, "SIGRTMIN+30"),
            (32, "SIG32"),
            (0, "SIG0"),
            (-5, "SIG-5"),
        ] {
            assert_eq!(signal_name(number), name);
        }
    }
}
