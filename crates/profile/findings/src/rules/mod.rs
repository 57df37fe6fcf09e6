//! The rules, one a file. The head of each file says when the rule speaks.

mod fork_copies;
mod growth;
mod growth_chain;
mod leak;
mod not_given_back;
mod peak;
mod queue;
mod signal_handler;
mod small_blocks;
mod spike;
mod stragglers;
mod temporaries;

use crate::context::Context;
use crate::rank::Candidate;

/// What all rules find in a process.
pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    const RULES: [fn(&Context<'_>) -> Vec<Candidate>; 12] = [
        queue::find,
        growth::find,
        temporaries::find,
        growth_chain::find,
        small_blocks::find,
        leak::find,
        stragglers::find,
        spike::find,
        peak::find,
        fork_copies::find,
        signal_handler::find,
        not_given_back::find,
    ];
    RULES.iter().flat_map(|rule| rule(context)).collect()
}
