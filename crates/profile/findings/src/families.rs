//! Kinds of blocks that are parts of one object: groups of sites whose functions call one another,
//! or are called by one function, and whose blocks are allocated and freed in step. A rule about
//! how long blocks stay looks at all parts of an object together: each alone may be too small
//! to be found, and the others would speak against it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{Context, Group};

/// Groups with fewer blocks, or a smaller part of both the peak and all allocations, are kinds of
/// their own: they can be in step with others by chance.
const MIN_BLOCKS: u64 = 32;
const MIN_SHARE: u64 = 200;
/// Largest number of groups that are compared with one another.
const MAX_GROUPS: usize = 400;

/// The groups, those that are parts of one object put together, in order of their first one.
pub(crate) fn of(context: &Context<'_>) -> Vec<Group> {
    let groups = &context.groups;
    let mut family: Vec<usize> = (0..groups.len()).collect();
    let compared = compared(context);
    let callers: FxHashMap<usize, FxHashSet<u32>> = compared
        .iter()
        .map(|&index| (index, callers(context, &groups[index])))
        .collect();
    let related = |a: usize, b: usize| {
        callers[&a].contains(&groups[b].function)
            || callers[&b].contains(&groups[a].function)
            || !callers[&a].is_disjoint(&callers[&b])
    };
    let mut steps = FxHashMap::default();
    for (at, &a) in compared.iter().enumerate() {
        for &b in &compared[at + 1..] {
            let (of_a, of_b) = (root(&family, a), root(&family, b));
            if of_a == of_b || !related(a, b) {
                continue;
            }
            for index in [a, b] {
                steps
                    .entry(index)
                    .or_insert_with(|| context.steps(&groups[index].sites));
            }
            if steps[&a].are_in_step(&steps[&b]) {
                family[of_a.max(of_b)] = of_a.min(of_b);
            }
        }
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    for index in 0..groups.len() {
        members[root(&family, index)].push(index);
    }
    let families = members.into_iter().filter(|members| !members.is_empty());
    families
        .map(|members| match members[..] {
            [only] => groups[only].clone(),
            _ => {
                let sites = members.iter().flat_map(|&index| &groups[index].sites);
                context.group(sites.copied())
            }
        })
        .collect()
}

/// The groups that are compared: those with the most bytes, if there are too many.
fn compared(context: &Context<'_>) -> Vec<usize> {
    let is_large = |part: u64, whole: u64| part.saturating_mul(MIN_SHARE) >= whole;
    let groups = context.groups.iter().enumerate().filter(|(_, group)| {
        group.allocations >= MIN_BLOCKS
            && (is_large(group.bytes, context.peak_bytes())
                || is_large(group.allocations, context.allocations()))
    });
    let mut compared: Vec<usize> = groups.map(|(index, _)| index).collect();
    compared.sort_by_key(|&index| std::cmp::Reverse(context.groups[index].bytes));
    compared.truncate(MAX_GROUPS);
    compared.sort_unstable();
    compared
}

/// The functions that call the group's; without the outermost of each stack, which calls
/// everything.
fn callers(context: &Context<'_>, group: &Group) -> FxHashSet<u32> {
    let callers = group.sites.iter().filter_map(|&site| {
        let own = context
            .own_frames(site)
            .map(|it| context.frames.function(it));
        let mut outer = own.skip_while(|&function| function == group.function);
        let caller = outer.next()?;
        outer.any(|function| function != caller).then_some(caller)
    });
    callers.collect()
}

fn root(family: &[usize], mut index: usize) -> usize {
    while family[index] != index {
        index = family[index];
    }
    index
}
