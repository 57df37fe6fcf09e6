//! Ends the processes that an allocator started: the replayer's children may outlive it, and a
//! daemon leaves its group and its session.

use std::fs;
use std::sync::{Mutex, PoisonError};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// Largest number of rounds of killing: each ends the processes whose parents the round before has
/// ended.
const ROUNDS: usize = 1000;

/// The replayers that run now, and the children of this process from before.
static RUNNING: Mutex<Running> = Mutex::new(Running {
    count: 0,
    others: Vec::new(),
});

struct Running {
    count: usize,
    others: Vec<Pid>,
}

/// The descendants of a replayer. While this exists, those whose parent has ended become children
/// of this process (prctl(2), `PR_SET_CHILD_SUBREAPER`); when it is dropped, they are killed. So
/// drop it after the replayer has ended, and start no other process meanwhile.
#[derive(Debug)]
pub struct Descendants(());

impl Descendants {
    /// Adopts the descendants of a replayer that is started next.
    pub fn adopt() -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.count == 0 {
            running.others = children();
            // Without it, those with a living parent remain; there is no other way to find them.
            let _ = set_child_subreaper(Some(getpid()));
        }
        running.count += 1;
        Self(())
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.count -= 1;
        // Whose descendants they are is not known as long as another replayer runs.
        if running.count > 0 {
            return;
        }
        for _ in 0..ROUNDS {
            let mut left = children();
            left.retain(|it| !running.others.contains(it));
            if left.is_empty() {
                break;
            }
            for &child in &left {
                let _ = kill_process(child, Signal::KILL);
            }
            for &child in &left {
                let _ = waitpid(Some(child), WaitOptions::empty());
            }
        }
        let _ = set_child_subreaper(None);
    }
}

/// The children of this process: of all its threads, of which any may have been given an orphan.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let children = numbers.filter(|&number| parent(number) == Some(own));
    children.filter_map(Pid::from_raw).collect()
}

fn parent(process: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A shell that leaves a process in a session of its own.
    #[test]
    fn orphans_are_ended() {
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let descendants = Descendants::adopt();
        let script = "setsid sleep 600 >/dev/null 2>&1 & echo $!";
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        let orphan = String::from_utf8(output.stdout).unwrap();
        let orphan: i32 = orphan.trim().parse().unwrap();
        let own = getpid().as_raw_nonzero().get();
        assert_eq!(parent(orphan), Some(own));
        drop(descendants);
        assert_eq!(parent(orphan), None);
        // What was there before is left alone.
        assert!(matches!(other.try_wait(), Ok(None)));
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
