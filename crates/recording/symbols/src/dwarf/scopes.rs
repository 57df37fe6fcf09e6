//! The namespaces, classes and functions around an entry.

use gimli::UnitOffset;
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::bytes::{Slice, UnitRef};

/// Scopes deeper than this are left out.
const MAX_SCOPES: usize = 64;

/// One scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A namespace or a class, spelled as demanglers do.
    Named(String),
    /// A function, by its entry.
    Function(UnitOffset),
}

/// The scopes of a unit and the functions in them.
#[derive(Debug, Default)]
pub(super) struct ScopeTable {
    scopes: Vec<ScopeEntry>,
    /// Functions by entry, each with its nearest scope.
    members: FxHashMap<UnitOffset, usize>,
}

#[derive(Debug, Clone, Copy)]
struct ScopeEntry {
    tag: gimli::DwTag,
    entry: UnitOffset,
    /// Index of the scope around it.
    parent: Option<usize>,
}

impl ScopeTable {
    /// Reads a unit up to the first damaged entry.
    pub(super) fn read(unit: UnitRef<'_, '_>, budget: &Budget) -> Self {
        let mut table = Self::default();
        let _ = table.scan(unit, budget);
        table
    }

    fn scan(&mut self, unit: UnitRef<'_, '_>, budget: &Budget) -> Option<()> {
        let mut entries = unit.entries_raw(None).ok()?;
        // Depth and index of each scope around the current entry.
        let mut open: Vec<(isize, usize)> = Vec::new();
        while !entries.is_empty() {
            let (entry, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation().ok()? else {
                continue;
            };
            let tag = abbreviation.tag();
            budget.spend(1 + abbreviation.attributes().len())?;
            entries.skip_attributes(abbreviation.attributes()).ok()?;
            while open.last().is_some_and(|scope| scope.0 >= depth) {
                open.pop();
            }
            let parent = open.last().map(|scope| scope.1);
            // A function directly in another function has a plain name.
            if tag == gimli::DW_TAG_subprogram
                && let Some(parent) = parent
                && self.scopes[parent].tag != gimli::DW_TAG_subprogram
            {
                self.members.insert(entry, parent);
            }
            if abbreviation.has_children() && is_scope(tag) {
                open.push((depth, self.scopes.len()));
                self.scopes.push(ScopeEntry { tag, entry, parent });
            }
        }
        Some(())
    }

    /// The scopes around a function, outermost first. `None` unless it is in a namespace
    /// or a class.
    pub(super) fn around(&self, unit: UnitRef<'_, '_>, function: UnitOffset) -> Option<Vec<Scope>> {
        let nearest = *self.members.get(&function)?;
        let parent = |index: &usize| self.scopes[*index].parent;
        let mut scopes = std::iter::successors(Some(nearest), parent)
            .take(MAX_SCOPES)
            .map(|index| match self.scopes[index] {
                ScopeEntry { tag, entry, .. } if tag == gimli::DW_TAG_subprogram => {
                    Some(Scope::Function(entry))
                }
                ScopeEntry { tag, entry, .. } => scope_name(unit, tag, entry).map(Scope::Named),
            })
            .collect::<Option<Vec<_>>>()?;
        scopes.reverse();
        Some(scopes)
    }
}

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_subprogram
    )
}

fn scope_name(unit: UnitRef<'_, '_>, tag: gimli::DwTag, offset: UnitOffset) -> Option<String> {
    let mut entries = unit.entries_raw(Some(offset)).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification).ok()?;
        if attribute.name() == gimli::DW_AT_name {
            let name: Slice<'_> = unit.attr_string(attribute.value()).ok()?;
            return Some(without_angles(&name.to_string_lossy()));
        }
    }
    Some(match tag {
        gimli::DW_TAG_namespace => "(anonymous namespace)".to_owned(),
        // clang gives the class of a lambda no name.
        _ => "{lambda}".to_owned(),
    })
}

/// gcc calls the class of a lambda `<lambda(int)>`.
fn without_angles(name: &str) -> String {
    let lambda = name
        .strip_prefix("<lambda")
        .and_then(|rest| rest.strip_suffix('>'));
    lambda.map_or_else(|| name.to_owned(), |rest| format!("{{lambda{rest}}}"))
}

#[cfg(test)]
mod tests {
    use super::without_angles;

    #[test]
    fn gccs_lambdas_are_spelled_as_by_demanglers() {
        assert_eq!(without_angles("<lambda(int)>"), "{lambda(int)}");
        assert_eq!(without_angles("Shelf<int>"), "Shelf<int>");
    }
}
