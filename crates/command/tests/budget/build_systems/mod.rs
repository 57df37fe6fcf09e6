//! What Allotrope has for build systems and test harnesses: each is used as a project
//! would, with Allotrope and without.

mod cargo;
mod cmake;
mod comment;
mod example;
mod files;
mod meson;
mod pytest;
