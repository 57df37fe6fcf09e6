//! The data of a recording: the arena in this process, the process, its threads, the
//! texts of its image. Nothing here writes an event or begins anything by itself.

pub mod arena;
pub mod arena_client;
pub mod detours;
pub mod epoch;
pub mod image;
pub mod live_blocks;
pub mod module_files;
pub mod module_table;
pub mod named;
pub mod process;
pub mod sampler;
pub mod sampling;
pub mod stack_id_cache;
pub mod stubs;
pub mod thread;
pub mod thread_key;
pub mod watched;
