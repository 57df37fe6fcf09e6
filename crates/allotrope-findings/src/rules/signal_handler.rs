//! An allocation in a signal handler: `malloc` is not async-signal-safe
//! (signal-safety(7)), so the program may deadlock or destroy its heap.
//!
//! It speaks if a stack has the frame to which a handler returns, `__restore_rt`, below its
//! innermost frame. It has no threshold. It is silent where the C library's file does not
//! name that function.

use allotrope_profile::Site;

use crate::context::Context;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, some};
use crate::rank::Candidate;

const RETURNS_TO: &str = "__restore_rt";

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let is_return = |&frame: &u32| {
        let frame = context.profile.frames.get(frame as usize);
        frame.is_some_and(|frame| frame.function == RETURNS_TO)
    };
    // By the handler: the frame that the signal frame called.
    let mut handlers: Vec<(u32, Vec<u32>)> = Vec::new();
    for (index, site) in (0..).zip(&context.process.sites) {
        let returns = site.stack.iter().position(is_return);
        let Some(handler) = returns.and_then(|at| site.stack.get(at.checked_sub(1)?)) else {
            continue;
        };
        let function = context.frames.function(*handler);
        match handlers
            .iter_mut()
            .find(|(it, _)| context.frames.function(*it) == function)
        {
            Some((_, sites)) => sites.push(index),
            None => handlers.push((*handler, vec![index])),
        }
    }
    let handlers = handlers.into_iter();
    handlers
        .map(|(handler, sites)| candidate(context, handler, &sites))
        .collect()
}

fn candidate(context: &Context<'_>, handler: u32, sites: &[u32]) -> Candidate {
    let weight = |site: &Site| site.allocations;
    let number: u64 = sites
        .iter()
        .map(|&site| context.site(site).allocations)
        .sum();
    let name = context.function_name(Some(handler));
    let text = format!(
        "{name} runs as a signal handler and makes {}. malloc is not async-signal-safe: if \
         the signal comes while the thread allocates, it may wait for itself or destroy the \
         heap.",
        some(number, "allocation"),
    );
    let finding = Finding {
        rule: Rule::SignalHandler,
        severity: Severity::Problem,
        title: "an allocation in a signal handler".to_owned(),
        measure: some(number, "allocation"),
        text,
        advice: "Only set a flag or write to a pipe in the handler, and do the rest outside \
                 (signal-safety(7))."
            .to_owned(),
        process: context.process.id,
        frame: Some(handler),
        sites: context.numbers_of(sites, weight),
        numbers: vec![blocks("allocations", number)],
    };
    Candidate {
        finding,
        function: None,
        also: Vec::new(),
        stake: 1.0,
    }
}
