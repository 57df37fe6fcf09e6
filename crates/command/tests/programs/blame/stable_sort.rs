// A stable sort, which needs memory, took the place of the unstable one.
// BLAME rank
use std::hint::black_box;

#[derive(Clone, Copy)]
struct Player {
    score: u64,
    id: u64,
    since: u64,
}

fn rank(players: &mut [Player]) {
    #[cfg(not(after))]
    players.sort_unstable_by_key(|player| player.score);
    #[cfg(after)]
    players.sort_by_key(|player| player.score); // MARK blame
}

fn main() {
    let players: Vec<Player> = (0..600)
        .map(|id| Player {
            score: id * 7919 % 601,
            id,
            since: id / 2,
        })
        .collect();
    let mut sum = 0;
    let mut ranked = players.clone();
    for _ in 0..250 {
        ranked.copy_from_slice(&players);
        rank(black_box(&mut ranked));
        sum += ranked[0].id + ranked[1].since;
    }
    black_box(sum);
}
