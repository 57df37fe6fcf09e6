//! The reliability matrix: every promise about processes, threads, behaviour
//! and our own failures, shown by a program whose counts are known from its
//! source. `docs/reliability.md` is generated from a run of these tests by
//! `scripts/reliability`; `ALLOTROPE_SLOW=1` makes the counts larger.

mod behaviour;
mod blocked;
mod completed;
mod core_dumps;
mod endings;
mod limits;
mod matrix;
mod own_failures;
mod process_trees;
mod servers;
mod suites;
mod targets;
mod threads;
