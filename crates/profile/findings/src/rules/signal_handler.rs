//! An allocation in a signal handler: `malloc` is not async-signal-safe
//! (signal-safety(7)), so the program may deadlock or destroy its heap.
//!
//! It speaks if a stack has a frame that a signal interrupted, as the unwinder found it by
//! the unwind information of the code to which handlers return (`__restore_rt`): the frames
//! inside of it are the handler's. It has no threshold.

use allotrope_profile::Site;

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::Context;
use crate::finding::Value::Count;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, some};
use crate::tried::Trials;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let is_possible = trials.process(|conditions| {
        conditions.fact(
            "interrupted",
            "a signal interrupted a function of a recorded stack",
            context.profile.frames.iter().any(|it| it.interrupted),
        )
    });
    if !is_possible {
        return Vec::new();
    }
    // By the handler: the frame that the signal frame called.
    let mut handlers: Vec<(u32, Vec<u32>)> = Vec::new();
    for (index, site) in (0..).zip(&context.process.sites) {
        let Some(handler) = handler(context, &site.stack) else {
            continue;
        };
        let function = context.frames.function(handler);
        match handlers
            .iter_mut()
            .find(|(it, _)| context.frames.function(*it) == function)
        {
            Some((_, sites)) => sites.push(index),
            None => handlers.push((handler, vec![index])),
        }
    }
    // What would be needed.
    if handlers.is_empty() {
        trials.candidate(&[], || 0, |conditions| allocates(context, &[], conditions));
    }
    let mut found = Vec::new();
    for (handler, sites) in handlers {
        let (id, decided) = trials.candidate(
            &sites,
            || allocations(context, &sites),
            |conditions| allocates(context, &sites, conditions),
        );
        found.extend(decided.map(|()| candidate(context, handler, &sites).tried_as(id)));
    }
    found
}

fn allocations(context: &Context<'_>, sites: &[u32]) -> u64 {
    let sites = sites.iter();
    sites.map(|&site| context.site(site).allocations).sum()
}

fn allocates(context: &Context<'_>, sites: &[u32], conditions: &mut Conditions) -> Option<()> {
    conditions.at_least(
        "allocations",
        "allocations inside of the interrupted function",
        Count(allocations(context, sites)),
        Count(1),
    )
}

/// The outermost frame of a handler that allocated: between it and the frame that the
/// signal interrupted there is one frame, that of the code to which the handler returns.
fn handler(context: &Context<'_>, stack: &[u32]) -> Option<u32> {
    let is_interrupted = |&index: &u32| {
        let frame = context.profile.frames.get(index as usize);
        frame.is_some_and(|frame| frame.interrupted)
    };
    let at = stack.iter().position(is_interrupted)?;
    stack.get(at.checked_sub(2)?).copied()
}

fn candidate(context: &Context<'_>, handler: u32, sites: &[u32]) -> Candidate {
    let weight = |site: &Site| site.allocations;
    let number = allocations(context, sites);
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
        parts: Vec::new(),
        numbers: vec![blocks("allocations", number)],
        mended: None,
    };
    Candidate {
        finding,
        function: None,
        also: Vec::new(),
        weak: false,
        stake: 1.0,
        tried: None,
    }
}
