//! What a thread knows of code addresses: the unwind rule of each, and a number
//! for it.
//!
//! A *place* is a code address (with the exact mark) and the mapping that it lies
//! in. Those that the thread has met are numbered, so that 16 bits stand for one
//! wherever many are kept. A walk asks for the rule of each frame: for that
//! there is a cache of one word an address, in sets of four, whose tag and set
//! together are the whole address, so that it never answers for another one. The
//! word tells the place's number and which of the few hundred distinct rules of a
//! program its rule is; so the cache is small, and the rules stay close by.
//!
//! Everything is written so that it holds whenever a signal handler jumps away:
//! a number names one place until all are forgotten, and a word of the cache is
//! right by itself or empty. Memory that is all zero knows no place.
//!
//! How a rule is found that is not known is `modules`' and `cfi`'s.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::arch::rule::Rule;
use crate::capture;
use crate::modules;
use crate::recent::enter;
use crate::stack_ids;
use crate::thread::{DEPTH, Guarded, Lines, Thread};

/// Words of the cache. cc1plus has 11 K return addresses from which it allocates.
const CACHED: usize = 1 << 14;
/// Words among which one can be: half a cache line.
const WAYS: usize = 4;
const SETS: usize = CACHED / WAYS;
/// Bits of a place's number.
const NUMBER_BITS: u32 = 16;
/// Numbers; the first one is given to none.
const NUMBERS: usize = 1 << NUMBER_BITS;
/// When fewer than these are left, all are forgotten before the next walk: one
/// gives at most as many as there are frames, and may have to begin once more.
const RESERVE: usize = 4 * DEPTH;
/// Bits of the index of a distinct rule.
const DISTINCT_BITS: u32 = 12;
/// Distinct rules. Places with rules beyond those are found in their chain.
const DISTINCT: usize = 1 << DISTINCT_BITS;
/// Bits of a rule without the number above it.
const RULE_BITS: u32 = Rule::NUMBER_SHIFT;
const RULE_MASK: u64 = (1 << RULE_BITS) - 1;
/// Chains of places whose addresses have a hash in common.
const CHAINS: usize = 1 << 12;
/// What a word of the cache says beneath its tag.
const KNOWN_BITS: u32 = NUMBER_BITS + DISTINCT_BITS;
/// Bits of an address that follow from the set and the rest.
const SET_BITS: u32 = 12;
const _: () = assert!(SETS.is_power_of_two() && SETS >= 1 << SET_BITS);
const _: () = assert!(Rule::NUMBER_SHIFT - SET_BITS + KNOWN_BITS == u64::BITS);

/// The tables.
#[repr(C)]
pub struct Places {
    /// By set: tag << `KNOWN_BITS` | distinct rule << `NUMBER_BITS` | number.
    cache: Lines<[[u64; WAYS]; SETS]>,
    /// The distinct rules.
    distinct: Lines<[u64; DISTINCT]>,
    /// How many of them there are.
    distinct_count: usize,
    /// By number, the mapping.
    mappings: [u16; NUMBERS],
    /// By number, the address.
    addresses: [u64; NUMBERS],
    /// By number, the rule (0: not known now), and above it the next number of
    /// the chain.
    rules: [u64; NUMBERS],
    /// The last number given.
    last: usize,
    /// The first number of each chain.
    chains: [u16; CHAINS],
}

#[inline(always)]
unsafe fn places(guarded: *mut Guarded) -> *mut Places {
    // SAFETY: the thread's own state.
    unsafe { &raw mut (*guarded).places }
}

/// Where the cache keeps an address, if it does.
#[inline(always)]
unsafe fn set(guarded: *mut Guarded, pc: u64) -> *mut u64 {
    let set = (pc ^ pc >> SET_BITS) as usize & (SETS - 1);
    // SAFETY: the thread's own state.
    unsafe {
        (&raw mut (*places(guarded)).cache)
            .cast::<u64>()
            .add(set * WAYS)
    }
}

/// The tag of an address: all that does not follow from its set.
#[inline(always)]
const fn tag(pc: u64) -> u64 {
    pc >> SET_BITS << KNOWN_BITS
}

/// What a word with this tag says; anything else gives a number that is 0 or too
/// large. Not so for the tag 0, of addresses in the first page: an empty word has it.
#[inline(always)]
const fn is_known(known: u64) -> bool {
    known.wrapping_sub(1) < (1 << KNOWN_BITS) - 1
}

/// The rule of an address, with the number of its place.
#[inline(always)]
pub unsafe fn rule_of(thread: *mut Thread, pc: u64) -> Rule {
    // SAFETY: the thread's own state; the index has so many bits.
    unsafe {
        let guarded = Thread::guarded(thread);
        let known = *set(guarded, pc) ^ tag(pc);
        if is_known(known) {
            cached(guarded, known)
        } else {
            second_look(thread, pc)
        }
    }
}

#[inline(always)]
unsafe fn cached(guarded: *mut Guarded, known: u64) -> Rule {
    // SAFETY: the thread's own state; the index has so many bits.
    unsafe {
        let distinct = (&raw const (*places(guarded)).distinct).cast::<u64>();
        Rule(*distinct.add((known >> NUMBER_BITS) as usize) | known << Rule::NUMBER_SHIFT)
    }
}

/// [`rule_of`] for an address that is not first in its set; it then is.
#[inline(never)]
unsafe fn second_look(thread: *mut Thread, pc: u64) -> Rule {
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        let set = set(guarded, pc);
        for way in 1..WAYS {
            let word = *set.add(way);
            if is_known(word ^ tag(pc)) {
                enter(set, way, word);
                return cached(guarded, word ^ tag(pc));
            }
        }
        look_up(thread, pc)
    }
}

#[cold]
#[inline(never)]
unsafe fn look_up(thread: *mut Thread, pc: u64) -> Rule {
    // SAFETY: the thread's own state; numbers are below `NUMBERS`.
    unsafe {
        let guarded = Thread::guarded(thread);
        let places = places(guarded);
        let mut number = find(places, pc, |number| rule_at(places, number) != 0);
        if number == 0 {
            let found = modules::look_up_rule(thread, pc);
            number = find(places, pc, |number| {
                (*places).mappings[number] == found.mapping
            });
            if number == 0 {
                number = give_number(guarded, pc, found.mapping);
            }
            if !found.is_lasting {
                return found.rule.numbered(number as u16);
            }
            set_rule(places, number, found.rule);
        }
        let rule = rule_at(places, number);
        if let Some(distinct) = distinct(places, rule) {
            let known = (distinct << NUMBER_BITS | number) as u64;
            enter(set(guarded, pc), WAYS - 1, tag(pc) | known);
        }
        Rule(rule).numbered(number as u16)
    }
}

/// The number of a place at this address that is as asked for; 0: there is none.
unsafe fn find(places: *mut Places, pc: u64, is_right: impl Fn(usize) -> bool) -> usize {
    // SAFETY: the thread's own state; numbers are below `NUMBERS`.
    unsafe {
        let mut number = usize::from((*places).chains[chain(pc)]);
        while number != 0 && !((*places).addresses[number] == pc && is_right(number)) {
            number = ((*places).rules[number] >> RULE_BITS) as usize;
        }
        number
    }
}

const fn chain(pc: u64) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CHAINS.trailing_zeros())) as usize
}

unsafe fn rule_at(places: *mut Places, number: usize) -> u64 {
    // SAFETY: the thread's own state.
    unsafe { (*places).rules[number] & RULE_MASK }
}

unsafe fn set_rule(places: *mut Places, number: usize, rule: Rule) {
    // SAFETY: the thread's own state.
    unsafe {
        let word = &raw mut (*places).rules[number];
        word.write_volatile(*word & !RULE_MASK | rule.0 & RULE_MASK);
    }
}

/// A number for a place that has none. It is used up before anything leads to it.
unsafe fn give_number(guarded: *mut Guarded, pc: u64, mapping: u16) -> usize {
    // SAFETY: the thread's own state.
    unsafe {
        let places = places(guarded);
        // The reserve is never used up: see there.
        let number = ((*places).last + 1).min(NUMBERS - 1);
        (&raw mut (*places).last).write_volatile(number);
        compiler_fence(SeqCst);
        let chain = &raw mut (*places).chains[chain(pc)];
        (*places).addresses[number] = pc;
        (*places).mappings[number] = mapping;
        (*places).rules[number] = u64::from(*chain) << RULE_BITS;
        compiler_fence(SeqCst);
        chain.write_volatile(number as u16);
        if are_nearly_full(guarded) {
            capture::look_at_generation(guarded);
        }
        number
    }
}

/// The index of a rule among the distinct ones; `None`: there are too many.
unsafe fn distinct(places: *mut Places, rule: u64) -> Option<usize> {
    // SAFETY: the thread's own state.
    unsafe {
        let count = (*places).distinct_count;
        let distinct = &mut (*places).distinct.0;
        if let Some(index) = distinct[..count].iter().position(|known| *known == rule) {
            return Some(index);
        }
        let new = distinct.get_mut(count)?;
        (&raw mut *new).write_volatile(rule);
        compiler_fence(SeqCst);
        (&raw mut (*places).distinct_count).write_volatile(count + 1);
        Some(count)
    }
}

/// Whether the next stack must not begin before [`forget_rules`] was called.
pub unsafe fn are_nearly_full(guarded: *mut Guarded) -> bool {
    // SAFETY: the thread's own state.
    unsafe { (*places(guarded)).last >= NUMBERS - RESERVE }
}

/// The mapping that a place is in.
#[inline(always)]
pub unsafe fn mapping(guarded: *mut Guarded, number: u16) -> u16 {
    // SAFETY: the thread's own state.
    unsafe { (*places(guarded)).mappings[usize::from(number)] }
}

/// Mappings have changed: no rule is known any more. Places keep their numbers.
/// If those are nearly used up, all places are forgotten, and so no state may be
/// kept.
pub unsafe fn forget_rules(guarded: *mut Guarded) {
    // SAFETY: the thread's own state.
    unsafe {
        let places = places(guarded);
        for number in 1..=(*places).last {
            set_rule(places, number, Rule(0));
            // Left in the middle, this begins anew.
            set(guarded, (*places).addresses[number]).write_bytes(0, WAYS);
        }
        if are_nearly_full(guarded) {
            forget(guarded);
        }
    }
}

/// Forgets all places, once no word of the cache is left that names one.
#[cold]
unsafe fn forget(guarded: *mut Guarded) {
    // SAFETY: the thread's own state.
    unsafe {
        stack_ids::forget(guarded);
        let places = places(guarded);
        (&raw mut (*places).chains).write_bytes(0, 1);
        compiler_fence(SeqCst);
        (&raw mut (*places).distinct_count).write_volatile(0);
        (&raw mut (*places).last).write_volatile(0);
    }
}
