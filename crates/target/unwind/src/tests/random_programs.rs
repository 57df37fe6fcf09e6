//! Random sequences of calls, returns, signals and changes of rbp: each captured stack
//! must be the true one, whether it was walked or replayed from the cache.

use proptest::prelude::*;

use super::program::{Layout, Thread, World};
use crate::{CallKind, DEPTH, StackEnd};

#[derive(Debug, Clone)]
enum Operation {
    Call { function: usize, offset: u64 },
    Return { count: usize },
    Capture { offset: u64, kind: CallKind },
    Interrupt { handler: usize, offset: u64 },
    ChangeFramePointer { value: u64 },
    ChangeModules,
}

const OUTERMOST: usize = 0;
const TRAMPOLINE: usize = 1;
/// The first function that can be called.
const FIRST: usize = 2;

/// Several functions of the same layout, so that one can replace another in a stack with
/// only the return addresses changed.
const FUNCTIONS: [Layout; 12] = [
    Layout::Outermost,
    Layout::Signal,
    Layout::Rsp { words: 1 },
    Layout::Rsp { words: 2 },
    Layout::Rsp { words: 9 },
    Layout::Rsp { words: 9 },
    Layout::RspSavesRbp { words: 3, slot: 2 },
    Layout::RspSavesRbp { words: 8, slot: 5 },
    Layout::Rbp { words: 1 },
    Layout::Rbp { words: 6 },
    Layout::Realigned,
    Layout::Realigned,
];

/// Functions whose rules need the stack pointer only.
const SIMPLE: std::ops::Range<usize> = FIRST..FIRST + 4;

fn operation(functions: std::ops::Range<usize>) -> impl Strategy<Value = Operation> {
    // Few offsets: most return addresses in a function are equal.
    let offset = 1..4_u64;
    prop_oneof![
        6 => (functions.clone(), offset.clone())
            .prop_map(|(function, offset)| Operation::Call { function, offset }),
        4 => (1..6_usize).prop_map(|count| Operation::Return { count }),
        8 => (offset.clone(), prop::bool::ANY).prop_map(|(offset, is_deallocation)| {
            let kind = match is_deallocation {
                true => CallKind::Deallocation,
                false => CallKind::Allocation,
            };
            Operation::Capture { offset, kind }
        }),
        1 => (functions, offset)
            .prop_map(|(handler, offset)| Operation::Interrupt { handler, offset }),
        1 => any::<u64>().prop_map(|value| Operation::ChangeFramePointer { value }),
        1 => Just(Operation::ChangeModules),
    ]
}

/// Runs a program, and compares each capture with the true stack.
fn run(world: &World, first: usize, operations: &[Operation]) {
    let mut thread = Thread::new(world, first);
    for operation in operations {
        match *operation {
            Operation::Call { function, offset } if thread.has_room() => {
                thread.call(function, offset);
            }
            Operation::Interrupt { handler, offset } if thread.has_room() => {
                thread.interrupt(TRAMPOLINE, handler, offset);
            }
            Operation::Call { .. } | Operation::Interrupt { .. } => {}
            Operation::Return { count } => (0..count).for_each(|_| thread.returns()),
            Operation::ChangeFramePointer { value } => thread.change_frame_pointer(value),
            Operation::ChangeModules => world.generation.set(world.generation.get() + 2),
            Operation::Capture { offset, kind } => {
                world.kind.set(kind);
                let mut truth = thread.truth(offset);
                let mut end = StackEnd::Complete;
                if truth.len() > world.depth_limit.get() {
                    truth.truncate(world.depth_limit.get());
                    end = StackEnd::Truncated;
                }
                assert_eq!(thread.capture(offset), (end as u32, truth));
            }
        }
    }
    // A walk to the stack's end must have the same result.
    let replayed = thread.capture(2);
    world.unwinder().forget_stack();
    assert_eq!(thread.capture(2), replayed);
}

fn operations(functions: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(functions), 1..200)
}

const STACK_WORDS: usize = 1 << 15;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_captured_is_the_true_stack(operations in operations(FIRST..FUNCTIONS.len())) {
        run(&World::new(&FUNCTIONS, STACK_WORDS), OUTERMOST, &operations);
    }

    #[test]
    fn so_it_is_where_walks_need_the_stack_pointer_only(operations in operations(SIMPLE)) {
        run(&World::new(&FUNCTIONS, STACK_WORDS), OUTERMOST, &operations);
    }

    #[test]
    fn so_it_is_where_the_stack_ends_in_a_return_address_of_zero(
        operations in operations(FIRST..FUNCTIONS.len()),
    ) {
        run(&World::new(&FUNCTIONS, STACK_WORDS), FIRST, &operations);
    }

    #[test]
    fn so_it_is_up_to_a_depth_limit(
        limit in 1..8_usize,
        operations in operations(FIRST..FUNCTIONS.len()),
    ) {
        let world = World::new(&FUNCTIONS, STACK_WORDS);
        world.depth_limit.set(limit);
        run(&world, OUTERMOST, &operations);
    }

    #[test]
    fn so_it_is_on_a_stack_of_which_nothing_is_known(
        operations in operations(FIRST..FUNCTIONS.len()),
    ) {
        let world = World::new(&FUNCTIONS, STACK_WORDS);
        world.knows_stack.set(false);
        run(&world, OUTERMOST, &operations);
    }

    #[test]
    fn so_it_is_where_ids_are_used_up_and_given_anew(
        operations in operations(FIRST..FUNCTIONS.len()),
    ) {
        let world = World::new(&FUNCTIONS, STACK_WORDS);
        world.id_limit.set(512);
        run(&world, OUTERMOST, &operations);
    }

    #[test]
    fn so_it_is_where_modules_can_not_be_numbered(
        operations in operations(FIRST..FUNCTIONS.len()),
    ) {
        let world = World::new(&FUNCTIONS, STACK_WORDS);
        world.numbered.set(false);
        run(&world, OUTERMOST, &operations);
    }
}

#[test]
fn a_stack_of_as_many_frames_as_can_be_cached_is_complete() {
    let world = World::new(&FUNCTIONS, 1 << 15);
    let mut thread = Thread::new(&world, OUTERMOST);
    while thread.depth() < DEPTH {
        thread.call(FIRST + thread.depth() % 2, 1);
    }
    for _ in 0..2 {
        let truth = thread.truth(3);
        assert_eq!(truth.len(), DEPTH);
        assert_eq!(thread.capture(3), (StackEnd::Complete as u32, truth));
    }
    thread.call(FIRST, 1);
    let truth = thread.truth(3)[..DEPTH].to_vec();
    assert_eq!(thread.capture(3), (StackEnd::Truncated as u32, truth));
}

#[test]
fn a_changed_slot_of_a_saved_frame_pointer_is_noticed() {
    // The frames in between do not use rbp, so only the slot shows the change.
    let world = World::new(&FUNCTIONS, STACK_WORDS);
    let capture = |values: [u64; 2]| {
        let mut thread = Thread::new(&world, OUTERMOST);
        thread.call(8, 1);
        thread.call(6, 1);
        for value in values {
            thread.change_frame_pointer(value);
            thread.call(6, 2);
        }
        let truth = thread.truth(1);
        assert_eq!(thread.capture(1), (StackEnd::Complete as u32, truth));
    };
    for values in [[1, 2], [1, 2], [3, 2], [3, 4], [5, 6]] {
        capture(values);
    }
}
