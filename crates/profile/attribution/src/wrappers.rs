//! Allocation wrappers: functions that pass a request on to an allocator, such as
//! `xmalloc`. They say nothing about what the memory is for, so the headline of a stack is
//! their caller. They are known by name (`wrappers.txt`) or by what they do: see
//! [`mark_forwarding`].
//!
//! Here is also which frame stands for a stack: [`Heads`].

use rustc_hash::{FxHashMap, FxHashSet};

use crate::own_code::{BestOrigin, Code, Origin};

/// Least number of functions that call one which only passes requests on.
const CALLERS: usize = 8;

/// Which frames can stand for a stack: those of the best [`Origin`] that are not wrappers.
///
/// Wrappers count if they are the user's and the stack has no other function of the
/// user's, or if it has nothing else at all but glue. Below a root, a library's do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    least: Origin,
    with_wrappers: bool,
    /// Only code without a name, which is further in than all code that has one and is not a
    /// library's or, if nothing else has a name, a library's: a caller must not be blamed for it.
    nameless: bool,
}

/// Which frames of a stack head it, as indexes into the stack, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heads {
    /// The frame that stands for the stack: the innermost that can. 0 if all are glue, or
    /// there is none.
    pub headline: u32,
    /// The first frame that is shown: that of the headline, or a wrapper of the user's
    /// further in, whose line must not be lost.
    pub first_shown: u32,
}

impl Heads {
    /// Of a stack with these frames, innermost first.
    pub fn of(frames: impl Iterator<Item = Code> + Clone) -> Self {
        Self::within(frames, Origin::Repository)
    }

    /// The same for stacks that have no better frames than `most`.
    #[inline]
    pub(crate) fn within(frames: impl Iterator<Item = Code> + Clone, most: Origin) -> Self {
        let standing = Standing::within(frames.clone(), most);
        let mut first_own = None;
        for (index, code) in (0..).zip(frames) {
            if standing.includes(code) {
                return Self {
                    headline: index,
                    first_shown: first_own.unwrap_or(index),
                };
            }
            if first_own.is_none() && code.origin >= Origin::Own {
                first_own = Some(index);
            }
        }
        Self::default()
    }
}

impl Standing {
    /// Of a stack with these frames, innermost first.
    pub fn of(frames: impl Iterator<Item = Code>) -> Self {
        Self::within(frames, Origin::Repository)
    }

    /// The same for stacks that have no better frames than `most`.
    #[inline]
    fn within(frames: impl Iterator<Item = Code>, most: Origin) -> Self {
        let (mut others, mut all) = (BestOrigin::NONE, BestOrigin::NONE);
        let mut below = Origin::Glue;
        // Whether code without a name is further in than the first of the program's, and than
        // the first of a library's.
        let (mut nameless, mut is_named) = (false, false);
        let (mut in_library, mut is_library_named) = (false, false);
        for code in frames {
            is_named |= code.origin >= Origin::Program && !code.is_wrapper;
            nameless |= code.origin == Origin::Unnamed && !is_named;
            is_library_named |= code.origin >= Origin::Library && !code.is_wrapper;
            in_library |= code.origin == Origin::Unnamed && !is_library_named;
            if code.is_root && below == Origin::Library {
                // What a library does below a root stands for the stack, as below `main`.
                return Self {
                    least: Origin::Library,
                    with_wrappers: false,
                    nameless: in_library,
                };
            }
            all.add(code.origin);
            if code.is_wrapper {
                continue;
            }
            below = below.max(code.origin);
            if code.origin == most && most >= Origin::Own {
                // No frame further out is better.
                return Self {
                    least: most,
                    with_wrappers: false,
                    nameless,
                };
            }
            others.add(code.origin);
        }
        let (others, all) = (others.get(), all.get());
        let is_enough = others == all || all < Origin::Own && others > Origin::Glue;
        let least = if is_enough { others } else { all };
        Self {
            least,
            with_wrappers: !is_enough,
            nameless: nameless && least >= Origin::Program
                || in_library && least == Origin::Library,
        }
    }

    /// Whether this frame can stand for the stack.
    pub fn includes(&self, code: Code) -> bool {
        if self.nameless {
            return code.origin == Origin::Unnamed;
        }
        code.origin >= self.least && (self.with_wrappers || !code.is_wrapper)
    }

    /// Whether the stack has frames that are not glue.
    pub fn is_known(&self) -> bool {
        self.least > Origin::Glue
    }
}

/// A stack for [`mark_forwarding`].
#[derive(Debug, Clone, Copy)]
pub struct Requests<I> {
    /// Its frames, innermost first: indexes into the list of [`Code`]s.
    pub frames: I,
    /// The number of blocks that were allocated with it.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Marks the functions as wrappers that only pass requests on:
///
/// - in more than nine of ten of their stacks they are the innermost function that is neither glue
///   nor a wrapper of the list, so hardly anything that they call allocates but allocators;
/// - at least eight functions call them; and
/// - the callers choose the size: their mean sizes differ, at least half as many as there
///   are callers. So a function that makes one kind of object is no wrapper.
///
/// `functions` has the number of the function of each frame.
pub fn mark_forwarding<I>(
    codes: &mut [Code],
    functions: &[u32],
    stacks: impl Iterator<Item = Requests<I>>,
) where
    I: Iterator<Item = u32>,
{
    // By frame: the number of its function, if it is neither glue nor a wrapper.
    let numbers = codes.iter().zip(functions).map(|(code, &function)| {
        let is_other = code.origin > Origin::Glue && !code.is_wrapper;
        is_other.then_some(function)
    });
    let numbers: Vec<Option<u32>> = numbers.collect();
    let count = functions.iter().max().map_or(0, |&last| last as usize + 1);
    let mut stacks_of = vec![StacksOf::default(); count];
    // By function and caller: blocks and bytes.
    let mut requests: FxHashMap<(u32, u32), [u64; 2]> = FxHashMap::default();
    for (stack_number, stack) in (1..).zip(stacks) {
        let number = |frame: u32| numbers.get(frame as usize).copied().flatten();
        let mut functions = stack.frames.filter_map(number);
        let Some(innermost) = functions.next() else {
            continue;
        };
        stacks_of[innermost as usize].add(stack_number, true);
        let mut outer = functions.skip_while(|&function| function == innermost);
        let Some(caller) = outer.next() else {
            // A `main`.
            stacks_of[innermost as usize].is_outermost = true;
            continue;
        };
        let sums = requests.entry((innermost, caller)).or_default();
        sums[0] = sums[0].saturating_add(stack.blocks);
        sums[1] = sums[1].saturating_add(stack.bytes);
        stacks_of[caller as usize].add(stack_number, false);
        outer.for_each(|function| stacks_of[function as usize].add(stack_number, false));
    }
    let mut callers: FxHashMap<u32, Vec<[u64; 2]>> = FxHashMap::default();
    for ((function, _), sums) in requests {
        if stacks_of[function as usize].is_innermost() {
            callers.entry(function).or_default().push(sums);
        }
    }
    callers.retain(|_, sums| forwards(sums));
    for (code, function) in codes.iter_mut().zip(functions) {
        code.is_wrapper |= code.origin > Origin::Glue && callers.contains_key(function);
    }
}

/// The stacks of a function.
#[derive(Debug, Clone, Copy, Default)]
struct StacksOf {
    all: u32,
    /// Of these, those of which it is the innermost function.
    innermost: u32,
    /// The number of the last one.
    last: u32,
    /// Nothing calls it in one of them.
    is_outermost: bool,
}

impl StacksOf {
    fn add(&mut self, stack: u32, is_innermost: bool) {
        if std::mem::replace(&mut self.last, stack) != stack {
            self.all += 1;
            self.innermost += u32::from(is_innermost);
        }
    }

    fn is_innermost(self) -> bool {
        !self.is_outermost && u64::from(self.innermost) * 10 > u64::from(self.all) * 9
    }
}

/// Whether a function with these callers, of which each requested these blocks and bytes,
/// leaves the sizes to them.
fn forwards(callers: &[[u64; 2]]) -> bool {
    let mean = |[blocks, bytes]: &[u64; 2]| bytes.checked_div(*blocks);
    let sizes: FxHashSet<u64> = callers.iter().filter_map(mean).collect();
    callers.len() >= CALLERS && sizes.len() * 2 >= callers.len()
}

#[cfg(test)]
mod tests {
    use super::Origin::{Glue as InGlue, Library, Own, Program, Unnamed, UnnamedLibrary};
    use super::*;

    fn plain(origin: Origin) -> Code {
        Code::from(origin)
    }

    fn wrapper(origin: Origin) -> Code {
        Code {
            origin,
            is_wrapper: true,
            is_root: false,
        }
    }

    #[test]
    fn the_caller_of_a_wrapper_stands_for_the_stack() {
        for (frames, headline, shown) in [
            // Without sources.
            (&[plain(InGlue), wrapper(Program), plain(Program)][..], 2, 2),
            (&[plain(InGlue), wrapper(Program), plain(Unnamed)], 2, 2),
            // The user's own is skipped, but shown.
            (&[plain(InGlue), wrapper(Own), plain(Own)], 2, 1),
            // The only function of the user's, of all.
            (&[plain(InGlue), wrapper(Own), plain(Library)], 1, 1),
            (&[plain(InGlue), wrapper(Library)], 1, 1),
            // A library's, below the user's.
            (
                &[plain(InGlue), wrapper(Library), plain(Library), plain(Own)],
                3,
                3,
            ),
            // Code without a name is not blamed on its caller.
            (&[plain(InGlue), plain(Unnamed), plain(Own)], 1, 1),
            (&[plain(Library), plain(Unnamed), plain(Own)], 1, 1),
            (&[plain(Unnamed), plain(Unnamed), plain(Program)], 0, 0),
            (&[wrapper(Own), plain(Unnamed), plain(Own)], 1, 0),
            (&[plain(Own), plain(Unnamed), plain(Own)], 0, 0),
            // Nor on a plugin's exported function, if all else is stripped.
            (
                &[
                    plain(InGlue),
                    plain(Unnamed),
                    plain(Library),
                    plain(Unnamed),
                ],
                1,
                1,
            ),
            // What the library itself does is its own.
            (&[plain(InGlue), plain(Library), plain(Unnamed)], 1, 1),
            // An installed library's is, as its functions with names are.
            (&[plain(UnnamedLibrary), plain(Own)], 1, 1),
            // What calls `main` in a stripped program.
            (&[plain(Program), plain(Unnamed)], 0, 0),
            (&[plain(InGlue), plain(InGlue)], 0, 0),
            (&[], 0, 0),
        ] {
            let codes = || frames.iter().copied();
            let expected = Heads {
                headline,
                first_shown: shown,
            };
            assert_eq!(Heads::of(codes()), expected, "{frames:?}");
            let most = codes().map(|code| code.origin).max();
            let most = most.unwrap_or(Origin::Glue);
            assert_eq!(Heads::within(codes(), most), expected, "{frames:?}");
        }
    }

    /// Frame 0 is malloc, 1 the candidate, 2 the outermost, 3 to 12 its callers.
    fn is_forwarding(stacks: &[(&[u32], u64, u64)]) -> bool {
        let mut codes = vec![plain(Program); 13];
        codes[0] = plain(InGlue);
        let functions: Vec<u32> = (0..13).collect();
        let stacks = stacks.iter().map(|&(frames, blocks, bytes)| Requests {
            frames: frames.iter().copied(),
            blocks,
            bytes,
        });
        mark_forwarding(&mut codes, &functions, stacks);
        assert!(!codes[0].is_wrapper && !codes[2].is_wrapper);
        codes[1].is_wrapper
    }

    #[test]
    fn what_only_passes_requests_on_is_a_wrapper() {
        let stacks: Vec<[u32; 4]> = (3..13).map(|caller| [0, 1, caller, 2]).collect();
        let with = |callers: usize, size: &dyn Fn(usize) -> u64| -> bool {
            let stacks = stacks.iter().take(callers).enumerate();
            let stacks: Vec<(&[u32], u64, u64)> = stacks
                .map(|(index, stack)| (&stack[..], 2, 2 * size(index)))
                .collect();
            is_forwarding(&stacks)
        };
        // The callers choose the size.
        assert!(with(8, &|caller| 10 + caller as u64));
        assert!(with(8, &|caller| 10 + caller as u64 / 2));
        // Too few callers.
        assert!(!with(7, &|caller| 10 + caller as u64));
        // It makes one kind of object, whoever calls it.
        assert!(!with(10, &|_| 64));
    }

    #[test]
    fn what_calls_others_that_allocate_is_no_wrapper() {
        let mut stacks: Vec<(Vec<u32>, u64, u64)> = (3..12_u32)
            .map(|caller| (vec![0, 1, caller, 2], 1, u64::from(caller)))
            .collect();
        stacks.push((vec![0, 12, 1, 3, 2], 1, 5));
        let stacks: Vec<(&[u32], u64, u64)> = stacks
            .iter()
            .map(|(frames, blocks, bytes)| (&frames[..], *blocks, *bytes))
            .collect();
        assert!(is_forwarding(&stacks[..9]));
        assert!(!is_forwarding(&stacks));
    }
}
