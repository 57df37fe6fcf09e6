//! What a program reports to the recorder through `allotrope.h`. The expected
//! events follow from the sources `programs/client_*.c`. (How the header compiles
//! is tested beside it.)

mod allocators;
mod files;
mod pools;
mod python;
mod remedies;
mod windows;
