//! What the unwinder asks about mapped code.

/// The unwind information of a mapped module.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// Lowest mapped address.
    pub start: u64,
    /// End of the mapped range.
    pub end: u64,
    /// Address of `.eh_frame_hdr`; 0 if there is none.
    pub eh_frame_hdr: u64,
}

/// The module that a code address lies in.
#[derive(Debug, Clone, Copy)]
pub struct FoundModule {
    /// Where its unwind information is.
    pub module: Module,
    /// The number that stands for this mapping of the module as long as it stays
    /// mapped. `None`: it has none now, and a rule found in it may not be cached.
    pub mapping: Option<u16>,
    /// It is the dynamic loader.
    pub is_loader: bool,
}

/// Looks modules up.
pub trait Modules: Copy {
    /// The mapping number of code that lies in no module.
    const NO_MAPPING: u16;

    /// The module that `address` lies in; `None`: JIT code, or no code at all.
    fn module_at(self, address: u64) -> Option<FoundModule>;

    /// Whether code without unwind information is assumed to keep a frame pointer.
    fn follows_frame_pointers(self) -> bool;

    /// A number that changes when modules were mapped or unmapped: cached rules are
    /// valid for one generation. Odd while the loader is at work. Never 1.
    fn generation(self) -> u32;

    /// The same, after a look at whether the loader has finished.
    fn settled_generation(self) -> u32;

    /// The stack just captured is one of the dynamic loader's: modules may be about
    /// to change.
    fn loader_allocated(self);
}
