//! Each kind of rule: made from call frame information, and applied to a frame.

use super::process::page_is_readable;
use super::program::{Image, Layout};
use crate::arch::{Frame, FrameAddress, Rule, Step, rule_from_cfi, step};
use crate::memory::Memory;

/// A stack of ten words, by default 0x1000 + index.
struct Words([u64; 10]);

impl Words {
    fn new() -> Self {
        Self(std::array::from_fn(|index| 0x1000 + index as u64))
    }

    fn at(&self, index: usize) -> u64 {
        &raw const self.0[index] as u64
    }

    fn memory(&self) -> Memory {
        // SAFETY: the words live as long as the value is used below.
        unsafe { Memory::with(|_| false, self.at(0), self.at(0) + 80) }
    }
}

fn rule(layout: Layout) -> Rule {
    let image = Image::new(&[Layout::Undescribed, layout, Layout::Undescribed]);
    let mut memory = Memory::unknown(page_is_readable);
    rule_from_cfi(&image.module, image.address(1, 5), &mut memory)
}

fn frame(stack_pointer: u64, frame_pointer: u64) -> Frame {
    Frame {
        stack_pointer,
        code: FrameAddress::return_address(0x4711),
        frame_pointer,
    }
}

fn caller(stack_pointer: u64, return_address: u64, frame_pointer: u64) -> Step {
    Step::Caller(Frame {
        stack_pointer,
        code: FrameAddress::return_address(return_address),
        frame_pointer,
    })
}

#[test]
fn by_the_stack_pointer() {
    let words = Words::new();
    let rule = rule(Layout::Rsp { words: 3 });
    assert!(rule.needs_stack_pointer_only());
    let step = step(frame(words.at(1), 77), rule, &mut words.memory());
    assert_eq!(step, caller(words.at(4), 0x1003, 77));
}

#[test]
fn by_the_stack_pointer_with_a_saved_frame_pointer() {
    let words = Words::new();
    let rule = rule(Layout::RspSavesRbp { words: 4, slot: 3 });
    assert!(rule.needs_stack_pointer_only());
    let step = step(frame(words.at(1), 77), rule, &mut words.memory());
    assert_eq!(step, caller(words.at(5), 0x1004, 0x1002));
}

#[test]
fn by_the_frame_pointer() {
    let words = Words::new();
    let rule = rule(Layout::Rbp { words: 2 });
    assert!(rule.needs_frame_pointer() && rule.is_simple());
    let frame = frame(words.at(1), words.at(4));
    assert_eq!(
        step(frame, rule, &mut words.memory()),
        caller(words.at(6), 0x1005, 0x1004)
    );
}

#[test]
fn a_realigned_frame() {
    let mut words = Words::new();
    words.0[3] = words.at(8);
    let rule = rule(Layout::Realigned);
    assert!(rule.needs_frame_pointer() && !rule.is_simple());
    let frame = frame(words.at(1), words.at(4));
    assert_eq!(
        step(frame, rule, &mut words.memory()),
        caller(words.at(8), 0x1007, 0x1004)
    );
}

#[test]
fn a_signal_frame() {
    let context: Vec<u64> = (0..121).map(|index| 0x1000 + index).collect();
    let start = context.as_ptr() as u64;
    // SAFETY: the words live until the end of the test.
    let mut memory = unsafe { Memory::with(|_| false, start, start + 121 * 8) };
    let rule = rule(Layout::Signal);
    assert!(!rule.is_simple() && !rule.needs_frame_pointer());
    // `gregs` begins at 40; rbp, rsp and rip are registers 10, 15 and 16 of it
    // (`sys/ucontext.h`).
    assert_eq!(
        step(frame(start, 0), rule, &mut memory),
        Step::Caller(Frame {
            stack_pointer: 0x1000 + 5 + 15,
            code: FrameAddress::instruction_pointer(0x1000 + 5 + 16),
            frame_pointer: 0x1000 + 5 + 10,
        })
    );
}

#[test]
fn an_undefined_return_address_ends_the_stack() {
    let words = Words::new();
    let rule = rule(Layout::Outermost);
    let step = step(frame(words.at(1), 0), rule, &mut words.memory());
    assert_eq!(step, Step::Outermost);
}

#[test]
fn a_return_address_of_zero_ends_the_stack() {
    let mut words = Words::new();
    words.0[3] = 0;
    let rule = rule(Layout::Rsp { words: 3 });
    let step = step(frame(words.at(1), 0), rule, &mut words.memory());
    assert_eq!(step, Step::ZeroReturnAddress);
}

#[test]
fn other_registers_need_the_general_unwinder() {
    let words = Words::new();
    let rule = rule(Layout::General);
    let step = step(frame(words.at(1), 0), rule, &mut words.memory());
    assert_eq!(step, Step::NeedsGeneral);
}

#[test]
fn code_that_is_not_described_ends_the_stack() {
    let words = Words::new();
    assert!(rule(Layout::Undescribed).is_without_information());
    let rule = Rule::without_information(false);
    let step = step(frame(words.at(1), words.at(4)), rule, &mut words.memory());
    assert_eq!(step, Step::Unknown);
}

#[test]
fn code_that_is_not_described_may_keep_a_frame_pointer() {
    let mut words = Words::new();
    words.0[5] = 0x12345;
    let rule = Rule::without_information(true);
    let frame = frame(words.at(1), words.at(4));
    assert_eq!(
        step(frame, rule, &mut words.memory()),
        caller(words.at(6), 0x12345, 0x1004)
    );
}

#[test]
fn what_is_no_frame_pointer_is_not_followed() {
    let mut words = Words::new();
    let rule = Rule::without_information(true);
    // Below the frame, not aligned, not readable, too far.
    for rbp in [
        words.at(0),
        words.at(4) + 1,
        words.at(9),
        words.at(1) + (1 << 20),
        0,
        !7,
    ] {
        let step = step(frame(words.at(1), rbp), rule, &mut words.memory());
        assert_eq!(step, Step::Unknown, "{rbp:#x}");
    }
    // Not the address of code.
    for return_address in [0x1005, 1 << 47, u64::MAX] {
        words.0[5] = return_address;
        let step = step(frame(words.at(1), words.at(4)), rule, &mut words.memory());
        assert_eq!(step, Step::Unknown, "{return_address:#x}");
    }
    words.0[5] = 0;
    let step = step(frame(words.at(1), words.at(4)), rule, &mut words.memory());
    assert_eq!(step, Step::ZeroReturnAddress);
}

#[test]
fn a_caller_is_never_inside_of_its_callee() {
    let mut words = Words::new();
    for rbp in [words.at(0), words.at(4) + 4, 0, u64::MAX - 7] {
        let frame = frame(words.at(4), rbp);
        let by_rbp = rule(Layout::Rbp { words: 2 });
        assert_eq!(step(frame, by_rbp, &mut words.memory()), Step::Unknown);
        let realigned = rule(Layout::Realigned);
        assert_eq!(step(frame, realigned, &mut words.memory()), Step::Unknown);
    }
    words.0[3] = words.at(2);
    let frame = frame(words.at(3), words.at(4));
    let realigned = rule(Layout::Realigned);
    assert_eq!(step(frame, realigned, &mut words.memory()), Step::Unknown);
}

#[test]
fn a_word_that_can_not_be_read_ends_the_stack() {
    let words = Words::new();
    for layout in [
        Layout::Rsp { words: 10 },
        Layout::Rbp { words: 1 },
        Layout::Realigned,
        Layout::Signal,
    ] {
        let frame = frame(words.at(1), words.at(9) + 8);
        let step = step(frame, rule(layout), &mut words.memory());
        assert_eq!(step, Step::Unknown, "{layout:?}");
    }
}
