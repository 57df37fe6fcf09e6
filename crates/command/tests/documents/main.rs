//! The documents that the project grew from, each walked from top to bottom: a program of the
//! document's shape, and for each thing that the document shows a test that has its words as name.

#[path = "../support/mod.rs"]
mod support;

mod hakmem;
mod poireau;
mod rust_journey;
mod swift_nio;
mod swift_nio_older;
