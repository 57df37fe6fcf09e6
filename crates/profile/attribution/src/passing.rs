//! Marks the functions of a profile that say nothing about what memory is for: see
//! [`mark_generic`] and [`mark_inside`]. What a function does is marked by
//! [`mark_forwarding`](crate::mark_forwarding).

use rustc_hash::FxHashMap;

use crate::generic_names::{GenericName, Says, first_word, generic};
use crate::own_code::{Code, Origin};
use crate::wrappers::Requests;

/// Functions further out than these from the allocator are no wrappers of it.
const DEPTH: usize = 8;
/// Fewest functions of a module with a prefix that is the module's, not one function's.
const MIN_WITH_PREFIX: u32 = 3;

/// Most functions without a name within each other that are found to be inside of a wrapper.
const MAX_NESTED: usize = 8;

/// What is known about the calls of a function.
#[derive(Clone, Copy, Default)]
struct Calls {
    caller: Option<u32>,
    has_callers: bool,
    mean_bytes: Option<u64>,
    is_varied: bool,
}

impl Calls {
    fn add(&mut self, caller: Option<u32>, mean_bytes: Option<u64>) {
        if let Some(caller) = caller {
            self.has_callers |= self.caller.is_some_and(|it| it != caller);
            self.caller = Some(caller);
        }
        if let Some(bytes) = mean_bytes {
            self.is_varied |= self.mean_bytes.is_some_and(|it| it != bytes);
            self.mean_bytes = Some(bytes);
        }
    }
}

/// The functions of a stack that are not glue, innermost first; one that calls itself once.
pub(crate) fn functions_of<'a>(
    codes: &'a [Code],
    functions: &'a [u32],
    frames: impl Iterator<Item = u32> + 'a,
) -> impl Iterator<Item = (u32, Code)> + 'a {
    let mut last = None;
    frames.filter_map(move |frame| {
        let code = codes.get(frame as usize).copied().unwrap_or(Code::NONE);
        let function = functions.get(frame as usize).copied()?;
        let is_new = code.origin > Origin::Glue && last != Some(function);
        is_new.then(|| {
            last = Some(function);
            (function, code)
        })
    })
}

/// Marks functions as wrappers whose name says only that they allocate, or what they do with a
/// container, where their calls do not speak against it: one that makes a container has several
/// callers or sizes, and one with a word in front that is in no list is asked for blocks of several
/// sizes, or three functions of its module and more have that prefix.
///
/// `name_of` gives the name and the module of a function with a name.
pub(crate) fn mark_generic<'a, I>(
    codes: &mut [Code],
    functions: &[u32],
    name_of: impl Fn(usize) -> Option<(&'a str, u32)>,
    stacks: impl Iterator<Item = Requests<I>>,
) where
    I: Iterator<Item = u32>,
{
    let count = functions.iter().max().map_or(0, |&last| last as usize + 1);
    let mut names: Vec<Option<GenericName>> = vec![None; count];
    let mut by_prefix: FxHashMap<(u32, String), u32> = FxHashMap::default();
    let mut is_seen = vec![false; count];
    for (frame, (&function, code)) in functions.iter().zip(&*codes).enumerate() {
        if std::mem::replace(&mut is_seen[function as usize], true) || code.origin == Origin::Glue {
            continue;
        }
        let Some((name, module)) = name_of(frame) else {
            continue;
        };
        if let Some(word) = first_word(name) {
            *by_prefix.entry((module, word)).or_default() += 1;
        }
        names[function as usize] = generic(name);
    }
    let mut calls = vec![Calls::default(); count];
    for stack in stacks {
        let mean_bytes = stack.bytes.checked_div(stack.blocks);
        let mut inner: Option<u32> = None;
        let functions = functions_of(codes, functions, stack.frames);
        for (depth, (function, _)) in functions.take(DEPTH + 1).enumerate() {
            if let Some(inner) = inner.replace(function) {
                calls[inner as usize].add(Some(function), None);
            }
            if depth < DEPTH / 2 {
                calls[function as usize].add(None, mean_bytes);
            }
        }
    }
    let is_wrapper = |function: u32, module: u32| {
        let Some(Some(name)) = names.get(function as usize) else {
            return false;
        };
        let calls = calls[function as usize];
        let is_prefix = |prefix: &String| {
            let number = by_prefix.get(&(module, prefix.clone()));
            number.is_some_and(|&number| number >= MIN_WITH_PREFIX)
        };
        let is_known = name.prefix.as_ref().is_none_or(is_prefix);
        match name.says {
            Says::InContainer | Says::Copies => true,
            Says::MakesObject => calls.has_callers,
            Says::Allocates | Says::Changes => is_known || calls.is_varied,
            Says::MayAllocate => calls.has_callers && calls.is_varied,
            Says::MakesContainer => is_known && calls.has_callers || calls.is_varied,
            Says::Makes => is_known && calls.is_varied && calls.has_callers,
        }
    };
    for (frame, &function) in functions.iter().enumerate() {
        if let Some((_, module)) = name_of(frame)
            && is_wrapper(function, module)
            && codes[frame].origin > Origin::Glue
        {
            codes[frame].is_wrapper = true;
        }
    }
}

/// Whether a function's name says only that it allocates or changes a container, so that nothing
/// needs to be known about its calls.
pub(crate) fn is_generic_alone(function: &str) -> bool {
    generic(function).is_some_and(|name| {
        let says = matches!(
            name.says,
            Says::Allocates | Says::Changes | Says::InContainer | Says::Copies
        );
        says && name.prefix.is_none()
    })
}

/// Marks code without a name as wrappers that only wrappers call: it is inside of these. Only the
/// inner end of each stack counts, up to the first function that has a name and is no wrapper: further
/// out nothing depends on it.
pub(crate) fn mark_inside<I>(
    codes: &mut [Code],
    functions: &[u32],
    stacks: impl Iterator<Item = I> + Clone,
) where
    I: Iterator<Item = u32>,
{
    let is_unnamed = |code: &Code| code.origin.is_unnamed() && !code.is_wrapper;
    let count = functions.iter().max().map_or(0, |&last| last as usize + 1);
    for _ in 0..MAX_NESTED {
        if !codes.iter().any(is_unnamed) {
            return;
        }
        // By function: whether a wrapper calls it, and whether anything else does.
        let mut callers = vec![[false; 2]; count];
        for stack in stacks.clone() {
            let mut inner: Option<u32> = None;
            for (function, code) in functions_of(codes, functions, stack) {
                if let Some(inner) = inner.replace(function) {
                    callers[inner as usize][usize::from(!code.is_wrapper)] = true;
                }
                if !code.is_wrapper && !is_unnamed(&code) {
                    break;
                }
            }
            if let Some(outermost) = inner {
                callers[outermost as usize][1] = true;
            }
        }
        let mut is_changed = false;
        for (code, &function) in codes.iter_mut().zip(functions) {
            if is_unnamed(code) && callers[function as usize] == [true, false] {
                code.is_wrapper = true;
                is_changed = true;
            }
        }
        if !is_changed {
            return;
        }
    }
}

/// By function: whether so many stacks pass it that it says little about one.
pub(crate) fn dispatchers<I>(
    codes: &[Code],
    functions: &[u32],
    stacks: impl Iterator<Item = I>,
) -> Vec<bool>
where
    I: Iterator<Item = u32>,
{
    let count = functions.iter().max().map_or(0, |&last| last as usize + 1);
    // By function: stacks, and the number of the last one.
    let mut passing = vec![[0_usize; 2]; count];
    let mut all = 0;
    for stack in stacks {
        all += 1;
        for (function, _) in functions_of(codes, functions, stack) {
            let [stacks, last] = &mut passing[function as usize];
            if std::mem::replace(last, all) != all {
                *stacks += 1;
            }
        }
    }
    let most = MIN_STACKS.max(all / MAX_PART);
    passing.iter().map(|[stacks, _]| *stacks > most).collect()
}

/// A function that so few stacks pass is no dispatcher.
const MIN_STACKS: usize = 32;
/// A function that more than a fourth of the stacks pass is a dispatcher.
const MAX_PART: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Function 0 is the candidate, 1 to 9 are others.
    fn is_generic(name: &str, others: &str, stacks: &[(&[u32], u64)]) -> bool {
        let mut codes = vec![Code::from(Origin::Library); 10];
        let functions: Vec<u32> = (0..10).collect();
        let stacks = stacks.iter().map(|&(frames, bytes)| Requests {
            frames: frames.iter().copied(),
            blocks: 1,
            bytes,
        });
        let name_of = |frame: usize| Some((if frame == 0 { name } else { others }, 1));
        mark_generic(&mut codes, &functions, name_of, stacks);
        codes[0].is_wrapper
    }

    const ONE: &[(&[u32], u64)] = &[(&[0, 1], 8)];
    const SEVERAL: &[(&[u32], u64)] = &[(&[0, 1], 8), (&[0, 2], 16)];
    const ONE_SIZE: &[(&[u32], u64)] = &[(&[0, 1], 8), (&[0, 2], 8)];

    #[test]
    fn a_name_that_only_says_that_it_allocates_is_a_wrappers() {
        assert!(is_generic("AllocateHeap", "parse", ONE));
        assert!(is_generic("os::malloc", "parse", ONE));
        // What it is about may be in front.
        assert!(!is_generic("frame_alloc", "parse", ONE));
        assert!(!is_generic("frame_alloc", "parse", ONE_SIZE));
        assert!(is_generic("frame_alloc", "parse", SEVERAL));
        assert!(is_generic("frame_alloc", "frame_parse", ONE));
    }

    #[test]
    fn what_makes_containers_has_several_callers() {
        assert!(!is_generic("new_list", "parse", ONE));
        assert!(is_generic("new_list", "parse", SEVERAL));
        assert!(is_generic("hash_insert", "parse", ONE));
        assert!(is_generic("luaC_newobj", "luaC_parse", SEVERAL));
        assert!(!is_generic("luaC_newobj", "luaC_parse", ONE_SIZE));
        assert!(!is_generic("load", "parse", SEVERAL));
    }

    #[test]
    fn code_that_only_wrappers_call_is_inside_of_them() {
        let mut codes = vec![Code::from(Origin::UnnamedLibrary); 4];
        codes[2].is_wrapper = true;
        let functions: Vec<u32> = (0..4).collect();
        let stacks: [&[u32]; 2] = [&[0, 1, 2, 3], &[1, 2, 3]];
        let iterators = stacks.iter().map(|it| it.iter().copied());
        mark_inside(&mut codes, &functions, iterators);
        let marked: Vec<bool> = codes.iter().map(|it| it.is_wrapper).collect();
        assert_eq!(marked, [true, true, true, false]);
        // Something else calls it, too.
        codes[0].is_wrapper = false;
        let stacks: [&[u32]; 2] = [&[0, 1, 2, 3], &[0, 3]];
        let iterators = stacks.iter().map(|it| it.iter().copied());
        mark_inside(&mut codes, &functions, iterators);
        assert!(!codes[0].is_wrapper);
    }

    #[test]
    fn what_many_stacks_pass_is_a_dispatcher() {
        let codes = vec![Code::from(Origin::Library); 3];
        let functions: Vec<u32> = (0..3).collect();
        let stack = |number: u32| [0, number % 2 + 1, 0].into_iter();
        assert_eq!(
            dispatchers(&codes, &functions, (0..100).map(stack)),
            [true, true, true]
        );
        assert_eq!(
            dispatchers(&codes, &functions, (0..40).map(stack)),
            [true, false, false]
        );
    }
}
