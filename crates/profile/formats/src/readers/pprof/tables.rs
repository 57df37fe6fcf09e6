//! The tables of a profile, and the frames that result from them.

use std::collections::HashMap;
use std::path::Path;

use allotrope_demangle::Demangler;
use allotrope_profile::{Module, StackFrame};

use crate::budget::{Budget, check_depth};
use crate::error::Problem;
use crate::function_names::{file_name, is_mangled, parse_name};
use crate::pprof_message::{Function, Line, Location, Mapping};
use crate::readers::protobuf::malformed;
use crate::stack_set_builder::StackSetBuilder;

/// Approximate bytes of a map entry besides its contents.
const ENTRY: usize = 32;

/// The longest path, as of Linux.
const MAX_PATH: usize = 4096;

/// Strings by position, everything else by id. The maps are hashed at random, because the file
/// chooses the ids.
#[derive(Default)]
pub(super) struct Tables {
    strings: Vec<Box<str>>,
    mappings: HashMap<u64, Mapping>,
    /// The ids of the mappings in the order of the file.
    mapping_ids: Vec<u64>,
    functions: HashMap<u64, Function>,
    locations: HashMap<u64, Location>,
    /// The frames of the locations used so far.
    frames: HashMap<u64, Box<[u32]>>,
}

impl Tables {
    pub fn string(&mut self, bytes: &[u8], budget: &Budget) -> Result<(), Problem> {
        budget.take(bytes.len() + size_of::<Box<str>>())?;
        self.strings.push(String::from_utf8_lossy(bytes).into());
        Ok(())
    }

    pub fn mapping(&mut self, mapping: Mapping, budget: &Budget) -> Result<(), Problem> {
        budget.take(size_of::<Mapping>() + size_of::<u64>() + ENTRY)?;
        if self.mappings.insert(mapping.id, mapping).is_none() {
            self.mapping_ids.push(mapping.id);
        }
        Ok(())
    }

    pub fn function(&mut self, function: Function, budget: &Budget) -> Result<(), Problem> {
        budget.take(size_of::<Function>() + ENTRY)?;
        self.functions.insert(function.id, function);
        Ok(())
    }

    pub fn location(&mut self, mut location: Location, budget: &Budget) -> Result<(), Problem> {
        check_depth(location.line.len())?;
        location.line.shrink_to_fit();
        // The frames are stored separately.
        let lines = location.line.len().max(1) * (size_of::<Line>() + size_of::<u32>());
        budget.take(size_of::<Location>() + lines + 2 * ENTRY)?;
        self.locations.insert(location.id, location);
        Ok(())
    }

    /// The text at a position of the string table.
    pub fn text(&self, position: i64) -> Result<&str, Problem> {
        let text = usize::try_from(position)
            .ok()
            .and_then(|at| self.strings.get(at));
        match text {
            Some(text) => Ok(text),
            // Some writers omit the table if no string is used.
            None if position == 0 => Ok(""),
            None => Err(malformed(&format!("string {position} is not there"))),
        }
    }

    /// The modules with a name, in the order of the file.
    pub fn modules(&self, budget: &Budget) -> Result<Vec<Module>, Problem> {
        let mut modules: Vec<Module> = Vec::new();
        for id in &self.mapping_ids {
            let mapping = &self.mappings[id];
            let path = self.text(mapping.filename)?;
            // A file may have several mappings, one after the other.
            let repeated = modules
                .last()
                .is_some_and(|last| last.path == Path::new(path));
            if path.is_empty() || path.len() > MAX_PATH || repeated {
                continue;
            }
            // Many mappings may share one long text.
            budget.take(path.len() + size_of::<Module>())?;
            modules.push(Module {
                path: path.into(),
                build_id: bytes_of_hex(self.text(mapping.build_id)?),
                ..Module::default()
            });
        }
        Ok(modules)
    }

    /// The frames of a sample's locations, innermost first.
    pub fn stack(
        &mut self,
        ids: &[u64],
        builder: &mut StackSetBuilder,
    ) -> Result<Vec<u32>, Problem> {
        let mut stack = Vec::with_capacity(ids.len());
        for id in ids {
            if !self.frames.contains_key(id) {
                let frames = self.frames_of(*id, builder)?;
                self.frames.insert(*id, frames);
            }
            stack.extend(&self.frames[id]);
            check_depth(stack.len())?;
        }
        Ok(stack)
    }

    fn frames_of(&self, id: u64, builder: &mut StackSetBuilder) -> Result<Box<[u32]>, Problem> {
        let location = self
            .locations
            .get(&id)
            .ok_or_else(|| malformed(&format!("location {id} is not there")))?;
        let module = match self.mappings.get(&location.mapping_id) {
            Some(mapping) => file_name(self.text(mapping.filename)?),
            None => "",
        };
        let Some(last) = location.line.len().checked_sub(1) else {
            let frame = StackFrame {
                function: format!("0x{:x}", location.address).into(),
                module: module.into(),
                ..StackFrame::default()
            };
            return Ok([builder.frame(frame)?].into());
        };
        let lines = location.line.iter().enumerate();
        let frames = lines.map(|(at, line)| {
            let mut frame = self.frame(line, builder.budget.names())?;
            frame.module = module.into();
            frame.inlined = at < last;
            builder.frame(frame)
        });
        frames.collect()
    }

    fn frame(&self, line: &Line, demangler: &Demangler) -> Result<StackFrame, Problem> {
        let function = self
            .functions
            .get(&line.function_id)
            .ok_or_else(|| malformed(&format!("function {} is not there", line.function_id)))?;
        let file = self.text(function.filename)?;
        let (function, signature) = self.names(function, file, demangler)?;
        let number = |number: i64| u32::try_from(number).unwrap_or(0);
        Ok(StackFrame {
            function: function.into(),
            signature: signature.into(),
            file: file.into(),
            line: number(line.line),
            column: number(line.column),
            ..StackFrame::default()
        })
    }

    /// The name, and the system's name if it contains more.
    fn names(
        &self,
        function: &Function,
        file: &str,
        demangler: &Demangler,
    ) -> Result<(String, String), Problem> {
        let parse_name = |printed| parse_name(demangler, printed, file);
        let name = self.text(function.name)?;
        let system = self.text(function.system_name)?;
        let demangled = is_mangled(system).then(|| parse_name(system));
        let demangled = demangled.filter(|names| !is_mangled(&names.function));
        let names = match demangled {
            Some(names) => names,
            None if name.is_empty() => parse_name(system),
            None if system.is_empty() || system == name => parse_name(name),
            None => return Ok((name.to_owned(), system.to_owned())),
        };
        Ok((names.function, names.signature))
    }
}

/// The bytes of a hexadecimal text; none if it is not one. Build ids have 20 bytes; those
/// of Go, which are no hexadecimal numbers, are not GNU build ids.
fn bytes_of_hex(text: &str) -> Vec<u8> {
    if text.len() > 128 || text.len() % 2 == 1 || !text.is_ascii() {
        return Vec::new();
    }
    let bytes = (0..text.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(&text[at..at + 2], 16));
    bytes.collect::<Result<_, _>>().unwrap_or_default()
}
