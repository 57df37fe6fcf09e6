//! Detoured functions give the results of the original ones: small functions, written in
//! machine code, are patched and called.

use allotrope_detour::plan::{PATCH, Plan, jump};

/// Memory for code: the function, then its trampoline in another page.
struct Code(*mut u8);

const PAGE: usize = 4096;

impl Code {
    fn new(function: &[u8]) -> Self {
        // SAFETY: a new mapping; it is large enough for the function.
        unsafe {
            let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 2 * PAGE, all, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            start.copy_from_nonoverlapping(function.as_ptr(), function.len());
            Self(start)
        }
    }

    fn call(&self, argument: u64) -> u64 {
        type Function = extern "C" fn(u64) -> u64;
        // SAFETY: a function of this type was written there.
        unsafe { std::mem::transmute::<*mut u8, Function>(self.0)(argument) }
    }

    /// Puts a jump to the trampoline at the function's begin.
    fn detour(&self, function: &[u8]) {
        let at = self.0 as u64;
        let trampoline = at + PAGE as u64;
        let plan = Plan::of(function, function.len(), at).expect("it can be moved");
        let (bytes, length) = plan.trampoline(trampoline, at).expect("it is near");
        let jump = jump(at, trampoline).expect("it is near");
        // SAFETY: within the mapping, where nothing runs.
        unsafe {
            let target = self.0.add(PAGE);
            target.copy_from_nonoverlapping(bytes.as_ptr(), length);
            self.0.copy_from_nonoverlapping(jump.as_ptr(), PATCH);
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

fn expect_same(function: &[u8], arguments: &[u64]) {
    expect_same_with_data(function, function.len(), arguments);
}

/// Same as [`expect_same`], for a function of `length` bytes with data behind it.
fn expect_same_with_data(function: &[u8], length: usize, arguments: &[u64]) {
    let code = Code::new(function);
    let results = || arguments.iter().map(|argument| code.call(*argument));
    let expected: Vec<u64> = results().collect();
    code.detour(&function[..length]);
    assert_eq!(results().collect::<Vec<_>>(), expected);
}

#[test]
fn data_behind_the_function() {
    // mov rax, [rip + 5]; add rax, rdi; ret; nop; the data
    let function = [
        0x48, 0x8b, 0x05, 5, 0, 0, 0, 0x48, 0x01, 0xf8, 0xc3, 0x90, 77, 0, 0, 0, 1, 0, 0, 0,
    ];
    assert_eq!(Code::new(&function).call(3), (1 << 32) + 80);
    expect_same_with_data(&function, 11, &[0, 3, u64::MAX]);
}

#[test]
fn an_immediate_operand_behind_the_displacement() {
    // cmp dword [rip + 9], 9; sete al; movzx eax, al; … the data
    let function = [
        0x83, 0x3d, 9, 0, 0, 0, 9, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3, 0x90, 0x90, 9, 0, 0, 0,
    ];
    assert_eq!(Code::new(&function).call(0), 1);
    expect_same_with_data(&function, 14, &[0]);
}

#[test]
fn a_condition() {
    // test rdi, rdi; je +6; mov eax, 1; ret; mov eax, 2; ret
    let function = [
        0x48, 0x85, 0xff, 0x74, 6, 0xb8, 1, 0, 0, 0, 0xc3, 0xb8, 2, 0, 0, 0, 0xc3,
    ];
    let code = Code::new(&function);
    assert_eq!([code.call(0), code.call(5)], [2, 1]);
    expect_same(&function, &[0, 5]);
}

#[test]
fn a_short_jump() {
    // jmp +4; four bytes; lea eax, [rdi + 1]; ret
    let function = [0xeb, 4, 0x90, 0x90, 0x90, 0x90, 0x8d, 0x47, 1, 0xc3];
    assert_eq!(Code::new(&function).call(4), 5);
    expect_same(&function, &[4]);
}

/// What is called sees the address in the function to which it returns: no walk of the
/// stack meets a trampoline.
#[test]
fn a_call() {
    // call +1; ret; mov rax, [rsp]; ret
    let function = [0xe8, 1, 0, 0, 0, 0xc3, 0x48, 0x8b, 0x04, 0x24, 0xc3];
    expect_same(&function, &[0]);
}

#[test]
fn a_call_through_memory() {
    // push rdi; call [rip + 13]; pop rdi; ret; nop …; mov rax, [rsp]; ret; the address
    let mut function = vec![0x57, 0xff, 0x15, 13, 0, 0, 0, 0x5f, 0xc3];
    function.extend([0x90; 2]);
    function.extend([0x48, 0x8b, 0x04, 0x24, 0xc3, 0x90, 0x90, 0x90, 0x90]);
    let end = function.len();
    assert_eq!(end, 7 + 13);
    function.extend([0; 8]);
    let code = Code::new(&function);
    let target = (code.0 as u64 + 11).to_le_bytes();
    // SAFETY: within the mapping.
    unsafe {
        code.0.add(end).copy_from_nonoverlapping(target.as_ptr(), 8);
    }
    let expected = code.0 as u64 + 7;
    assert_eq!(code.call(0), expected);
    code.detour(&function[..9]);
    assert_eq!(code.call(0), expected);
}
