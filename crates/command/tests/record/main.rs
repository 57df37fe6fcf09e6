//! Recording: what is counted, for which programs, and how recordings begin and end.

// As users name it, for the attribute `#[allotrope::test]`.
extern crate allotrope_client as allotrope;

#[path = "../recorded/mod.rs"]
mod recorded;
#[path = "../support/mod.rs"]
mod support;

mod attribution;
mod client;
mod client_rust;
mod counted_windows;
mod counts;
mod deep_binding;
mod doctor;
mod endings;
mod entry_points;
mod exporting_allocators;
mod free_stacks;
mod jit_code;
mod job_control;
mod killed_pairs;
mod leaks;
mod linked_allocators;
mod module_files;
mod named_allocators;
mod nameless_code;
mod namespaces;
mod neighbours;
mod options;
mod other_allocators;
mod passthrough;
mod privileges;
mod probes;
mod processes;
mod raw_paths;
mod reachability;
mod real_programs;
mod recorded_system;
mod refusals;
mod reliability;
mod symbols_later;
mod threads;
mod unseen;
mod unwinding;
mod upgraded;
mod windows;
mod written_files;
