//! Which frame heads a stack in a list, and which is the user's own: [`StackHeads`]. What is
//! blamed for a difference is chosen in another way, from the user's own code:
//! [`Heads`](crate::Heads).

use crate::own_code::{Code, Origin};

/// Farthest that a function with a name stands for code without one that it calls, in frames.
const MAX_DISTANCE: usize = 2;

/// The frames of a stack that stand for it, as indexes into it, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StackHeads {
    /// The frame that heads it: the innermost that says what the memory is for, so no allocator's,
    /// standard library's or wrapper. If it has no name, a near caller of the same module that
    /// has one.
    pub(crate) head: u32,
    /// The first frame that is shown: that of the head, or one of the user's or of its module
    /// further in.
    pub(crate) first_shown: u32,
    /// The innermost frame of the user's own code; `None` if the stack has none.
    pub(crate) own: Option<u32>,
}

/// A frame of a stack, as the choice of the head needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadFrame {
    /// Whose code it is, and whether it is a wrapper.
    pub(crate) code: Code,
    /// Whether the compiler wrote its function.
    pub(crate) is_generated: bool,
    /// The number of its module.
    pub(crate) module: u32,
    /// Whether many different stacks pass its function, so that it says little about one.
    pub(crate) is_dispatcher: bool,
}

impl HeadFrame {
    /// A frame that does not exist.
    pub(crate) const NONE: Self = Self {
        code: Code::NONE,
        is_generated: false,
        module: u32::MAX,
        is_dispatcher: false,
    };

    pub(crate) fn is_unnamed(&self) -> bool {
        self.code.origin.is_unnamed()
    }

    fn is_own(&self) -> bool {
        self.code.origin >= Origin::Own
    }

    /// Whether its name tells stacks that pass it from others.
    pub(crate) fn tells_apart(&self) -> bool {
        self.speaks() && !self.is_unnamed() && !self.is_dispatcher
    }

    /// Whether it says what memory is for.
    pub(crate) fn speaks(&self) -> bool {
        self.code.origin > Origin::Glue && !self.code.is_wrapper && !self.is_generated
    }
}

impl StackHeads {
    /// Of a stack with these frames, innermost first.
    pub(crate) fn of(frames: impl Iterator<Item = HeadFrame> + Clone) -> Self {
        let indexed = || (0_u32..).zip(frames.clone());
        let own = || indexed().filter(|(_, frame)| frame.is_own());
        let speaking_own = own().find(|(_, frame)| frame.speaks());
        let own = speaking_own
            .or_else(|| own().next())
            .map(|(index, _)| index);
        let Some((innermost, frame)) = indexed().find(|(_, frame)| frame.speaks()) else {
            // All are wrappers or glue: the farthest from the allocator says most.
            let outermost = indexed()
                .filter(|(_, frame)| frame.code.origin > Origin::Glue)
                .last()
                .map_or(0, |(index, _)| index);
            let head = own.unwrap_or(outermost);
            return Self {
                head,
                first_shown: head,
                own,
            };
        };
        if let Some(own) = own.filter(|&own| own < innermost && speaking_own.is_none()) {
            // A wrapper of the user's, called by a library: nothing else is the user's.
            return Self {
                head: own,
                first_shown: own,
                own: Some(own),
            };
        }
        let named = || {
            let near = indexed().skip(innermost as usize + 1).take(MAX_DISTANCE);
            let mut near = near.take_while(|(_, it)| it.module == frame.module);
            near.find(|(_, it)| it.speaks() && !it.is_unnamed())
                .filter(|(_, it)| !it.is_dispatcher)
        };
        let head = match frame.is_unnamed() {
            true => named().map_or(innermost, |(index, _)| index),
            false => innermost,
        };
        // The line of a wrapper of the user's must not be lost.
        let further_in = indexed().find(|(_, frame)| frame.is_own());
        let first_shown = further_in.map_or(innermost, |(index, _)| index.min(innermost));
        Self {
            head,
            first_shown,
            own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Origin::{Glue, Library, Own, Program, Unnamed, UnnamedLibrary};
    use super::*;

    const MODULE: u32 = 1;

    fn at(origin: Origin, module: u32) -> HeadFrame {
        HeadFrame {
            code: Code::from(origin),
            is_generated: false,
            module,
            is_dispatcher: false,
        }
    }

    fn plain(origin: Origin) -> HeadFrame {
        at(origin, MODULE)
    }

    fn wrapper(origin: Origin) -> HeadFrame {
        let mut frame = plain(origin);
        frame.code.is_wrapper = true;
        frame
    }

    fn generated(origin: Origin) -> HeadFrame {
        HeadFrame {
            is_generated: true,
            ..plain(origin)
        }
    }

    fn dispatcher() -> HeadFrame {
        HeadFrame {
            is_dispatcher: true,
            ..plain(Library)
        }
    }

    fn of(frames: &[HeadFrame]) -> (u32, u32, Option<u32>) {
        let heads = StackHeads::of(frames.iter().copied());
        (heads.head, heads.first_shown, heads.own)
    }

    #[test]
    fn a_frame_with_a_better_name_does_not_beat_a_nearer_one() {
        // A library's function without source, below the program's with source.
        assert_eq!(
            of(&[plain(Glue), plain(Library), plain(Own)]),
            (1, 1, Some(2))
        );
        // A stripped library below a program with names.
        let program = at(Program, 2);
        assert_eq!(of(&[plain(UnnamedLibrary), program]), (0, 0, None));
        // A program without names below a library with names.
        assert_eq!(of(&[plain(Unnamed), at(Library, 2)]), (0, 0, None));
        // A wrapper's caller.
        assert_eq!(
            of(&[plain(Glue), wrapper(Library), plain(Library)]),
            (2, 2, None)
        );
        // What the compiler wrote says less than its caller.
        assert_eq!(of(&[generated(Library), plain(Own)]), (1, 1, Some(1)));
    }

    #[test]
    fn a_near_named_function_of_the_same_module_stands_for_code_without_a_name() {
        let unnamed = plain(UnnamedLibrary);
        let named = plain(Library);
        assert_eq!(of(&[plain(Glue), unnamed, named]), (2, 1, None));
        assert_eq!(of(&[unnamed, unnamed, named]), (2, 0, None));
        // Too far away.
        assert_eq!(of(&[unnamed, unnamed, unnamed, named]), (0, 0, None));
        // Many stacks pass it.
        assert_eq!(of(&[unnamed, dispatcher(), named]), (0, 0, None));
        // Another module is between them.
        assert_eq!(of(&[unnamed, at(Unnamed, 2), named]), (0, 0, None));
        // A wrapper does not stand for what it calls.
        assert_eq!(of(&[unnamed, wrapper(Library), named]), (2, 0, None));
    }

    #[test]
    fn a_stack_of_wrappers_has_a_head() {
        // Of the user's: no other function of the user's is there.
        assert_eq!(of(&[wrapper(Own), plain(Library)]), (0, 0, Some(0)));
        assert_eq!(of(&[wrapper(Own), plain(Own)]), (1, 0, Some(1)));
        assert_eq!(of(&[plain(Library), wrapper(Own)]), (0, 0, Some(1)));
        // Of libraries.
        assert_eq!(
            of(&[plain(Glue), wrapper(Library), wrapper(Library)]),
            (2, 2, None)
        );
        assert_eq!(of(&[plain(Glue), plain(Glue)]), (0, 0, None));
        assert_eq!(of(&[]), (0, 0, None));
    }
}
