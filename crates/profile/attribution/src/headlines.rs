//! Which frames of a profile's stacks stand for them: the one function through which all
//! commands that list a recording find them.

use allotrope_profile::{NamedFrame, Profile, Site};
use rustc_hash::FxHashMap;

use crate::glue::Glue;
use crate::heads::{HeadFrame, StackHeads};
use crate::main_crate::mark_main_crates;
use crate::own_code::{Code, Origin, is_generated_by_swift};
use crate::passing::{dispatchers, is_generic_alone, mark_generic, mark_inside};
use crate::wrappers::{Requests, mark_forwarding};

/// The index of the frame that heads a stack of which nothing is known but its frames, innermost
/// first, each with its module's file name: as [`Headlines`] has it, but wrappers are known by their
/// names alone.
pub fn headline<'a, M: 'a>(
    glue: &Glue,
    frames: impl Iterator<Item = (&'a NamedFrame<M>, &'a str)>,
) -> usize {
    let mut modules: Vec<&str> = Vec::new();
    let mut of = Vec::new();
    for (frame, module) in frames {
        let mut code = glue.code(frame, module);
        code.is_wrapper |= is_generic_alone(&frame.function);
        let number = modules.iter().position(|it| *it == module);
        let number = number.unwrap_or_else(|| {
            modules.push(module);
            modules.len() - 1
        });
        of.push(HeadFrame {
            code,
            is_generated: frame.generated || is_generated_by_swift(&frame.function),
            module: number as u32,
            is_dispatcher: false,
        });
    }
    StackHeads::of(of.iter().copied()).head as usize
}

/// Whose code each frame of a profile is, and which frames stand for its stacks.
///
/// The **head** of a stack is its innermost frame that is neither an allocator's or a standard
/// library's nor a wrapper, with or without source. If it has no name, a function with a name
/// stands for it that is near, in the same module, and no dispatcher. The **own** frame is the
/// innermost of the user's code, further out than the head or the same. Lists group by heads;
/// advice is about own frames.
#[derive(Debug, Clone)]
pub struct Headlines {
    /// By frame.
    frames: Vec<HeadFrame>,
    /// By frame: the number of its function.
    functions: Vec<u32>,
    /// By [`Site::number`]: of its stack.
    heads: Vec<StackHeads>,
}

impl Headlines {
    /// Looks at all frames and stacks of a profile.
    pub fn new(profile: &Profile, glue: &Glue) -> Self {
        let mut numbers = FxHashMap::default();
        let mut codes = Vec::with_capacity(profile.frames.len());
        let mut functions = Vec::with_capacity(profile.frames.len());
        for frame in &profile.frames {
            codes.push(glue.code(frame, &profile.module_name(frame)));
            let next = numbers.len() as u32;
            let function = (&frame.function, frame.module);
            functions.push(*numbers.entry(function).or_insert(next));
        }
        mark_main_crates(profile, &mut codes);
        let sites = profile.processes.iter().flat_map(|process| &process.sites);
        let requests = sites.clone().map(|site| Requests {
            frames: site.stack.iter().copied(),
            blocks: site.allocations,
            bytes: site.allocated_bytes,
        });
        let stacks = sites.clone().map(|site| site.stack.iter().copied());
        let unnamed: Vec<bool> = codes.iter().map(|code| code.origin.is_unnamed()).collect();
        let name_of = |index: usize| {
            let frame = profile.frames.get(index).filter(|_| !unnamed[index])?;
            Some((&*frame.function, frame.module))
        };
        mark_generic(&mut codes, &functions, name_of, requests.clone());
        mark_inside(&mut codes, &functions, stacks.clone());
        mark_forwarding(&mut codes, &functions, requests);
        mark_inside(&mut codes, &functions, stacks.clone());
        let dispatchers = dispatchers(&codes, &functions, stacks);
        let frames = profile.frames.iter().zip(codes.iter().zip(&functions));
        let frames = frames.map(|(frame, (&code, &function))| HeadFrame {
            code,
            is_generated: frame.generated || is_generated_by_swift(&frame.function),
            module: frame.module,
            // `main` says as little, however few stacks there are.
            is_dispatcher: dispatchers[function as usize] || &*frame.function == "main",
        });
        let mut headlines = Self {
            frames: frames.collect(),
            functions,
            heads: Vec::new(),
        };
        for site in sites {
            let number = site.number as usize;
            if headlines.heads.len() <= number {
                headlines.heads.resize(number + 1, StackHeads::default());
            }
            headlines.heads[number] = headlines.of_stack(&site.stack);
        }
        headlines
    }

    fn of_stack(&self, stack: &[u32]) -> StackHeads {
        let frame = |&frame: &u32| self.frames.get(frame as usize).copied();
        StackHeads::of(stack.iter().map(|it| frame(it).unwrap_or(HeadFrame::NONE)))
    }

    /// The index in a site's stack, innermost first, of the frame that heads it; 0 if there
    /// is no better one.
    pub fn headline(&self, site: &Site) -> usize {
        self.heads(site).head as usize
    }

    /// The index in a site's stack of the first frame that is shown: that of the headline, or
    /// one further in that is the user's or of the headline's module.
    pub fn first_shown(&self, site: &Site) -> usize {
        self.heads(site).first_shown as usize
    }

    /// The frame that heads a site's stack; `None` if the stack is empty.
    pub fn head(&self, site: &Site) -> Option<u32> {
        site.stack.get(self.headline(site)).copied()
    }

    /// The index in a site's stack of the innermost frame of the user's code, if it has one.
    pub fn own(&self, site: &Site) -> Option<usize> {
        self.heads(site).own.map(|own| own as usize)
    }

    /// The index in a site's stack of the frame at which the user can change something: the
    /// own one; the headline if there is none.
    pub fn own_or_headline(&self, site: &Site) -> usize {
        self.own(site).unwrap_or_else(|| self.headline(site))
    }

    /// The frame of [`Self::own_or_headline`].
    pub fn own_or_head(&self, site: &Site) -> Option<u32> {
        site.stack.get(self.own_or_headline(site)).copied()
    }

    /// The frame that tells a site from others of its head: the user's own; if the head has no name,
    /// else the nearest further out that has one and is no dispatcher.
    pub fn told_apart_by(&self, site: &Site) -> Option<u32> {
        let head = self.headline(site);
        if let Some(own) = self.own(site).filter(|&own| own > head) {
            return site.stack.get(own).copied();
        }
        let frame = |&frame: &u32| self.frames.get(frame as usize);
        let is_unnamed = |frame: &HeadFrame| frame.is_unnamed();
        if !site.stack.get(head).and_then(frame).is_some_and(is_unnamed) {
            return None;
        }
        let mut outer = site.stack.iter().skip(head + 1);
        let named = outer.find(|it| frame(it).is_some_and(HeadFrame::tells_apart));
        named.copied()
    }

    /// [`Self::headline`] and [`Self::first_shown`] of a stack that is no site's, such as
    /// one that frees blocks.
    pub fn of_frames(&self, stack: &[u32]) -> [usize; 2] {
        let heads = self.of_stack(stack);
        [heads.head as usize, heads.first_shown as usize]
    }

    fn heads(&self, site: &Site) -> StackHeads {
        let heads = self.heads.get(site.number as usize);
        heads.copied().unwrap_or_default()
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

    /// Whether a frame says what memory is for: it is no allocator's or standard library's, no
    /// wrapper, and the compiler did not write its function.
    pub fn speaks(&self, frame: u32) -> bool {
        let frame = self.frames.get(frame as usize);
        frame.is_some_and(HeadFrame::speaks)
    }

    /// Whether so many stacks pass a frame's function that it says little about one.
    pub fn is_dispatcher(&self, frame: u32) -> bool {
        let frame = self.frames.get(frame as usize);
        frame.is_some_and(|frame| frame.is_dispatcher)
    }

    fn code(&self, frame: u32) -> Code {
        let frame = self.frames.get(frame as usize);
        frame.map_or(Code::NONE, |frame| frame.code)
    }
}
