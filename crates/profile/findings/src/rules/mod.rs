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

use allotrope_attribution::Origin;

use crate::candidate::Candidate;
use crate::context::Context;
use crate::finding::Rule;
use crate::tried::{AllTried, Outcome};

/// What all rules find in a process.
pub(crate) fn find(context: &Context<'_>, all: &mut AllTried<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for rule in Rule::ALL {
        let find = match rule {
            Rule::Queue => queue::find,
            Rule::Growth => growth::find,
            Rule::Temporaries => temporaries::find,
            Rule::GrowthChain => growth_chain::find,
            Rule::SmallBlocks => small_blocks::find,
            Rule::Leak => leak::find,
            Rule::Stragglers => stragglers::find,
            Rule::Spike => spike::find,
            Rule::Peak => peak::find,
            Rule::ForkCopies => fork_copies::find,
            Rule::SignalHandler => signal_handler::find,
            Rule::NotGivenBack => not_given_back::find,
        };
        let mut trials = all.of(rule, context);
        let of_rule = find(context, &mut trials);
        trials.finish(&of_rule);
        found.extend(of_rule);
    }
    found.retain(|candidate| match says_nothing(context, candidate) {
        Some(why) => {
            all.end(candidate.tried, Outcome::SaysNothing(why));
            false
        }
        None => true,
    });
    found
}

/// Why the function that a finding names says nothing: of code without source, it is a `main` without a
/// name, a dispatcher that others' blocks pass through, or its callers are unknown.
fn says_nothing(context: &Context<'_>, found: &Candidate) -> Option<&'static str> {
    let frame = found.finding.frame?;
    if context.frames.origin(frame) >= Origin::Own {
        return None;
    }
    let function = context.frames.function(frame);
    let name_of = |frame: u32| context.profile.frames.get(frame as usize);
    let is_start =
        |frame: u32| name_of(frame).is_some_and(|it| it.function.starts_with("__libc_start"));
    let name = name_of(frame).map_or("", |it| &*it.function);
    if LOOPS.iter().any(|word| ends_with_word(name, word)) {
        return Some("it has no source, and by its name it calls other functions for each of many");
    }
    let is_main = name_of(frame).is_some_and(|it| &*it.function == "main");
    // Sites whose stack passes the function, and those of which it is the head.
    let (mut passing, mut heads, mut told) = (0_u64, 0_u64, false);
    for index in 0..context.process.sites.len() as u32 {
        let stack = &context.site(index).stack;
        let is_of = |&frame: &u32| context.frames.function(frame) == function;
        if !stack.iter().any(is_of) {
            continue;
        }
        passing += 1;
        if context.head(index).as_ref().is_some_and(is_of) {
            heads += 1;
            let caller = stack.get(context.head_index(index) + 1);
            told |= caller.is_some_and(|&caller| is_main || !is_start(caller));
        }
    }
    let is_dispatcher = context.frames.is_dispatcher(frame) && heads * DISPATCHED < passing;
    match (told, is_dispatcher) {
        (false, _) => Some("it has no source, and its callers are unknown"),
        (true, true) => Some("it has no source, and most stacks that pass it have other heads"),
        (true, false) => None,
    }
}

/// Whether a name ends with a word, which begins with a capital or after something that is no letter.
fn ends_with_word(name: &str, word: &str) -> bool {
    let Some(at) = name.len().checked_sub(word.len()) else {
        return false;
    };
    let (Some(before), Some(last)) = (name.get(..at), name.get(at..)) else {
        return false;
    };
    let is_capital = last.starts_with(|it: char| it.is_ascii_uppercase());
    last.eq_ignore_ascii_case(word)
        && (is_capital || !before.ends_with(|it: char| it.is_ascii_alphabetic()))
}

/// Last words of the names of interpreters' and event loops, and of what calls other functions for each
/// of many.
const LOOPS: [&str; 12] = [
    "cycle",
    "dispatch",
    "dispatcher",
    "engine",
    "eval",
    "exec",
    "execute",
    "foreach",
    "interpret",
    "loop",
    "mainloop",
    "perform",
];

/// A dispatcher is the head of less than one of so many stacks that pass it.
const DISPATCHED: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_a_name_says_that_it_is_a_loop() {
        let is_loop = |name: &str| LOOPS.iter().any(|word| ends_with_word(name, word));
        for name in [
            "sqlite3VdbeExec",
            "gforth_engine",
            "ngx_single_process_cycle",
        ] {
            assert!(is_loop(name), "{name}");
        }
        for name in [
            "rec_sex_eval_node",
            "fcexec",
            "bicycle",
            "exec_words",
            "é",
            "",
        ] {
            assert!(!is_loop(name), "{name}");
        }
    }
}
