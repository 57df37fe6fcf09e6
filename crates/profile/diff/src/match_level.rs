//! How strictly names of frames are compared.

/// How much of a stack's names must be equal, the strictest level first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum MatchLevel {
    /// Functions as they are spelled, with their modules. Offsets, lines and
    /// columns are ignored: they change with every build.
    Exact = 0,
    /// Also ignores what compilers and linkers add to a name.
    Canonical = 1,
    /// Also ignores closure numbers, wrappers and the depth of recursion.
    Unwrapped = 2,
    /// Also ignores template arguments.
    Untemplated = 3,
    /// Also ignores glue frames.
    GlueIgnored = 4,
    /// Also ignores functions that only one side has: those that were renamed,
    /// inserted or inlined everywhere.
    CommonOnly = 5,
}

impl MatchLevel {
    /// The levels that compare all of a stack's own functions, the strictest
    /// first. [`CommonOnly`](Self::CommonOnly) does not: it equates any two
    /// functions that the other side lacks.
    pub(crate) const BY_NAME: [Self; 5] = [
        Self::Exact,
        Self::Canonical,
        Self::Unwrapped,
        Self::Untemplated,
        Self::GlueIgnored,
    ];

    /// From 0 to 1: how certain it is that two stacks with equal keys are the
    /// same.
    pub(crate) fn confidence(self) -> f64 {
        match self {
            Self::Exact => 1.0,
            Self::Canonical => 0.99,
            Self::Unwrapped => 0.95,
            Self::Untemplated => 0.9,
            Self::GlueIgnored => 0.85,
            Self::CommonOnly => 0.8,
        }
    }
}
