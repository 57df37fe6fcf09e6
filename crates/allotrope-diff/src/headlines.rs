//! Which frame of each of a profile's stacks heads it: the one function through which all
//! commands find it.

use allotrope_profile::Profile;
use rustc_hash::FxHashMap;

use crate::Glue;
use crate::own_code::Origin;
use crate::wrappers::{Code, Requests, Standing, mark_forwarding};

/// Whose code each frame of a profile is, and which of the functions are allocation
/// wrappers: by name, or because they only pass requests on in this profile.
#[derive(Debug, Clone)]
pub struct Headlines {
    /// By frame.
    codes: Vec<Code>,
    /// By frame: the number of its function.
    functions: Vec<u32>,
}

impl Headlines {
    /// Looks at all frames and stacks of a profile.
    pub fn new(profile: &Profile, glue: &Glue) -> Self {
        let mut numbers = FxHashMap::default();
        let mut codes = Vec::with_capacity(profile.frames.len());
        let mut functions = Vec::with_capacity(profile.frames.len());
        for frame in &profile.frames {
            let module = profile.module_name(frame);
            let names = [&*module, &*frame.function, &*frame.signature, &*frame.file];
            codes.push(glue.code(names, frame.generated));
            let next = numbers.len() as u32;
            let function = (&frame.function, frame.module);
            functions.push(*numbers.entry(function).or_insert(next));
        }
        let sites = profile.processes.iter().flat_map(|process| &process.sites);
        let stacks = sites.map(|site| Requests {
            frames: site.stack.iter().copied(),
            blocks: site.allocations,
            bytes: site.allocated_bytes,
        });
        mark_forwarding(&mut codes, &functions, stacks);
        Self { codes, functions }
    }

    /// The index in a stack, innermost first, of the frame that heads it; 0 if there is
    /// no better one.
    pub fn headline(&self, stack: &[u32]) -> usize {
        Standing::headline(self.of(stack))
    }

    /// The index in a stack of the first frame that is shown: that of the headline, or a
    /// wrapper of the user's further in.
    pub fn first_shown(&self, stack: &[u32]) -> usize {
        Standing::first_shown(self.of(stack))
    }

    /// Whose code a frame is.
    pub fn origin(&self, frame: u32) -> Origin {
        self.code(frame).origin
    }

    /// The number of a frame's function: frames with equal numbers are of one function.
    pub fn function(&self, frame: u32) -> u32 {
        let number = self.functions.get(frame as usize);
        number.copied().unwrap_or(u32::MAX)
    }

    fn code(&self, frame: u32) -> Code {
        let code = self.codes.get(frame as usize);
        code.copied().unwrap_or(Code::NONE)
    }

    fn of(&self, stack: &[u32]) -> impl Iterator<Item = Code> + Clone {
        stack.iter().map(|&frame| self.code(frame))
    }
}
