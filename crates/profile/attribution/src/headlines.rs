//! Which frame of each of a profile's stacks heads it: the one function through which all
//! commands find it.

use allotrope_profile::{Profile, Site};
use rustc_hash::FxHashMap;

use crate::glue::Glue;
use crate::own_code::{Code, Origin};
use crate::roots::mark_roots;
use crate::wrappers::{Heads, Requests, mark_forwarding};

/// Whose code each frame of a profile is, and which of the functions are allocation
/// wrappers: by name, or because they only pass requests on in this profile; and which say no
/// more than `main`.
#[derive(Debug, Clone)]
pub struct Headlines {
    /// By frame.
    codes: Vec<Code>,
    /// By frame: the number of its function.
    functions: Vec<u32>,
    /// By [`Site::number`]: of its stack, and the frame that heads it.
    heads: Vec<(Heads, Option<u32>)>,
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
        let sites = profile.processes.iter().flat_map(|process| &process.sites);
        let stacks = sites.map(|site| Requests {
            frames: site.stack.iter().copied(),
            blocks: site.allocations,
            bytes: site.allocated_bytes,
        });
        mark_forwarding(&mut codes, &functions, stacks.clone());
        mark_roots(&mut codes, &functions, stacks);
        let mut headlines = Self {
            codes,
            functions,
            heads: Vec::new(),
        };
        headlines.find_heads(profile);
        headlines
    }

    fn find_heads(&mut self, profile: &Profile) {
        let origins = self.codes.iter().map(|code| code.origin);
        let most = origins.max().unwrap_or(Origin::Glue);
        let mut heads = Vec::new();
        for site in profile.processes.iter().flat_map(|it| &it.sites) {
            let number = site.number as usize;
            if heads.len() <= number {
                heads.resize(number + 1, Default::default());
            }
            let codes = site.stack.iter().map(|&frame| self.code(frame));
            let of_site = Heads::within(codes, most);
            let head = site.stack.get(of_site.headline as usize).copied();
            heads[number] = (of_site, head);
        }
        self.heads = heads;
    }

    /// The index in a site's stack, innermost first, of the frame that heads it; 0 if there
    /// is no better one.
    pub fn headline(&self, site: &Site) -> usize {
        self.heads(site).0.headline as usize
    }

    /// The index in a site's stack of the first frame that is shown: that of the headline,
    /// or a wrapper of the user's further in.
    pub fn first_shown(&self, site: &Site) -> usize {
        self.heads(site).0.first_shown as usize
    }

    /// The frame that heads a site's stack; `None` if the stack is empty.
    pub fn head(&self, site: &Site) -> Option<u32> {
        self.heads(site).1
    }

    /// [`Self::headline`] and [`Self::first_shown`] of a stack that is no site's, such as
    /// one that frees blocks.
    pub fn of_frames(&self, stack: &[u32]) -> [usize; 2] {
        let heads = Heads::of(stack.iter().map(|&frame| self.code(frame)));
        [heads.headline as usize, heads.first_shown as usize]
    }

    fn heads(&self, site: &Site) -> (Heads, Option<u32>) {
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

    fn code(&self, frame: u32) -> Code {
        let code = self.codes.get(frame as usize);
        code.copied().unwrap_or(Code::NONE)
    }
}
