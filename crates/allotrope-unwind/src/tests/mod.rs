//! Tests on the host, without a recorded program.
//!
//! - `program`: a simulated program (functions with real call frame information, a
//!   stack in memory) whose true stacks are known; `random_programs` captures it.
//! - `rules`, `rule_cache`: each kind of rule, and the cache's limits.
//! - `oracle`: framehop and the general unwinder on every row of real modules.
//! - `hostile`: real call frame information with random mutations.

mod hostile;
mod oracle;
mod process;
mod program;
mod random_programs;
mod rule_cache;
mod rules;
