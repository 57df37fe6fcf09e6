//! Allocations from very many distinct stacks: `stacks STACKS ALLOCATIONS`.
//!
//! Walks a tree of calls, four call sites a function, the way a compiler walks
//! what it compiles, and allocates once at each node: as many distinct stacks
//! as nodes. The walk begins anew until there are ALLOCATIONS. Prints the wall
//! time of all walks in nanoseconds an allocation.

use std::hint::black_box;
use std::time::Instant;

const SITES: u64 = 4;

struct Walk {
    nodes_left: u64,
    state: u64,
}

impl Walk {
    /// A block of 16 to 143 bytes.
    fn block(&mut self) -> Vec<u8> {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Vec::with_capacity(16 + (self.state >> 57) as usize)
    }
}

#[inline(never)]
fn node(walk: &mut Walk, depth: u32) -> u64 {
    if walk.nodes_left == 0 {
        return 0;
    }
    walk.nodes_left -= 1;
    let block = black_box(walk.block());
    let mut sum = block.capacity() as u64;
    if depth > 0 {
        sum += black_box(node(walk, depth - 1));
        sum ^= black_box(node(walk, depth - 1));
        sum += black_box(node(walk, depth - 1)) << 1;
        sum ^= black_box(node(walk, depth - 1)) << 2;
    }
    sum
}

/// The least depth of a tree with as many nodes as this.
fn depth_for(stacks: u64) -> u32 {
    let (mut depth, mut nodes, mut level) = (0, 1, 1);
    while nodes < stacks {
        depth += 1;
        level *= SITES;
        nodes += level;
    }
    depth
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let [stacks, allocations] = numbers[..] else { panic!("stacks STACKS ALLOCATIONS") };
    let depth = depth_for(stacks);
    let start = Instant::now();
    let (mut made, mut sum, mut state) = (0, 0, 7);
    while made < allocations {
        let nodes = stacks.min(allocations - made);
        let mut walk = Walk { nodes_left: nodes, state };
        sum ^= node(&mut walk, depth);
        state = walk.state;
        made += nodes;
    }
    black_box(sum);
    println!("{:.3}", start.elapsed().as_nanos() as f64 / made as f64);
}
