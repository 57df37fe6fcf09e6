//! A frame of a stack with its names: one type for the records of a trace, the symbols that
//! fill them, profiles, and stacks of other tools' formats.

use std::sync::Arc;

/// A frame with its names. Frames that repeat a text may share it.
///
/// `M` is how the module is known. In a record of a trace, and where symbols are looked up, it
/// is nothing: one module, or none, has all the frames. In a profile it is the module's index,
/// because two modules may have the same path. In a set of stacks of any source it is a file
/// name, often all that there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NamedFrame<M = ()> {
    /// Qualified function name without parameters, return type and compiler suffix; or, if
    /// there is no such name, the text that stands for the frame.
    pub function: Arc<str>,
    /// The full demangled form, for C the plain name; empty if unknown.
    pub signature: Arc<str>,
    /// The module.
    pub module: M,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Bytes from the start of the enclosing function that is not inlined to the address;
    /// `None` if unknown. A return address counts itself, not the call before it.
    pub offset: Option<u64>,
    /// The function was inlined into that of the next frame.
    pub inlined: bool,
    /// The compiler wrote the function: a derived trait's method, an implicit copy
    /// constructor.
    pub generated: bool,
    /// What the blocks that the function asks for at this call hold, as far as the debug
    /// information proves it. Whether the blocks of a site have the right size is for its reader
    /// to check.
    pub allocates: Option<Arc<BlockType>>,
    /// A signal interrupted the program here: the frames inside of it are those of the
    /// signal's handler. Only of frames in a profile.
    pub interrupted: bool,
}

/// The objects in blocks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockType {
    /// The type of one object, as demanglers write it: `demo::Node<int>`.
    pub name: Arc<str>,
    /// Bytes of one object; 0 if unknown.
    pub object_bytes: u64,
    /// A block is an array of objects; it may begin with the array's length.
    pub is_array: bool,
}

impl<M> NamedFrame<M> {
    /// The same frame, with its module known in another way.
    pub fn with_module<N>(&self, module: N) -> NamedFrame<N> {
        NamedFrame {
            function: self.function.clone(),
            signature: self.signature.clone(),
            module,
            file: self.file.clone(),
            line: self.line,
            column: self.column,
            offset: self.offset,
            inlined: self.inlined,
            generated: self.generated,
            allocates: self.allocates.clone(),
            interrupted: self.interrupted,
        }
    }
}
