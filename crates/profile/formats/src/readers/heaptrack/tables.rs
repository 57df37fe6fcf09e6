//! The tables of a heaptrack file (strings, instruction pointers, traces,
//! allocation infos), and the stacks that result from them.

use allotrope_profile::StackFrame;

use super::{Numbers, malformed, to_index};
use crate::budget::{Budget, check_depth};
use crate::error::Problem;
use crate::function_names::{file_name, parse_name};
use crate::stack_set_builder::StackSetBuilder;

/// The most inlined frames of one instruction pointer; real ones have dozens.
const MAX_INLINED: usize = 4096;

/// All allocations of one size at one trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    pub index: u32,
    pub size: u64,
    pub trace: u32,
}

struct Pointer {
    address: u64,
    module: u32,
    /// Innermost first.
    frames: Box<[Location]>,
    /// Frames of the pointer in the stack set, once requested.
    indexes: Option<Box<[u32]>>,
}

#[derive(Clone, Copy)]
struct Location {
    function: u32,
    file: u32,
    line: u32,
}

struct Trace {
    pointer: u32,
    parent: u32,
}

/// The tables. Indexes count from 1 (those of infos from 0); 0 is none.
#[derive(Default)]
pub(super) struct Tables {
    strings: Vec<Box<str>>,
    pointers: Vec<Pointer>,
    traces: Vec<Trace>,
    infos: Vec<Info>,
}

impl Tables {
    pub fn add_string(&mut self, rest: &[u8], sized: bool, budget: &Budget) -> Result<(), Problem> {
        let text = if sized { sized_text(rest)? } else { rest };
        let text = String::from_utf8_lossy(text);
        budget.take(text.len() + size_of::<Box<str>>())?;
        self.strings.push(text.into());
        Ok(())
    }

    pub fn add_pointer(
        &mut self,
        mut numbers: Numbers<'_>,
        budget: &Budget,
    ) -> Result<(), Problem> {
        let address = numbers.required()?;
        let module = numbers.index()?;
        let mut frames = Vec::new();
        while let Some(function) = numbers.next()? {
            // The line ends here if the name is from the symbol table.
            let file = numbers.next()?.unwrap_or(0);
            let line = numbers.next()?.unwrap_or(0);
            frames.push(Location {
                function: to_index(function)?,
                file: to_index(file)?,
                line: u32::try_from(line).unwrap_or(0),
            });
            if frames.len() > MAX_INLINED {
                return Err(malformed(
                    "more frames are inlined at one address than any compiler does",
                ));
            }
        }
        budget.take(size_of::<Pointer>() + 2 * size_of_val(&*frames))?;
        self.pointers.push(Pointer {
            address,
            module,
            frames: frames.into(),
            indexes: None,
        });
        Ok(())
    }

    pub fn add_trace(&mut self, mut numbers: Numbers<'_>, budget: &Budget) -> Result<(), Problem> {
        let trace = Trace {
            pointer: numbers.index()?,
            parent: numbers.index()?,
        };
        // A parent must be an earlier node, so that there are no cycles.
        if trace.parent as usize > self.traces.len() {
            return Err(malformed("a stack's parent comes after it"));
        }
        if trace.pointer == 0 || trace.pointer as usize > self.pointers.len() {
            return Err(malformed(
                "a stack names an instruction pointer that is not there",
            ));
        }
        budget.take(size_of::<Trace>())?;
        self.traces.push(trace);
        Ok(())
    }

    pub fn add_info(&mut self, mut numbers: Numbers<'_>, budget: &Budget) -> Result<(), Problem> {
        let info = Info {
            index: to_index(self.infos.len() as u64)?,
            size: numbers.required()?,
            trace: numbers.index()?,
        };
        if info.trace as usize > self.traces.len() {
            return Err(malformed("an allocation names a stack that is not there"));
        }
        budget.take(size_of::<Info>())?;
        self.infos.push(info);
        Ok(())
    }

    pub fn info(&self, index: u32) -> Result<Info, Problem> {
        let info = self.infos.get(index as usize).copied();
        info.ok_or_else(|| malformed("an event names an allocation info that is not there"))
    }

    /// The frames of a trace, innermost first.
    pub fn stack(
        &mut self,
        trace: u32,
        builder: &mut StackSetBuilder,
    ) -> Result<Vec<u32>, Problem> {
        let mut stack = Vec::new();
        let mut next = trace;
        while let Some(trace) = (next as usize).checked_sub(1).map(|at| &self.traces[at]) {
            next = trace.parent;
            let pointer = trace.pointer as usize - 1;
            if self.pointers[pointer].indexes.is_none() {
                let indexes = self.frames(&self.pointers[pointer], builder)?;
                self.pointers[pointer].indexes = Some(indexes);
            }
            stack.extend(self.pointers[pointer].indexes.iter().flat_map(|i| i.iter()));
            check_depth(stack.len())?;
        }
        Ok(stack)
    }

    fn frames(
        &self,
        pointer: &Pointer,
        builder: &mut StackSetBuilder,
    ) -> Result<Box<[u32]>, Problem> {
        let module = file_name(self.text(pointer.module)?);
        if pointer.frames.is_empty() {
            let frame = StackFrame {
                function: format!("0x{:x}", pointer.address).into(),
                module: module.into(),
                ..StackFrame::default()
            };
            return Ok([builder.frame(frame)?].into());
        }
        let last = pointer.frames.len() - 1;
        let frames = pointer.frames.iter().enumerate();
        let indexes = frames.map(|(at, location)| {
            let mut frame = self.frame(location, pointer.address, &builder.budget)?;
            frame.module = module.into();
            frame.inlined = at < last;
            builder.frame(frame)
        });
        indexes.collect()
    }

    fn frame(
        &self,
        location: &Location,
        address: u64,
        budget: &Budget,
    ) -> Result<StackFrame, Problem> {
        let file = self.text(location.file)?;
        let names = match location.function {
            0 => parse_name(budget.names(), &format!("0x{address:x}"), ""),
            function => parse_name(budget.names(), self.text(function)?, file),
        };
        Ok(StackFrame {
            function: names.function.into(),
            signature: names.signature.into(),
            file: file.into(),
            line: location.line,
            ..StackFrame::default()
        })
    }

    fn text(&self, index: u32) -> Result<&str, Problem> {
        let Some(at) = (index as usize).checked_sub(1) else {
            return Ok("");
        };
        let text = self.strings.get(at);
        text.map(|text| &**text)
            .ok_or_else(|| malformed(format!("string {index} is not there")))
    }
}

/// `4 main` → `main`.
fn sized_text(rest: &[u8]) -> Result<&[u8], Problem> {
    let mut words = rest.splitn(2, |byte| *byte == b' ');
    let length = Numbers(words.next().unwrap_or_default()).required()?;
    let text = words.next().unwrap_or_default();
    if text.len() as u64 != length {
        return Err(malformed("a string has not the length that it says"));
    }
    Ok(text)
}
