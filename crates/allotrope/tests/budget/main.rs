//! `allotrope test` and `allotrope compare`, as CI and people use them.

#[path = "../support/mod.rs"]
mod support;

mod budgets;
mod compare;
mod examples;
mod outputs;
mod project;
mod python;
mod trouble;
mod windows;
