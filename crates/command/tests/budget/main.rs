//! `allotrope test` and `allotrope compare`, run as by CI and by hand.

#[path = "../support/mod.rs"]
mod support;

mod budgets;
mod build_systems;
mod compare;
mod conservation;
mod culprit;
mod defaults;
mod examples;
mod foreign;
mod history;
mod merging;
mod noise;
mod outputs;
mod project;
mod python;
mod starting;
mod submodules;
mod trouble;
mod windows;
