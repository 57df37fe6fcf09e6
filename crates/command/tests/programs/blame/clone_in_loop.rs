// The loop clones each job, because the runner came to take it by value.
// BLAME run_all
use std::hint::black_box;

#[derive(Clone, Debug)]
struct Job {
    command: String,
    retries: u32,
}

#[cfg(not(after))]
#[inline(never)]
fn run(job: &Job) -> usize {
    black_box(job).command.len() + job.retries as usize
}

#[cfg(after)]
#[inline(never)]
fn run(job: Job) -> usize {
    black_box(&job).command.len() + job.retries as usize
}

fn run_all(jobs: &[Job]) -> usize {
    let mut done = 0;
    for job in jobs {
        #[cfg(not(after))]
        let size = run(job);
        #[cfg(after)]
        let size = run(job.clone()); // MARK blame
        done += size;
    }
    done
}

fn main() {
    let jobs: Vec<Job> = (0..800)
        .map(|at| Job {
            command: format!("rebuild index {at}"),
            retries: at % 3,
        })
        .collect();
    black_box(run_all(&jobs));
}
