//! The sampled stacks with the frames that tail calls have removed.
//!
//! A function whose last statement calls another one may jump to it instead, and has no frame
//! then: `malloc`, which is nothing but such a jump, is in no sample of its allocator. But its
//! caller has called it, and the return address in the stack lies behind that call.

use rustc_hash::FxHashMap;

use crate::cpu::allocator_code::plain;
use crate::cpu::code::{Callee, Code, Function, Jump};
use crate::cpu::session::{Counts, Session};
use crate::cpu::space::Frame;

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) frame: Frame,
    /// The call of this function itself is before the return address in its caller.
    pub(crate) is_called_by_name: bool,
}

/// A stack, innermost first.
#[derive(Debug)]
pub(crate) struct Stack<'a> {
    pub(crate) steps: Vec<Step>,
    pub(crate) counts: &'a Counts,
}

/// The code of all modules, by their numbers.
pub(crate) struct Codes(Vec<Code>);

impl Codes {
    pub(crate) fn read(session: &Session) -> Self {
        let modules = session.modules.all.iter();
        Self(modules.map(|it| Code::read(it)).collect())
    }

    pub(crate) fn of(&self, module: u32) -> Option<&Code> {
        self.0.get(module as usize)
    }

    /// The function of a frame, by the symbol table.
    pub(crate) fn function(&self, frame: &Frame) -> Option<&Function> {
        let address = frame.address.checked_sub(u64::from(!frame.exact))?;
        self.of(frame.module)?.function_at(address)
    }
}

/// All stacks of a session.
pub(crate) fn stacks<'a>(session: &'a Session, codes: &Codes) -> Vec<Stack<'a>> {
    let mut calls = Calls {
        codes,
        called: FxHashMap::default(),
        between: FxHashMap::default(),
    };
    let all = session.stacks.iter();
    all.map(|(frames, counts)| Stack {
        steps: calls.steps(frames),
        counts,
    })
    .collect()
}

struct Calls<'c> {
    codes: &'c Codes,
    /// What the call before each return address calls.
    called: FxHashMap<Frame, Option<Callee>>,
    /// What is between a frame and its caller, innermost first.
    between: FxHashMap<(Frame, Frame), (bool, Vec<Step>)>,
}

impl Calls<'_> {
    fn steps(&mut self, frames: &[Frame]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(frames.len());
        for (at, frame) in frames.iter().enumerate() {
            let (is_called_by_name, hidden) = match frames.get(at + 1) {
                Some(caller) => self.between(*frame, *caller),
                None => (false, Vec::new()),
            };
            steps.push(Step {
                frame: *frame,
                is_called_by_name,
            });
            steps.extend(hidden);
        }
        steps
    }

    fn between(&mut self, frame: Frame, caller: Frame) -> (bool, Vec<Step>) {
        if let Some(known) = self.between.get(&(frame, caller)) {
            return known.clone();
        }
        let found = self.find(frame, caller).unwrap_or_default();
        self.between.insert((frame, caller), found.clone());
        found
    }

    /// Whether `frame` is of the function that its caller calls; otherwise the functions that are
    /// between them.
    fn find(&mut self, frame: Frame, caller: Frame) -> Option<(bool, Vec<Step>)> {
        if caller.exact {
            return None;
        }
        let codes = self.codes;
        let called = self.called.entry(caller).or_insert_with(|| {
            let code = codes.of(caller.module)?;
            code.called(caller.address)
        });
        let called = called.as_ref()?;
        // A name that the dynamic linker resolves is that of the module that executes, unless it
        // is one of another module, which nothing here tells.
        let module = match called {
            Callee::Address(_) => caller.module,
            Callee::Name(_) => frame.module,
        };
        let code = codes.of(module)?;
        let first = code.own(called)?;
        let executes = codes.function(&frame);
        let is_same = module == frame.module
            && executes
                .is_some_and(|it| it.range == first.range || plain(&it.name) == plain(&first.name));
        if is_same {
            return Some((true, Vec::new()));
        }
        let is_it = |jump: &Jump| {
            let (Some(executes), Some(target)) = (executes, code.own(&jump.to)) else {
                let name = executes.map(|it| &it.name);
                return matches!(&jump.to, Callee::Name(to) if Some(to) == name);
            };
            module == frame.module && target.range == executes.range
        };
        // Without a single way, only the function that was called is known.
        let way = code.chain(first, &is_it);
        let way = way.unwrap_or_else(|| vec![first.range.start]);
        let mut hidden: Vec<Step> = way
            .into_iter()
            .map(|address| Step {
                frame: Frame {
                    module,
                    address,
                    exact: true,
                },
                is_called_by_name: false,
            })
            .collect();
        if let Some(first) = hidden.first_mut() {
            first.is_called_by_name = true;
        }
        hidden.reverse();
        Some((false, hidden))
    }
}
