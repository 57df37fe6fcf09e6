//! The unwinder's interface to the process's loaded modules; the recorder implements it.

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

/// The module that contains a code address.
#[derive(Debug, Clone, Copy)]
pub struct FoundModule {
    /// The module.
    pub module: Module,
    /// The number of this mapping of the module, valid until it is unmapped. `None` if it
    /// has no number now; then its rules must not be cached.
    pub mapping: Option<u16>,
    /// The module is the dynamic loader.
    pub is_loader: bool,
}

/// Look-up of modules, and detection of changes to them.
pub trait Modules: Copy {
    /// The mapping number of code outside all modules.
    const NO_MAPPING: u16;

    /// The module that contains `address`; `None` for JIT code, or if there is no code.
    fn module_at(self, address: u64) -> Option<FoundModule>;

    /// Whether code without unwind information is assumed to maintain a frame pointer.
    fn follows_frame_pointers(self) -> bool;

    /// A number that changes when modules are mapped or unmapped; cached rules are valid
    /// for one generation. Odd while the loader changes modules. Never 1.
    fn generation(self) -> u32;

    /// As [`Self::generation`], after checking whether the loader has finished.
    fn settled_generation(self) -> u32;

    /// Called when the stack just captured is the dynamic loader's: modules may be about
    /// to change.
    fn loader_allocated(self);
}
