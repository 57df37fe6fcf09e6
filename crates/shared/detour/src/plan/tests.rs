use super::*;

const AT: u64 = 0x40_1000;

fn plan(code: &[u8]) -> Result<Plan, Refusal> {
    Plan::of(code, code.len(), AT)
}

/// The trampoline of the code at `AT`, at a distance of 0x1000 before it.
fn trampoline(code: &[u8]) -> Vec<u8> {
    let plan = plan(code).expect("it can be moved");
    let (bytes, length) = plan.trampoline(AT - 0x1000, AT).expect("it is near");
    bytes[..length].to_vec()
}

/// `jmp` back to behind `moved` bytes, of a trampoline with `before` bytes.
fn back(moved: i32, before: i32) -> Vec<u8> {
    let distance = 0x1000 + moved - before - 5;
    [&[0xe9][..], &distance.to_le_bytes()].concat()
}

#[test]
fn instructions_without_reference_stay_the_same() {
    // push rbp; mov rbp, rsp; push rbx; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3];
    assert_eq!(trampoline(&code), [&code[..5], &back(5, 5)].concat());
}

#[test]
fn a_displacement_refers_to_the_same_address() {
    // mov rax, [rip + 0x12345678]; ret
    let code = [0x48, 0x8b, 0x05, 0x78, 0x56, 0x34, 0x12, 0xc3];
    let moved = [0x48, 0x8b, 0x05, 0x78, 0x66, 0x34, 0x12];
    assert_eq!(trampoline(&code), [&moved[..], &back(7, 7)].concat());
}

/// The displacement and the immediate operand have the same bytes.
#[test]
fn a_displacement_is_told_from_an_immediate_operand() {
    // mov dword [rip + 0x11], 0x11; ret
    let code = [0xc7, 0x05, 0x11, 0, 0, 0, 0x11, 0, 0, 0, 0xc3];
    let moved = [0xc7, 0x05, 0x11, 0x10, 0, 0, 0x11, 0, 0, 0];
    assert_eq!(trampoline(&code), [&moved[..], &back(10, 10)].concat());
}

#[test]
fn short_jumps_become_long_ones() {
    // test rdi, rdi; je +16; …
    let mut code = vec![0x48, 0x85, 0xff, 0x74, 0x10];
    code.resize(32, 0x90);
    let moved = [0x48, 0x85, 0xff, 0x0f, 0x84, 0x0c, 0x10, 0, 0];
    // From AT - 0x1000 + 9 to AT + 5 + 0x10.
    assert_eq!(trampoline(&code), [&moved[..], &back(5, 9)].concat());
    // jmp +0x20; …
    let mut code = vec![0xeb, 0x20];
    code.resize(64, 0x90);
    let moved = [0xe9, 0x1d, 0x10, 0, 0, 0x90, 0x90, 0x90];
    assert_eq!(trampoline(&code), [&moved[..], &back(5, 8)].concat());
}

#[test]
fn a_call_returns_into_the_function() {
    // call +0x100; ret
    let code = [0xe8, 0, 1, 0, 0, 0xc3];
    let next = (AT + 5).to_le_bytes();
    let mut moved = vec![0x68];
    moved.extend_from_slice(&next[..4]);
    moved.extend_from_slice(&[0xc7, 0x44, 0x24, 0x04]);
    moved.extend_from_slice(&next[4..]);
    moved.push(0xe9);
    moved.extend_from_slice(&(0x1000_i32 + 5 + 0x100 - 18).to_le_bytes());
    assert_eq!(trampoline(&code), [&moved[..], &back(5, 18)].concat());
}

#[test]
fn jumps_into_what_is_moved_are_refused() {
    // endbr64; dec rdi; jne -5 (to the dec); ret
    let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
    assert_eq!(plan(&code), Err(Refusal::JumpInto));
    // To its first instruction is a call of itself.
    let code = [0x48, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xf9, 0xc3];
    assert!(plan(&code).is_ok());
}

#[test]
fn what_cannot_be_moved_is_refused() {
    for (code, refusal) in [
        // loop, jrcxz, call rax, xbegin, lea rax, [eip]
        (
            &[0xe2, 0x10, 0x90, 0x90, 0x90, 0xc3][..],
            Refusal::Immovable,
        ),
        (&[0xe3, 0x10, 0x90, 0x90, 0x90, 0xc3], Refusal::Immovable),
        (&[0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3], Refusal::Immovable),
        (&[0xc7, 0xf8, 0, 0, 0, 0, 0xc3], Refusal::Immovable),
        (&[0x67, 0x8d, 0x05, 0, 0, 0, 0, 0xc3], Refusal::Immovable),
        // No instruction.
        (&[0x90, 0x90, 0x06, 0x90, 0x90], Refusal::Unknown),
        (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x06], Refusal::Unknown),
        // Too short.
        (&[0xc3], Refusal::TooShort),
    ] {
        assert_eq!(plan(code), Err(refusal), "{code:x?}");
    }
}

#[test]
fn the_padding_behind_a_short_function_may_be_used() {
    // jmp +0x10, and padding.
    let code = [0xeb, 0x10, 0x66, 0x90, 0x0f, 0x1f, 0x40, 0];
    assert!(Plan::of(&code, 2, AT).is_ok());
    // Not if functions may begin anywhere.
    assert_eq!(Plan::of(&code, 2, AT + 4), Err(Refusal::TooShort));
    // Nor the next function.
    let code = [0xeb, 0x10, 0x55, 0x90, 0x90, 0x90];
    assert_eq!(Plan::of(&code, 2, AT), Err(Refusal::TooShort));
}

#[test]
fn a_trampoline_that_is_too_far_away_is_refused() {
    let code = [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xc3];
    let plan = plan(&code).expect("it can be moved");
    let far = AT + (1 << 32);
    assert_eq!(plan.trampoline(far, AT).err(), Some(Refusal::TooFar));
    assert_eq!(jump(AT, far), Err(Refusal::TooFar));
    assert_eq!(jump(AT, AT + 5), Ok([0xe9, 0, 0, 0, 0]));
    assert_eq!(jump(AT, AT), Ok([0xe9, 0xfb, 0xff, 0xff, 0xff]));
}
