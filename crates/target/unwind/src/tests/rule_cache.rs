//! The rule cache: hits, invalidation, limits.

use super::program::{FUNCTION_BYTES, Layout, World};
use crate::arch::{FrameAddress, rule_from_cfi};
use crate::lru_set::{LruSet, promote};
use crate::memory::Memory;
use crate::rule_cache::{forget_rules, rule_of};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn layouts(count: usize) -> Vec<Layout> {
    (0..count)
        .map(|index| match index % 3 {
            0 => Layout::Rsp {
                words: index as u64 % 13 + 1,
            },
            1 => Layout::Rbp { words: 2 },
            _ => Layout::Undescribed,
        })
        .collect()
}

fn address(world: &World, index: usize) -> FrameAddress {
    let at = world.image.code + index as u64 % (world.image.functions.len() as u64 * 16);
    FrameAddress::return_address(at + 1)
}

#[test]
fn an_address_is_looked_up_once() {
    let world = World::new(&layouts(64), 8);
    for _ in 0..3 {
        for index in 0..64 * FUNCTION_BYTES as usize {
            let code = address(&world, index);
            let rule = rule_of(&world, code);
            let mut memory = Memory::unknown(super::process::page_is_readable);
            let fresh = rule_from_cfi(&world.image.module, code.for_lookup(), &mut memory);
            assert_eq!(rule.kind(), fresh.kind());
            assert_eq!(rule.bits() << 16, fresh.bits() << 16);
        }
    }
    assert_eq!(world.look_ups.get(), 64 * FUNCTION_BYTES as usize);
}

#[test]
fn an_instruction_pointer_has_a_rule_of_its_own() {
    let world = World::new(&layouts(6), 8);
    // The first address of a function. As a return address it belongs to the function
    // before.
    let at = world.image.address(1, 0);
    let returned = rule_of(&world, FrameAddress::return_address(at));
    let interrupted = rule_of(&world, FrameAddress::instruction_pointer(at));
    assert!(returned.needs_stack_pointer_only());
    assert!(interrupted.needs_frame_pointer());
    assert_ne!(returned.code_id(), interrupted.code_id());
}

#[test]
fn addresses_in_the_first_page_do_not_hit_empty_words() {
    let world = World::new(&layouts(6), 8);
    for address in 1..4096 {
        let rule = rule_of(&world, FrameAddress::return_address(address));
        assert!(rule.is_without_information());
        assert_ne!(rule.code_id().0, 0);
    }
}

#[test]
fn code_keeps_its_id_when_rules_are_forgotten() {
    let world = World::new(&layouts(64), 8);
    let ids = || -> Vec<u16> {
        (0..1024)
            .map(|index| rule_of(&world, address(&world, index)).code_id().0)
            .collect()
    };
    let before = ids();
    assert_eq!(before.iter().collect::<HashSet<_>>().len(), 1024);
    forget_rules(&world);
    assert_eq!(ids(), before);
    assert_eq!(world.look_ups.get(), 2048);
}

#[test]
fn code_ids_are_given_anew_before_they_are_used_up() {
    // More addresses than there are code ids.
    let world = World::new(&layouts(5000), 8);
    let mut restarts = 0;
    for index in 0..80_000 {
        let rule = rule_of(&world, address(&world, index));
        assert_ne!(rule.code_id().0, 0);
        if world.unwinder().generation.get() == 1 {
            // As the next capture does.
            forget_rules(&world);
            world.unwinder().set_generation(2);
            restarts += 1;
        }
    }
    assert_eq!(restarts, 1);
}

#[test]
fn more_rules_than_are_distinct_in_the_cache_are_found_all_the_same() {
    let world = World::new(&layouts(3), 8);
    let rules = &world.unwinder().rules;
    for rule in 1..=5000_u64 {
        let expected = (rule <= 4096).then_some(rule as usize - 1);
        assert_eq!(rules.distinct_index(rule), expected);
    }
    let code = address(&world, 1);
    for _ in 0..2 {
        assert!(rule_of(&world, code).needs_stack_pointer_only());
    }
    // The second time it is found in its chain, not in the module.
    assert_eq!(world.look_ups.get(), 1);
}

#[test]
fn the_word_that_was_not_used_for_longest_is_replaced() {
    let set: LruSet<4> = [1, 2, 3, 4].map(AtomicU64::new);
    let words = || set.each_ref().map(|word| word.load(Relaxed));
    promote(&set, 2, 3);
    assert_eq!(words(), [3, 1, 2, 4]);
    promote(&set, 3, 5);
    assert_eq!(words(), [5, 3, 1, 2]);
    promote(&set, 0, 5);
    assert_eq!(words(), [5, 3, 1, 2]);
}
