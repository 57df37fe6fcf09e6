//! Tests on the host, without a recorded program.
//!
//! - `program`: a simulated program (functions with real call frame information, a stack
//!   in memory) whose true stacks are known; `random_programs` captures its stacks.
//! - `rules`, `rule_cache`: each kind of rule, and the cache's limits.
//! - `oracle`: comparison with framehop and the general unwinder for every row of real
//!   modules.
//! - `hostile`: call frame information of real modules with random mutations.
//! - `process`: access to the modules and the memory of the test process.

mod hostile;
mod oracle;
mod process;
mod program;
mod random_programs;
mod rule_cache;
mod rules;
