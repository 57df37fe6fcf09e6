//! The types of the blocks that calls of `operator new` in a module's code return.
//!
//! The compiler does not write down which type an expression `new T(…)` has. But the block is
//! initialised by a constructor of `T`, and this can be proven: [`flow`] follows the block through
//! the machine code to the first function that gets it as `this`, or to the first instruction
//! that writes into it. The constructor is that function, or it was inlined around the instruction
//! and not around the call of `operator new`; of several, it is the outermost, because the others
//! construct its bases and members. Anything else leaves the type unknown. Where the sites' sizes
//! are known, that of the class has to be the same (`block_types` of `allotrope-attribution`).
//!
//! A type without a constructor has none that could be found, and what is constructed only as the
//! sole member of such a type looks the same as what is constructed by itself.

mod flow;
mod new_calls;

use std::sync::Arc;

use allotrope_trace::model::BlockType;
use rustc_hash::FxHashSet;

use self::flow::{Callee, Event};
use self::new_calls::{Function, NewCalls};
use crate::constructors::constructed;
use crate::dwarf::{Location, LocationFrame, Name};
use crate::elf::ElfFile;

/// Finds the calls of `operator new` in the code of a module.
#[derive(Debug)]
pub(crate) struct NewBlocks {
    calls: NewCalls,
}

/// A call of `operator new`, and what happens to its block.
#[derive(Debug)]
pub(crate) struct NewBlock {
    /// The call's return address.
    address: u64,
    is_array: bool,
    /// What happens, for each path from there.
    paths: Vec<Vec<Step>>,
}

/// What happens to a block: an instruction and what it calls.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: u64,
    action: Action,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// It writes into the block.
    Store,
    /// It calls a function of the module with the block as the first argument.
    Call(u64),
    /// It calls something which constructs nothing.
    Fill,
    /// The block is passed to something unknown.
    Leave,
}

/// What is known of the code at an address.
pub(crate) trait Described<'a> {
    /// The location of an address that is one of [`NewBlock::addresses`].
    fn location(&self, address: u64) -> Option<Location<'a>>;
    /// A function's name without parameters.
    fn function(&self, name: &Name<'_>) -> String;
}

impl NewBlocks {
    /// `None` unless the module, the first of the files, calls `operator new`. The other one is
    /// its debug file.
    pub(crate) fn of(files: Vec<ElfFile>) -> Option<Self> {
        NewCalls::of(files).map(|calls| Self { calls })
    }

    /// Follows the blocks of the calls before these return addresses, in their order.
    pub(crate) fn follow(&self, addresses: impl Iterator<Item = u64>) -> Vec<NewBlock> {
        // Both read pieces of the code.
        let (mut calls, mut code) = (self.calls.code(), self.calls.code());
        let mut blocks = Vec::new();
        for address in addresses {
            let is_array = match self.calls.called_before(&mut calls, address) {
                Some(Function::New) => false,
                Some(Function::NewArray) => true,
                _ => continue,
            };
            let paths = flow::follow(address, &mut |at, into| code.read(at, into));
            let paths = paths.into_iter().map(|events| {
                let steps = events.into_iter();
                let steps = steps.map(|event| match event {
                    Event::Store(at) => Step {
                        at,
                        action: Action::Store,
                    },
                    Event::Call(at, callee) => Step {
                        at,
                        action: match self.callee(callee) {
                            Some(Function::Fill) => Action::Fill,
                            Some(Function::Own(callee)) => Action::Call(callee),
                            _ => Action::Leave,
                        },
                    },
                    Event::Passed(at) => Step {
                        at,
                        action: Action::Leave,
                    },
                });
                steps.collect()
            });
            blocks.push(NewBlock {
                address,
                is_array,
                paths: paths.collect(),
            });
        }
        self.without_shared(&mut blocks);
        blocks
    }

    fn callee(&self, callee: Callee) -> Option<Function> {
        match callee {
            Callee::Address(at) => self.calls.at(at).or(Some(Function::Own(at))),
            Callee::Through(at) => self.calls.entry(at),
            Callee::Unknown => None,
        }
    }

    /// Calls of a function with several names say nothing.
    fn without_shared(&self, blocks: &mut [NewBlock]) {
        let steps = || blocks.iter().flat_map(|it| it.paths.iter().flatten());
        let callees: FxHashSet<u64> = steps()
            .filter_map(|it| match it.action {
                Action::Call(callee) => Some(callee),
                _ => None,
            })
            .collect();
        let shared = self.calls.shared(&callees);
        for step in blocks
            .iter_mut()
            .flat_map(|it| it.paths.iter_mut().flatten())
        {
            if matches!(step.action, Action::Call(callee) if shared.contains(&callee)) {
                step.action = Action::Leave;
            }
        }
    }
}

impl NewBlock {
    /// The addresses that must be looked up to find the type.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        let steps = self.paths.iter().flatten();
        let steps = steps.flat_map(|it| {
            let callee = match it.action {
                Action::Call(callee) => Some(callee),
                _ => None,
            };
            [Some(it.at), callee].into_iter().flatten()
        });
        steps.chain([self.address.saturating_sub(1)])
    }

    /// The return address of the call of `operator new`.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The type of the block, if it is proven.
    pub(crate) fn of_type<'a>(&self, code: &impl Described<'a>) -> Option<Arc<BlockType>> {
        let call = code.location(self.address.saturating_sub(1))?;
        let mut found: Option<(String, u32)> = None;
        for path in &self.paths {
            let Some(class) = path_type(path, &call, code) else {
                continue;
            };
            if found.as_ref().is_some_and(|found| *found != class) {
                return None;
            }
            found = Some(class);
        }
        let (name, bytes) = found?;
        Some(Arc::new(BlockType {
            name: name.into(),
            object_bytes: bytes.into(),
            is_array: self.is_array,
        }))
    }
}

/// The class that is constructed on a path, with its size in bytes.
fn path_type<'a>(
    path: &[Step],
    call: &Location<'_>,
    code: &impl Described<'a>,
) -> Option<(String, u32)> {
    for step in path {
        let location = code.location(step.at)?;
        if let Some(inlined) = inlined_after(call, &location)? {
            return class_of(inlined, code);
        }
        match step.action {
            Action::Store | Action::Fill => {}
            Action::Call(callee) => {
                let callee = code.location(callee)?;
                return class_of(callee.frames.last()?, code);
            }
            Action::Leave => return None,
        }
    }
    None
}

/// The frame that is inlined at `later`, directly into the frames of `call`: `Some(None)` if there
/// is none, `None` if not all of these are there.
fn inlined_after<'l, 'a>(
    call: &Location<'_>,
    later: &'l Location<'a>,
) -> Option<Option<&'l LocationFrame<'a>>> {
    if call.start != later.start || call.start.is_none() {
        return None;
    }
    let mut later = later.frames.iter().rev();
    let mut around: Option<(&LocationFrame<'_>, &LocationFrame<'_>)> = None;
    for frame in call.frames.iter().rev() {
        let other = later.next()?;
        // Inlined calls of one function at two places are two.
        let is_one_call = around.is_none_or(|(frame, other)| {
            (&frame.file, frame.line, frame.column) == (&other.file, other.line, other.column)
        });
        if frame.name != other.name || !is_one_call {
            return None;
        }
        around = Some((frame, other));
    }
    Some(later.next())
}

/// The class that a frame's function constructs, with its size in bytes.
fn class_of<'a>(frame: &LocationFrame<'_>, code: &impl Described<'a>) -> Option<(String, u32)> {
    let name = frame.name.as_ref()?;
    let bytes = name.objects.as_ref()?.bytes;
    let function = code.function(name);
    let class = constructed(&function)?;
    (bytes > 0).then(|| (class.to_owned(), bytes))
}
