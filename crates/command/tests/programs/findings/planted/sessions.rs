//! blamed: log_in
//! Users log in and out; `log_out` forgets to remove the session.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

struct Session {
    token: String,
    visited: Vec<u32>,
}

#[derive(Default)]
struct Server {
    sessions: HashMap<u32, Box<Session>>,
    log: String,
}

impl Server {
    #[inline(never)]
    fn log_in(&mut self, user: u32) {
        let session = Session {
            token: format!("token-of-the-user-{user:016}"),
            visited: vec![user; 30],
        };
        self.sessions.insert(user, Box::new(session));
    }

    #[inline(never)]
    fn log_out(&mut self, user: u32) -> usize {
        let session = &self.sessions[&user];
        self.log.clear();
        self.log.push_str(&session.token);
        session.visited.len()
    }
}

fn main() {
    let mut server = Server::default();
    let mut sum = 0;
    for user in 0..10_000 {
        server.log_in(user);
        sum += server.log_out(user);
        if user % 100 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    println!("{sum}");
}
