// Each job gets a thread, where one thread worked off all of them.
// BLAME work
use std::hint::black_box;
use std::thread;

fn digest(job: u64) -> u64 {
    black_box(job).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(never)]
fn work(jobs: &[u64]) -> u64 {
    let mut sum: u64 = 0;
    for &job in jobs {
        #[cfg(not(after))]
        let digest = digest(job);
        #[cfg(after)]
        let digest = thread::spawn(move || digest(job)).join().unwrap(); // MARK blame
        sum = sum.wrapping_add(digest);
    }
    sum
}

fn main() {
    let first = thread::spawn(|| digest(1)).join().unwrap();
    let jobs: Vec<u64> = (first..first + 100).collect();
    black_box(work(&jobs));
}
