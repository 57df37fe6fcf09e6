// The sessions still alive are copied to a new list, where the others were removed in place.
// BLAME expire
use std::hint::black_box;

#[derive(Clone)]
struct Session {
    user: String,
    last_seen: u64,
}

struct Sessions {
    alive: Vec<Session>,
}

impl Sessions {
    fn expire(&mut self, now: u64) {
        let is_alive = |session: &&Session| session.last_seen + 1000 > now;
        #[cfg(not(after))]
        self.alive.retain(|session| is_alive(&session));
        #[cfg(after)]
        {
            self.alive = self.alive.iter().filter(is_alive).cloned().collect(); // MARK blame
        }
    }
}

fn main() {
    let mut sessions = Sessions {
        alive: (0..40)
            .map(|at| Session {
                user: format!("user {at}"),
                last_seen: at,
            })
            .collect(),
    };
    for now in 990..1010 {
        sessions.expire(black_box(now));
    }
    black_box(
        sessions
            .alive
            .iter()
            .map(|session| session.user.len())
            .sum::<usize>(),
    );
}
