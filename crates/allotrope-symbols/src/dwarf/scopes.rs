//! The namespaces, classes and functions that an entry stands in.

use gimli::UnitOffset;

use super::budget::Budget;
use super::units::{Slice, UnitRef};

/// Scopes deeper than this are not told.
const MAX_SCOPES: usize = 64;

/// One scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A namespace or a class, spelled as demanglers do.
    Named(String),
    /// A function, by its entry.
    Function(UnitOffset),
}

/// The scopes around an entry, outermost first. `None` unless the nearest is a
/// namespace or a class: what stands right in a unit or in another function
/// has a plain name.
pub(super) fn scopes(
    unit: UnitRef<'_, '_>,
    entry: UnitOffset,
    budget: &Budget,
) -> Option<Vec<Scope>> {
    let mut entries = unit.entries_raw(None).ok()?;
    // Depth of each scope around the current entry, with the scope.
    let mut open: Vec<(isize, gimli::DwTag, UnitOffset)> = Vec::new();
    while !entries.is_empty() && entries.next_offset() < entry {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation().ok()? else {
            continue;
        };
        budget.spend(1 + abbreviation.attributes().len())?;
        while open.last().is_some_and(|scope| scope.0 >= depth) {
            open.pop();
        }
        if abbreviation.has_children() && is_scope(abbreviation.tag()) {
            open.push((depth, abbreviation.tag(), offset));
        }
        entries.skip_attributes(abbreviation.attributes()).ok()?;
    }
    let depth = entries.next_depth();
    open.retain(|scope| scope.0 < depth);
    let nearest = open.last()?.1;
    if nearest == gimli::DW_TAG_subprogram || open.len() > MAX_SCOPES {
        return None;
    }
    let scopes = open.into_iter().map(|(_, tag, offset)| match tag {
        gimli::DW_TAG_subprogram => Some(Scope::Function(offset)),
        _ => scope_name(unit, tag, offset).map(Scope::Named),
    });
    scopes.collect()
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
    fn a_lambda_of_gcc_reads_like_any_other() {
        assert_eq!(without_angles("<lambda(int)>"), "{lambda(int)}");
        assert_eq!(without_angles("Shelf<int>"), "Shelf<int>");
    }
}
