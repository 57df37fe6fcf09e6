//! The rule cache of a thread: maps a code address to its unwind rule (framehop:
//! `RuleCache`) and to its *code id*.
//!
//! A code id is a dense 16-bit number of a pair (code address, mapping); other tables are
//! indexed or keyed by it. Tables indexed by code id contain address, mapping and rule;
//! hash chains lead from an address to its ids. In front of them is a set-associative
//! cache with one word per address. Its tag and set together are the whole address, so
//! there are no false hits:
//!
//! ```text
//! bit 63..28  address >> SET_BITS: the tag
//! bit 27..16  index of the rule among the distinct ones
//! bit 15..0   code id; 0: the word is empty
//! ```
//! A program has a few hundred distinct rules, so this cache is small and the rules stay
//! in the processor's first-level cache.
//!
//! A signal handler may leave by a jump at any point. Therefore a code id belongs to one
//! address until all ids are reset, and each word of the cache is valid by itself or
//! empty. All zero is an empty cache.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use crate::arch::{FrameAddress, Rule, rule_from_cfi};
use crate::lru_set::{LruSet, promote};
use crate::memory::Memory;
use crate::{CacheLines, DEPTH, Host};

/// The number of a code address in a mapping; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct CodeId(pub u16);

impl CodeId {
    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Words of the cache. In cc1plus 11 K return addresses occur in stacks of allocations.
const CACHED: usize = 1 << 14;
/// Words of a set: half a cache line.
const WAYS: usize = 4;
const SETS: usize = CACHED / WAYS;
const CODE_ID_BITS: u32 = u16::BITS;
/// Number of code ids, including 0 for none.
const CODE_IDS: usize = 1 << CODE_ID_BITS;
/// If fewer code ids than these are left, all are reset before the next walk. A walk uses
/// at most one for each frame, and may have to start again.
const RESERVE: usize = 4 * DEPTH;
const DISTINCT_BITS: u32 = 12;
/// Most distinct rules in the cache. Code with another rule is found through its chain.
const DISTINCT: usize = 1 << DISTINCT_BITS;
/// The bits of the rule itself in an entry of `rules`.
const RULE_MASK: u64 = (1 << Rule::CODE_ID_SHIFT) - 1;
/// Number of hash chains of code ids.
const CHAINS: usize = 1 << 12;
/// Bits below the tag.
const CONTENT_BITS: u32 = CODE_ID_BITS + DISTINCT_BITS;
/// Low bits of an address that follow from its set and its other bits.
const SET_BITS: u32 = 12;
const _: () = assert!(SETS == 1 << SET_BITS);
const _: () = assert!(FrameAddress::BITS - SET_BITS + CONTENT_BITS <= u64::BITS);

/// The cache and the tables behind it.
#[repr(C)]
pub struct UnwindRuleCache {
    sets: CacheLines<[LruSet<WAYS>; SETS]>,
    distinct: CacheLines<[Cell<u64>; DISTINCT]>,
    distinct_count: Cell<usize>,
    /// By code id.
    mappings: [Cell<u16>; CODE_IDS],
    /// By code id: [`FrameAddress::bits`].
    addresses: [Cell<u64>; CODE_IDS],
    /// By code id: the rule (0 if it is not known), with the next code id of the hash
    /// chain in the bits of a rule's own code id.
    rules: [AtomicU64; CODE_IDS],
    /// The code id that was assigned last.
    last: Cell<u16>,
    /// The first code id of each chain.
    chains: [Cell<u16>; CHAINS],
}

/// The result of looking a code address up in the modules.
struct FoundRule {
    rule: Rule,
    mapping: u16,
    /// The rule is valid until modules change, so it can be cached.
    is_lasting: bool,
}

/// The tag of an address: the bits that do not follow from its set, at their position in
/// a word of the cache.
#[inline(always)]
const fn tag(code: FrameAddress) -> u64 {
    code.bits() >> SET_BITS << CONTENT_BITS
}

/// Whether a word XOR the tag of an address is a valid content, that is, the word is not
/// empty and has the same tag. An empty word must not match an address in the first page
/// either, whose tag is 0.
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

/// [`rule_of`] for an address that is not first in its set; moves it to the front.
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

/// [`rule_of`] for an address that is not in its set: takes the rule from the tables, or
/// from the module, and adds it to the set.
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

/// Finds the rule of a code address in the unwind information of its module. Runs on the
/// second stack, since reading call frame information needs much of it.
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
            // A process begins in the loader, in assembly code without unwind information
            // (`_dl_start_user`), which has no caller.
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

    /// The code id of this address for which `is_right` is true; 0 if there is none.
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

    /// Assigns a code id to an address that has none in this mapping. The id is taken
    /// before any table refers to it, in case a signal handler leaves by a jump.
    fn add(&self, code: FrameAddress, mapping: u16) -> CodeId {
        // Does not saturate, see `RESERVE`.
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

    /// The index of a rule in `distinct`, where it is added if necessary; `None` if there
    /// are too many.
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

    /// Whether [`forget_rules`] must be called before the next capture.
    pub(crate) fn are_code_ids_nearly_used_up(&self) -> bool {
        usize::from(self.last.get()) >= CODE_IDS - RESERVE
    }

    /// The mapping number of the code with this id.
    #[inline(always)]
    pub fn mapping(&self, id: CodeId) -> u16 {
        self.mappings[id.index()].get()
    }
}

/// The index of the hash chain of an address.
fn chain(code: FrameAddress) -> usize {
    // Fibonacci hashing (Knuth, volume 3, §6.4).
    let hash = code.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - CHAINS.trailing_zeros())) as usize
}

/// Removes all rules, since modules have changed. Code addresses keep their ids, unless
/// the ids are nearly used up; then all are reset. No frame may be cached.
pub(crate) fn forget_rules<H: Host>(host: H) {
    let rules = &host.unwinder().rules;
    for id in (1..=rules.last.get()).map(CodeId) {
        rules.set_rule(id, 0);
        // If a signal handler leaves in the middle, the next capture starts again.
        let address = rules.addresses[id.index()].get();
        for word in rules.set(FrameAddress::from_bits(address)) {
            word.store(0, Relaxed);
        }
    }
    if rules.are_code_ids_nearly_used_up() {
        forget_code_ids(host);
    }
}

/// Resets all code ids. The words of the cache must have been cleared.
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
