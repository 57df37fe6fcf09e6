//! Fork copies: a forked child that frees inherited memory, so that the kernel copies it.
//!
//! It speaks about a process that was forked and did not call `exec`, if it freed or
//! reallocated at least 10 % of the bytes that it inherited, and these blocks began in at
//! least 1 MiB of pages: the allocator writes into a block that it frees, and the first
//! write into a page that parent and child share copies it (fork(2)). Other writes to
//! inherited memory are not recorded, so it may be more.

use allotrope_profile::evidence::PAGE_BYTES;
use allotrope_text::numbers::{bytes as in_bytes, count};
use allotrope_trace::model::{Exit, Origin};

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::Context;
use crate::finding::Value::{Bytes, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, percent, ratio, share};
use crate::tried::Trials;

const MIN_SHARE: f64 = 0.1;
const MIN_BYTES: u64 = 1 << 20;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let freed = context.evidence.inherited_freed_bytes;
    let (id, found) = trials.candidate(&[], || freed, |conditions| copies(context, conditions));
    let found = found.map(|candidate| candidate.tried_as(id));
    found.into_iter().collect()
}

fn copies(context: &Context<'_>, conditions: &mut Conditions) -> Option<Candidate> {
    let process = context.process;
    let totals = &process.totals;
    let freed = context.evidence.inherited_freed_bytes;
    let copied = context.evidence.inherited_pages.saturating_mul(PAGE_BYTES);
    let of_inherited = ratio(freed, totals.inherited_bytes);
    conditions.fact(
        "forked",
        "the process was forked",
        process.origin == Origin::Fork,
    )?;
    conditions.fact(
        "no_exec",
        "it did not call exec",
        process.exit != Exit::Exec,
    )?;
    conditions.at_least(
        "share_of_inherited",
        "bytes it freed or reallocated, of those it inherited",
        Share(of_inherited),
        Share(MIN_SHARE),
    )?;
    conditions.at_least(
        "copied_bytes",
        "pages in which these blocks begin",
        Bytes(copied),
        Bytes(MIN_BYTES),
    )?;
    let text = format!(
        "This forked process freed or reallocated {} blocks that it inherited, {} of their \
         bytes. The allocator writes into what it frees, so the kernel copied at least {} \
         for it.",
        count(totals.inherited_deallocations),
        percent(of_inherited),
        in_bytes(copied),
    );
    let finding = Finding {
        rule: Rule::ForkCopies,
        severity: Severity::Hint,
        title: "a forked child frees what it inherited".to_owned(),
        measure: format!("{} copied", in_bytes(copied)),
        text,
        advice: "Let the child end by `_exit`, without destructors; fork before the memory \
                 is allocated; or call `exec`."
            .to_owned(),
        process: process.id,
        frame: None,
        sites: Vec::new(),
        parts: Vec::new(),
        numbers: vec![
            bytes("copied_bytes", copied),
            bytes("copied_bytes_threshold", MIN_BYTES),
            bytes("inherited_freed_bytes", freed),
            share("share_of_inherited", of_inherited),
            share("share_of_inherited_threshold", MIN_SHARE),
            blocks("inherited_freed_blocks", totals.inherited_deallocations),
        ],
        mended: None,
    };
    Some(Candidate {
        finding,
        function: None,
        also: Vec::new(),
        weak: false,
        stake: of_inherited.min(1.0),
        tried: None,
    })
}
