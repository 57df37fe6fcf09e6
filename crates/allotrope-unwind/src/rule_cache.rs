//! The rule cache of a thread: from code address to unwind rule (framehop:
//! `RuleCache`), and to the *code id* that stands for the address elsewhere.
//!
//! A code id is a dense 16-bit number of a pair (code address, mapping). The
//! tables by code id hold address, mapping and rule; hash chains lead from an
//! address to its ids. In front of them is a set-associative cache of one word an
//! address, whose tag and set together are the whole address, so that it never
//! answers for another one:
//!
//! ```text
//! bit 63..28  address >> SET_BITS: the tag
//! bit 27..16  index of the rule among the distinct ones
//! bit 15..0   code id; 0: the word is empty
//! ```
//! A program has a few hundred distinct rules, so the cache is small and the
//! rules stay in the first-level cache.
//!
//! A signal handler may jump away from any point: a code id stands for one
//! address until all are forgotten, and a word of the cache is right by itself or
//! empty. Memory that is all zero is an empty cache.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use crate::arch::{FrameAddress, Rule, rule_from_cfi};
use crate::lru_set::{LruSet, promote};
use crate::memory::Memory;
use crate::{CacheLines, DEPTH, Host};

/// Stands for a code address in a mapping; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct CodeId(pub u16);

impl CodeId {
    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Words of the cache. cc1plus has 11 K return addresses from which it allocates.
const CACHED: usize = 1 << 14;
/// Words of a set: half a cache line.
const WAYS: usize = 4;
const SETS: usize = CACHED / WAYS;
const CODE_ID_BITS: u32 = u16::BITS;
/// Code ids; the first one stands for none.
const CODE_IDS: usize = 1 << CODE_ID_BITS;
/// When fewer code ids than these are left, all are forgotten before the next walk:
/// one takes at most as many as there are frames, and may have to begin once more.
const RESERVE: usize = 4 * DEPTH;
const DISTINCT_BITS: u32 = 12;
/// Distinct rules. Code with a rule beyond those is found through its chain.
const DISTINCT: usize = 1 << DISTINCT_BITS;
/// The rule proper in an entry of `rules`.
const RULE_MASK: u64 = (1 << Rule::CODE_ID_SHIFT) - 1;
/// Hash chains of code ids.
const CHAINS: usize = 1 << 12;
/// Bits below the tag.
const CONTENT_BITS: u32 = CODE_ID_BITS + DISTINCT_BITS;
/// Low bits of an address that follow from its set and its other bits.
const SET_BITS: u32 = 12;
const _: () = assert!(SETS == 1 << SET_BITS);
const _: () = assert!(FrameAddress::BITS - SET_BITS + CONTENT_BITS <= u64::BITS);

/// The tables.
#[repr(C)]
pub struct UnwindRuleCache {
    sets: CacheLines<[LruSet<WAYS>; SETS]>,
    distinct: CacheLines<[Cell<u64>; DISTINCT]>,
    distinct_count: Cell<usize>,
    /// By code id.
    mappings: [Cell<u16>; CODE_IDS],
    /// By code id: [`FrameAddress::bits`].
    addresses: [Cell<u64>; CODE_IDS],
    /// By code id: the rule (0: not known now), and in place of its own code id the
    /// next one of the chain.
    rules: [AtomicU64; CODE_IDS],
    /// The code id given last.
    last: Cell<u16>,
    /// The first code id of each chain.
    chains: [Cell<u16>; CHAINS],
}

/// What a look at the modules gave for a code address.
struct FoundRule {
    rule: Rule,
    mapping: u16,
    /// It is valid until modules change.
    is_lasting: bool,
}

/// All bits of an address that do not follow from its set.
#[inline(always)]
const fn tag(code: FrameAddress) -> u64 {
    code.bits() >> SET_BITS << CONTENT_BITS
}

/// Whether a word XOR the tag of an address is content: not so if the word is of
/// another address, whose tag differs, nor if it is empty. For an address in the
/// first page, whose tag is 0, an empty word must not pass either.
#[inline(always)]
const fn is_content(content: u64) -> bool {
    content.wrapping_sub(1) < (1 << CONTENT_BITS) - 1
}

/// The rule of a code address, with its code id.
#[inline(always)]
pub fn rule_of<H: Host>(host: H, code: FrameAddress) -> Rule {
    let rules = &host.unwinder().rules;
    let content = rules.set(code)[0].load(Relaxed) ^ tag(code);
    if is_content(content) {
        rules.rule_of_content(content)
    } else {
        rule_of_slow(host, code)
    }
}

/// [`rule_of`] for an address that is not first in its set; it then is.
#[inline(never)]
fn rule_of_slow<H: Host>(host: H, code: FrameAddress) -> Rule {
    let rules = &host.unwinder().rules;
    let set = rules.set(code);
    for way in 1..WAYS {
        let word = set[way].load(Relaxed);
        if is_content(word ^ tag(code)) {
            promote(set, way, word);
            return rules.rule_of_content(word ^ tag(code));
        }
    }
    look_up(host, code)
}

#[cold]
#[inline(never)]
fn look_up<H: Host>(host: H, code: FrameAddress) -> Rule {
    let rules = &host.unwinder().rules;
    let mut id = rules.find(code, |id| rules.rule(id) != 0);
    if id.0 == 0 {
        let found = find_rule(host, code);
        id = rules.find(code, |id| rules.mapping(id) == found.mapping);
        if id.0 == 0 {
            id = rules.add(code, found.mapping);
            if rules.are_code_ids_nearly_used_up() {
                host.unwinder().check_generation_next();
            }
        }
        if !found.is_lasting {
            return found.rule.with_code_id(id);
        }
        rules.set_rule(id, found.rule.bits());
    }
    let rule = rules.rule(id);
    if let Some(index) = rules.distinct_index(rule) {
        let content = (index as u64) << CODE_ID_BITS | u64::from(id.0);
        promote(rules.set(code), WAYS - 1, tag(code) | content);
    }
    Rule::from_bits(rule).with_code_id(id)
}

/// Finds the rule of a code address in the unwind information of its module, on
/// the second stack: reading call frame information takes some.
#[inline(never)]
fn find_rule<H: Host>(host: H, code: FrameAddress) -> FoundRule {
    host.on_second_stack(|| {
        let without = Rule::without_information(host.follows_frame_pointers());
        let address = code.for_lookup();
        let Some(found) = host.module_at(address) else {
            return FoundRule {
                rule: without,
                mapping: H::NO_MAPPING,
                is_lasting: true,
            };
        };
        let mut memory = Memory::unknown(H::page_is_readable);
        let mut rule = rule_from_cfi(&found.module, address, &mut memory);
        if rule.is_without_information() {
            // A process begins in the loader, in assembler without unwind
            // information (`_dl_start_user`): nothing is outside of it.
            rule = if found.is_loader {
                Rule::outermost()
            } else {
                without
            };
        }
        FoundRule {
            rule: if found.is_loader {
                rule.in_loader()
            } else {
                rule
            },
            mapping: found.mapping.unwrap_or(H::NO_MAPPING),
            is_lasting: found.mapping.is_some(),
        }
    })
}

impl UnwindRuleCache {
    #[inline(always)]
    fn set(&self, code: FrameAddress) -> &LruSet<WAYS> {
        let set = (code.bits() ^ code.bits() >> SET_BITS) as usize & (SETS - 1);
        &self.sets.0[set]
    }

    #[inline(always)]
    fn rule_of_content(&self, content: u64) -> Rule {
        let index = (content >> CODE_ID_BITS) as usize;
        let rule = Rule::from_bits(self.distinct.0[index].get());
        rule.with_code_id(CodeId(content as u16))
    }

    /// The code id of the address for which `is_right` holds; 0: there is none.
    fn find(&self, code: FrameAddress, is_right: impl Fn(CodeId) -> bool) -> CodeId {
        let mut id = CodeId(self.chains[chain(code)].get());
        while id.0 != 0 && !(self.addresses[id.index()].get() == code.bits() && is_right(id)) {
            id = Rule::from_bits(self.rules[id.index()].load(Relaxed)).code_id();
        }
        id
    }

    fn rule(&self, id: CodeId) -> u64 {
        self.rules[id.index()].load(Relaxed) & RULE_MASK
    }

    fn set_rule(&self, id: CodeId, rule: u64) {
        let entry = &self.rules[id.index()];
        let next = entry.load(Relaxed) & !RULE_MASK;
        entry.store(next | rule & RULE_MASK, Relaxed);
    }

    /// A code id for an address that has none in this mapping. It is used up before
    /// anything leads to it.
    fn add(&self, code: FrameAddress, mapping: u16) -> CodeId {
        // The reserve is never used up: see there.
        let id = CodeId(self.last.get().saturating_add(1));
        self.last.set(id.0);
        compiler_fence(SeqCst);
        let chain = &self.chains[chain(code)];
        self.addresses[id.index()].set(code.bits());
        self.mappings[id.index()].set(mapping);
        let next = Rule::NOTHING.with_code_id(CodeId(chain.get()));
        self.rules[id.index()].store(next.bits(), Relaxed);
        compiler_fence(SeqCst);
        chain.set(id.0);
        id
    }

    /// The index of a rule among the distinct ones; `None`: there are too many.
    pub(crate) fn distinct_index(&self, rule: u64) -> Option<usize> {
        let count = self.distinct_count.get();
        let known = self.distinct.0.get(..count)?;
        if let Some(index) = known.iter().position(|known| known.get() == rule) {
            return Some(index);
        }
        self.distinct.0.get(count)?.set(rule);
        compiler_fence(SeqCst);
        self.distinct_count.set(count + 1);
        Some(count)
    }

    /// Whether the next stack must not begin before [`forget_rules`] was called.
    pub(crate) fn are_code_ids_nearly_used_up(&self) -> bool {
        usize::from(self.last.get()) >= CODE_IDS - RESERVE
    }

    /// The mapping number of the code with this id.
    #[inline(always)]
    pub fn mapping(&self, id: CodeId) -> u16 {
        self.mappings[id.index()].get()
    }
}

fn chain(code: FrameAddress) -> usize {
    // Fibonacci hashing (Knuth, volume 3, §6.4).
    let hash = code.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - CHAINS.trailing_zeros())) as usize
}

/// Modules have changed: no rule is known any more. Code keeps its ids, unless they
/// are nearly used up: then all are forgotten. No frame may be cached.
pub(crate) fn forget_rules<H: Host>(host: H) {
    let rules = &host.unwinder().rules;
    for id in (1..=rules.last.get()).map(CodeId) {
        rules.set_rule(id, 0);
        // Left in the middle, this begins anew.
        let address = rules.addresses[id.index()].get();
        for word in rules.set(FrameAddress::from_bits(address)) {
            word.store(0, Relaxed);
        }
    }
    if rules.are_code_ids_nearly_used_up() {
        forget_code_ids(host);
    }
}

/// Forgets all code ids. No word of the cache has one any more.
#[cold]
fn forget_code_ids<H: Host>(host: H) {
    host.forget_code_ids();
    let rules = &host.unwinder().rules;
    for chain in &rules.chains {
        chain.set(0);
    }
    compiler_fence(SeqCst);
    rules.distinct_count.set(0);
    rules.last.set(0);
}
