//! Roots of a program that lives in libraries: its functions below which the cost first
//! splits up in libraries, such as `cc1_main` of a clang whose code is in `libclang-cpp.so`.
//! They are on nearly every stack, as `main` is, so they say nothing, and the library's
//! functions do. See [`mark_roots`].

use rustc_hash::{FxHashMap, FxHashSet};

use crate::own_code::{Code, Origin};
use crate::wrappers::Requests;

/// Least part of a program's blocks, and of its bytes, for which a root stands.
const MIN_SHARE: f64 = 0.9;
/// Least number of functions of libraries that allocate below it.
const MIN_CALLEES: usize = 64;
/// Most of its bytes that one of them allocates.
const MAX_OF_ONE: f64 = 0.5;

/// Blocks and bytes.
type Sums = [u64; 2];

/// What is known about a function that may be a root.
#[derive(Default)]
struct Candidate {
    /// The stacks on which it is the program's innermost function.
    stacks: Sums,
    /// Bytes by the innermost function of a library below it.
    callees: FxHashMap<u32, u64>,
}

/// Marks the functions that say no more about a stack than `main`:
///
/// - they are the program's, but their source is not known: the source's line would say more
///   than a library's function;
/// - in stacks with at least 90 % of the blocks and bytes that were allocated below the same
///   `main` they are the innermost function of the program; and
/// - below them at least 64 functions of libraries allocate, none of them more than half of
///   the bytes.
///
/// `functions` has the number of the function of each frame. To be called after the wrappers
/// were marked.
pub fn mark_roots<I>(
    codes: &mut [Code],
    functions: &[u32],
    stacks: impl Iterator<Item = Requests<I>>,
) where
    I: Iterator<Item = u32>,
{
    let origins = || codes.iter().map(|code| code.origin);
    if !origins().any(|it| it == Origin::Program) || !origins().any(|it| it == Origin::Library) {
        return;
    }
    // By the outermost function of the program, and by that and the innermost one.
    let mut mains: FxHashMap<u32, Sums> = FxHashMap::default();
    let mut candidates: FxHashMap<[u32; 2], Candidate> = FxHashMap::default();
    for stack in stacks {
        let (mut callee, mut innermost, mut main) = (None, None, None);
        let mut is_known = false;
        for frame in stack.frames {
            let code = codes.get(frame as usize).copied().unwrap_or(Code::NONE);
            let function = || functions.get(frame as usize).copied().unwrap_or(u32::MAX);
            match code.origin {
                origin if origin >= Origin::Own => is_known = true,
                _ if code.is_wrapper => {}
                Origin::Program => {
                    main = Some(function());
                    innermost = innermost.or(main);
                }
                Origin::Library if innermost.is_none() && callee.is_none() => {
                    callee = Some(function());
                }
                _ => {}
            }
        }
        let Some((main, innermost)) = main.zip(innermost).filter(|_| !is_known) else {
            continue;
        };
        add(mains.entry(main).or_default(), [stack.blocks, stack.bytes]);
        let candidate = candidates.entry([main, innermost]).or_default();
        add(&mut candidate.stacks, [stack.blocks, stack.bytes]);
        if let Some(callee) = callee {
            let bytes = candidate.callees.entry(callee).or_default();
            *bytes = bytes.saturating_add(stack.bytes);
        }
    }
    let roots: FxHashSet<u32> = candidates
        .iter()
        .filter(|([main, function], candidate)| {
            main != function && candidate.is_root(mains.get(main).copied().unwrap_or_default())
        })
        .map(|(&[_, function], _)| function)
        .collect();
    if roots.is_empty() {
        return;
    }
    for (code, function) in codes.iter_mut().zip(functions) {
        code.is_root = code.origin == Origin::Program && roots.contains(function);
    }
}

impl Candidate {
    fn is_root(&self, whole: Sums) -> bool {
        let is_most = |[part, whole]: [u64; 2]| part as f64 >= MIN_SHARE * whole as f64;
        let largest = self.callees.values().copied().max().unwrap_or(0);
        self.callees.len() >= MIN_CALLEES
            && largest as f64 <= MAX_OF_ONE * self.stacks[1] as f64
            && is_most([self.stacks[0], whole[0]])
            && is_most([self.stacks[1], whole[1]])
    }
}

fn add(sums: &mut Sums, values: Sums) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrappers::Heads;

    const MALLOC: u32 = 0;
    const MAIN: u32 = 1;
    const RUN: u32 = 2;
    const OTHER: u32 = 3;
    const FIRST_CALLEE: u32 = 4;

    /// Functions 4 to 103 are a library's, the others the program's.
    fn codes(program: Origin) -> Vec<Code> {
        let origin = |function| match function {
            MALLOC => Origin::Glue,
            MAIN | RUN | OTHER => program,
            _ => Origin::Library,
        };
        (0..104).map(|it| Code::from(origin(it))).collect()
    }

    /// `main` calls `run`, which calls so many functions of the library; the first of them
    /// allocates so many bytes, each other one 100. `other` allocates so many bytes itself.
    fn is_root(program: Origin, callees: u32, first: u64, other: u64) -> bool {
        let mut codes = codes(program);
        let functions: Vec<u32> = (0..104).collect();
        let below_run = (0..callees).map(|callee| Requests {
            frames: vec![MALLOC, FIRST_CALLEE + callee, RUN, MAIN].into_iter(),
            blocks: 1,
            bytes: if callee == 0 { first } else { 100 },
        });
        let beside = Requests {
            frames: vec![MALLOC, OTHER, MAIN].into_iter(),
            blocks: 1,
            bytes: other,
        };
        mark_roots(&mut codes, &functions, below_run.chain([beside]));
        assert!(!codes[MAIN as usize].is_root && !codes[OTHER as usize].is_root);
        codes[RUN as usize].is_root
    }

    #[test]
    fn a_function_below_which_libraries_share_the_cost_is_a_root() {
        assert!(is_root(Origin::Program, 100, 100, 10));
        // Too few functions.
        assert!(!is_root(Origin::Program, 63, 100, 10));
        // One of them allocates most.
        assert!(!is_root(Origin::Program, 100, 20_000, 10));
        // The program does something else as well: 20 % of the bytes.
        assert!(!is_root(Origin::Program, 100, 100, 2_500));
        // Its line is known.
        assert!(!is_root(Origin::Own, 100, 100, 10));
    }

    #[test]
    fn a_librarys_function_stands_for_a_stack_below_a_root() {
        let library = Code::from(Origin::Library);
        let program = Code::from(Origin::Program);
        let unnamed = Code::from(Origin::UnnamedLibrary);
        let glue = Code::from(Origin::Glue);
        let root = Code {
            is_root: true,
            ..program
        };
        for (frames, headline) in [
            (&[glue, library, library, root, library, program][..], 1),
            // The program's own function below it.
            (&[glue, library, program, root, program], 2),
            // Nothing below it has a name: what calls it says less.
            (&[glue, unnamed, root, library, program], 2),
            (&[glue, root, program], 1),
        ] {
            let codes = frames.iter().copied();
            assert_eq!(Heads::of(codes).headline, headline, "{frames:?}");
        }
    }
}
