//! A simulated program: functions with call frame information as compilers and linkers
//! write it, and a stack in memory whose true frames are always known.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use super::process;
use crate::{
    CallKind, CodeId, DEPTH, Entry, FoundModule, FrameAddress, Host, Module, Modules, Reserved,
    StackHash, StackIds, Unwinder,
};

/// The layout of a function's frame, as its call frame information describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// CFA = rsp + 8 × words; rbp is not used.
    Rsp { words: u64 },
    /// The same, but rbp is saved at the slot and then used for something else.
    RspSavesRbp { words: u64, slot: u64 },
    /// `push rbp; mov rbp, rsp; sub rsp, …`.
    Rbp { words: u64 },
    /// gcc's realigned frame (DRAP).
    Realigned,
    /// A signal trampoline.
    Signal,
    /// The return address is undefined.
    Outermost,
    /// CFA = rbx + 16, which no rule of one word can describe.
    General,
    /// The function has no call frame information.
    Undescribed,
}

/// Bytes of a function's code.
pub const FUNCTION_BYTES: u64 = 16;

/// Offset of the first function's code from its module's sections. Nothing is mapped
/// there.
const CODE_AT: u64 = 256 << 20;

/// A module in memory: `.eh_frame_hdr` and `.eh_frame` of functions side by side.
pub struct Image {
    _bytes: Box<[u8]>,
    pub module: Module,
    /// Address of the first function.
    pub code: u64,
    pub functions: Vec<Layout>,
}

impl Image {
    pub fn new(functions: &[Layout]) -> Self {
        let described = functions
            .iter()
            .filter(|layout| **layout != Layout::Undescribed)
            .count();
        let eh_frame_at = (12 + 8 * described).next_multiple_of(8);
        let mut bytes = vec![0_u8; eh_frame_at + 64 * functions.len() + 128];
        let start = bytes.as_ptr() as u64;
        let code = start + CODE_AT;
        let mut at = eh_frame_at;
        let cie = [b"zR\0".as_slice(), b"zRS\0"].map(|augmentation| {
            let cie_at = at;
            let mut body = vec![0, 0, 0, 0, 1];
            body.extend(augmentation);
            // Code and data alignment, return address register, one byte of
            // augmentation data: addresses are relative to their own position, 32 bits.
            body.extend([1, 0x78, 16, 1, 0x1b]);
            // DW_CFA_def_cfa rsp+8; DW_CFA_offset RA at CFA−8.
            body.extend([0x0c, 7, 8, 0x90, 1]);
            at = put_entry(&mut bytes, at, &body);
            cie_at
        });
        let mut pairs = Vec::new();
        for (index, layout) in functions.iter().enumerate() {
            let first = code + index as u64 * FUNCTION_BYTES;
            let Some(instructions) = instructions(*layout) else {
                continue;
            };
            let cie = cie[usize::from(*layout == Layout::Signal)];
            let fde_at = at;
            let mut body = ((at + 4 - cie) as u32).to_le_bytes().to_vec();
            let relative = first.wrapping_sub(start + at as u64 + 8) as u32;
            body.extend(relative.to_le_bytes());
            body.extend((FUNCTION_BYTES as u32).to_le_bytes());
            body.push(0);
            body.extend(instructions);
            at = put_entry(&mut bytes, at, &body);
            pairs.extend([(first - start) as u32, fde_at as u32]);
        }
        bytes[..4].copy_from_slice(&[1, 0x1b, 0x03, 0x3b]);
        bytes[4..8].copy_from_slice(&(eh_frame_at as u32 - 4).to_le_bytes());
        bytes[8..12].copy_from_slice(&(described as u32).to_le_bytes());
        for (index, word) in pairs.iter().enumerate() {
            bytes[12 + 4 * index..][..4].copy_from_slice(&word.to_le_bytes());
        }
        Self {
            module: Module {
                start,
                end: start + bytes.len() as u64,
                eh_frame_hdr: start,
            },
            _bytes: bytes.into_boxed_slice(),
            code,
            functions: functions.to_vec(),
        }
    }

    /// An address in a function.
    pub fn address(&self, function: usize, offset: u64) -> u64 {
        self.code + function as u64 * FUNCTION_BYTES + offset % FUNCTION_BYTES
    }
}

/// Writes an entry of `.eh_frame`, padded to whole words with DW_CFA_nop; returns its end.
fn put_entry(bytes: &mut [u8], at: usize, body: &[u8]) -> usize {
    let length = (4 + body.len()).next_multiple_of(8) - 4;
    bytes[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[at + 4..at + 4 + body.len()].copy_from_slice(body);
    at + 4 + length
}

/// The call frame instructions of a function after its prologue.
fn instructions(layout: Layout) -> Option<Vec<u8>> {
    const DEF_CFA: u8 = 0x0c;
    const DEF_CFA_EXPRESSION: u8 = 0x0f;
    const EXPRESSION: u8 = 0x10;
    const UNDEFINED: u8 = 0x07;
    const OFFSET: u8 = 0x80;
    const RBX: u8 = 3;
    const RBP: u8 = 6;
    const RSP: u8 = 7;
    const RA: u8 = 16;
    Some(match layout {
        Layout::Rsp { words } => vec![DEF_CFA, RSP, (8 * words) as u8],
        Layout::RspSavesRbp { words, slot } => {
            vec![DEF_CFA, RSP, (8 * words) as u8, OFFSET | RBP, slot as u8]
        }
        Layout::Rbp { .. } => vec![DEF_CFA, RBP, 16, OFFSET | RBP, 2],
        // DW_OP_breg6 −8; DW_OP_deref. DW_OP_breg6 0.
        Layout::Realigned => vec![
            DEF_CFA_EXPRESSION,
            3,
            0x76,
            0x78,
            0x06,
            EXPRESSION,
            RBP,
            2,
            0x76,
            0,
        ],
        // Other contents of a trampoline's entry are not read.
        Layout::Signal => vec![],
        Layout::Outermost => vec![UNDEFINED, RA],
        Layout::General => vec![DEF_CFA, RBX, 16],
        Layout::Undescribed => return None,
    })
}

/// The host of a simulated program, and the program.
pub struct World {
    unwinder: Box<Unwinder>,
    pub image: Image,
    pub generation: Cell<u32>,
    pub kind: Cell<CallKind>,
    pub depth_limit: Cell<usize>,
    pub follows_frame_pointers: Cell<bool>,
    /// Whether the host knows the whole stack; otherwise only the stack pointer's page.
    pub knows_stack: Cell<bool>,
    /// Whether modules have numbers.
    pub numbered: Cell<bool>,
    /// Number of stack ids after which all are reset.
    pub id_limit: Cell<usize>,
    pub look_ups: Cell<usize>,
    known: RefCell<HashMap<(StackHash, u16, u32), u32>>,
    nodes: RefCell<Vec<(u32, FrameAddress)>>,
    memory: Box<[Cell<u64>]>,
}

/// The first id of a stack; those below are ends of stacks.
const FIRST_ID: u32 = 8;

impl World {
    pub fn new(functions: &[Layout], stack_words: usize) -> Self {
        // SAFETY: all zero is a valid empty unwinder; the memory has its layout.
        let unwinder = unsafe {
            let memory = std::alloc::alloc_zeroed(std::alloc::Layout::new::<Unwinder>());
            Box::from_raw(memory.cast::<Unwinder>())
        };
        Self {
            unwinder,
            image: Image::new(functions),
            generation: Cell::new(2),
            kind: Cell::new(CallKind::Allocation),
            depth_limit: Cell::new(DEPTH),
            follows_frame_pointers: Cell::new(false),
            knows_stack: Cell::new(true),
            numbered: Cell::new(true),
            id_limit: Cell::new(usize::MAX),
            look_ups: Cell::new(0),
            known: RefCell::default(),
            nodes: RefCell::default(),
            memory: vec![Cell::new(0x1111_1111_1111_1111); stack_words].into_boxed_slice(),
        }
    }

    pub fn stack(&self) -> Range<u64> {
        let start = self.memory.as_ptr() as u64;
        start..start + 8 * self.memory.len() as u64
    }

    pub fn store(&self, address: u64, word: u64) {
        self.memory[((address - self.stack().start) / 8) as usize].set(word);
    }

    pub fn load(&self, address: u64) -> u64 {
        self.memory[((address - self.stack().start) / 8) as usize].get()
    }

    pub fn unwinder(&self) -> &Unwinder {
        &self.unwinder
    }

    /// The stack with this id: its end, and its frames from the innermost one outwards.
    pub fn stack_of_id(&self, mut id: u32) -> (u32, Vec<FrameAddress>) {
        let nodes = self.nodes.borrow();
        let mut frames = Vec::new();
        while id >= FIRST_ID {
            let (parent, frame) = nodes[(id - FIRST_ID) as usize];
            frames.push(frame);
            id = parent;
        }
        (id, frames)
    }
}

impl Modules for &World {
    const NO_MAPPING: u16 = u16::MAX;

    fn module_at(self, address: u64) -> Option<FoundModule> {
        self.look_ups.set(self.look_ups.get() + 1);
        let end = self.image.address(self.image.functions.len(), 0);
        (self.image.code..end)
            .contains(&address)
            .then_some(FoundModule {
                module: self.image.module,
                mapping: self.numbered.get().then_some(3),
                is_loader: false,
            })
    }

    fn follows_frame_pointers(self) -> bool {
        self.follows_frame_pointers.get()
    }

    fn generation(self) -> u32 {
        self.generation.get()
    }

    fn settled_generation(self) -> u32 {
        self.generation.get()
    }

    fn loader_allocated(self) {}
}

impl StackIds for &World {
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32> {
        assert_ne!(code_id.0, 0);
        self.known.borrow().get(&(hash, code_id.0, parent)).copied()
    }

    fn reserve_ids(self, count: usize) -> Reserved {
        let given = self.nodes.borrow().len() % self.id_limit.get();
        if given + count <= self.id_limit.get() {
            return Reserved::Room;
        }
        let unused = self.id_limit.get() - given;
        let nowhere = FrameAddress::return_address(1);
        self.nodes
            .borrow_mut()
            .extend(std::iter::repeat_n((0, nowhere), unused));
        self.known.borrow_mut().clear();
        self.unwinder.forget_stack();
        Reserved::AfterRestart
    }

    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32 {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push((parent, code));
        let id = nodes.len() as u32 + FIRST_ID - 1;
        self.known
            .borrow_mut()
            .insert((hash, code_id.0, parent), id);
        id
    }

    fn forget_code_ids(self) {
        self.known.borrow_mut().clear();
    }
}

// SAFETY: a world is used by one thread; the kernel is asked whether pages are readable,
// and the stack is the world's own memory.
unsafe impl Host for &World {
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a,
    {
        &self.unwinder
    }

    fn kind(self) -> CallKind {
        self.kind.get()
    }

    fn depth_limit(self) -> usize {
        self.depth_limit.get()
    }

    fn page_is_readable(page: u64) -> bool {
        process::page_is_readable(page)
    }

    fn stack_of(self, stack_pointer: u64) -> Range<u64> {
        if self.knows_stack.get() {
            return self.stack();
        }
        let page = stack_pointer & !4095;
        page.max(self.stack().start)..(page + 4096).min(self.stack().end)
    }

    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        function()
    }

    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        function()
    }
}

/// What a function must restore when it returns.
#[derive(Debug, Clone, Copy)]
struct Activation {
    layout: Layout,
    /// The caller's registers after the return.
    stack_pointer: u64,
    frame_pointer: u64,
    /// The code address in the caller.
    caller: FrameAddress,
}

/// The simulated program's one thread.
pub struct Thread<'w> {
    pub world: &'w World,
    function: usize,
    stack_pointer: u64,
    frame_pointer: u64,
    activations: Vec<Activation>,
}

impl<'w> Thread<'w> {
    /// A thread in the function with this index, which has no caller and returns to 0.
    pub fn new(world: &'w World, function: usize) -> Self {
        let mut thread = Self {
            world,
            function,
            stack_pointer: world.stack().end - 64,
            frame_pointer: 0,
            activations: Vec::new(),
        };
        thread.push(0);
        thread.enter(function, FrameAddress::return_address(0));
        thread
    }

    pub fn depth(&self) -> usize {
        self.activations.len()
    }

    /// Whether the stack has space for more frames.
    pub fn has_room(&self) -> bool {
        self.stack_pointer > self.world.stack().start + 4096
    }

    fn push(&mut self, word: u64) {
        self.stack_pointer -= 8;
        self.world.store(self.stack_pointer, word);
    }

    /// Calls a function, by the call that returns `offset` bytes into the current one.
    pub fn call(&mut self, function: usize, offset: u64) {
        let return_address = self.world.image.address(self.function, offset.max(1));
        self.push(return_address);
        self.enter(function, FrameAddress::return_address(return_address));
    }

    /// The prologue; the return address has been pushed.
    fn enter(&mut self, function: usize, caller: FrameAddress) {
        let layout = self.world.image.functions[function];
        self.activations.push(Activation {
            layout,
            stack_pointer: self.stack_pointer + 8,
            frame_pointer: self.frame_pointer,
            caller,
        });
        self.function = function;
        let cfa = self.stack_pointer + 8;
        match layout {
            // The words in the frame keep the values of earlier calls.
            Layout::Rsp { words } => self.stack_pointer = cfa - 8 * words,
            Layout::RspSavesRbp { words, slot } => {
                self.world.store(cfa - 8 * slot, self.frame_pointer);
                self.stack_pointer = cfa - 8 * words;
                self.frame_pointer = self.frame_pointer.rotate_left(7) ^ cfa;
            }
            Layout::Rbp { words } => {
                let saved = self.frame_pointer;
                self.push(saved);
                self.frame_pointer = self.stack_pointer;
                self.stack_pointer -= 8 * words;
            }
            Layout::Realigned => {
                self.stack_pointer &= !63;
                let saved = self.frame_pointer;
                self.push(caller.address());
                self.push(saved);
                self.frame_pointer = self.stack_pointer;
                self.push(cfa);
                self.stack_pointer -= 16;
            }
            Layout::Outermost | Layout::Undescribed | Layout::General | Layout::Signal => {}
        }
    }

    /// Changes rbp, if the current function uses it for something else.
    pub fn change_frame_pointer(&mut self, value: u64) {
        if matches!(
            self.world.image.functions[self.function],
            Layout::RspSavesRbp { .. }
        ) {
            self.frame_pointer = value;
        }
    }

    pub fn returns(&mut self) {
        if self.activations.len() > 1 {
            let activation = self.activations.pop().expect("it is not empty");
            self.stack_pointer = activation.stack_pointer;
            self.frame_pointer = activation.frame_pointer;
            let code = activation.caller.address();
            self.function = ((code - self.world.image.code) / FUNCTION_BYTES) as usize;
        }
    }

    /// Interrupts the current function by a signal, `offset` bytes after its start; the
    /// handler is `function`, which returns to the trampoline.
    pub fn interrupt(&mut self, trampoline: usize, function: usize, offset: u64) {
        assert_eq!(self.world.image.functions[trampoline], Layout::Signal);
        let at = self.world.image.address(self.function, offset);
        let (stack_pointer, frame_pointer) = (self.stack_pointer, self.frame_pointer);
        self.stack_pointer = (stack_pointer - 128 - 968) & !15;
        let context = self.stack_pointer;
        self.world.store(context + 120, frame_pointer);
        self.world.store(context + 160, stack_pointer);
        self.world.store(context + 168, at);
        self.activations.push(Activation {
            layout: Layout::Signal,
            stack_pointer,
            frame_pointer,
            caller: FrameAddress::instruction_pointer(at),
        });
        self.function = trampoline;
        self.call(function, 4);
    }

    /// The true stack, from the innermost frame outwards, at a call of a hook that
    /// returns to `offset` bytes after the start of the current function.
    pub fn truth(&self, offset: u64) -> Vec<FrameAddress> {
        let mut frames = vec![FrameAddress::return_address(
            self.world.image.address(self.function, offset.max(1)),
        )];
        for activation in self.activations.iter().rev() {
            let is_end = matches!(activation.layout, Layout::Outermost | Layout::Undescribed);
            if is_end || activation.caller.bits() == 0 {
                break;
            }
            frames.push(activation.caller);
        }
        frames
    }

    /// The stack that the unwinder captures at such a call: its end and frames.
    pub fn capture(&self, offset: u64) -> (u32, Vec<FrameAddress>) {
        let return_address = self.world.image.address(self.function, offset.max(1));
        let at = self.stack_pointer - 8;
        self.world.store(at, return_address);
        // SAFETY: the simulated hook has not returned.
        let entry = unsafe { Entry::new(at, self.frame_pointer) };
        let id = crate::stack_id(self.world, entry).expect("there is room for ids");
        self.world.stack_of_id(id)
    }
}
