//! The name of a function's entry, followed through declarations and abstract
//! instances, across units and into the supplementary file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::bytes::{Slice, UnitRef};
use super::scopes::{Scope, ScopeTable};
use super::units::Units;
use crate::constructors::{constructed, is_constructor};

/// The most references from entry to entry that are followed. Compilers write up to
/// two.
const MAX_REFERENCES: usize = 16;

/// The most enclosing functions that are read for the name of a function.
const MAX_ENCLOSING: usize = 8;

/// A function's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    /// It is the linkage name, not the one in the source.
    pub(crate) is_linkage: bool,
    /// Of a constructor, and of the functions of Rust's `Box<T>` and `RawVec<T>`.
    pub(crate) objects: Option<Objects<'a>>,
}

/// The objects that a function constructs or allocates space for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Objects<'a> {
    /// Their type; empty for a constructor, whose own name has it.
    pub(crate) name: Cow<'a, [u8]>,
    /// Bytes of one object; 0 if unknown.
    pub(crate) bytes: u32,
}

impl Name<'_> {
    /// The name with its own copy of the text.
    pub(super) fn into_owned(self) -> Name<'static> {
        Name {
            text: Cow::Owned(self.text.into_owned()),
            is_linkage: self.is_linkage,
            objects: self.objects.map(|it| Objects {
                name: Cow::Owned(it.name.into_owned()),
                bytes: it.bytes,
            }),
        }
    }
}

/// Identifies an entry: its file and its offset in `.debug_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct EntryId {
    supplementary: bool,
    offset: usize,
}

/// Names by entry, each read once.
pub(super) struct Names<'d, 'a> {
    primary: &'d Units<'d, 'a>,
    supplementary: Option<&'d Units<'d, 'a>>,
    budget: &'d Budget,
    known: RefCell<FxHashMap<EntryId, Option<Name<'a>>>>,
    /// Scopes of each unit, by whether the unit is supplementary and by its index.
    scopes: RefCell<FxHashMap<(bool, usize), Rc<ScopeTable>>>,
}

impl<'d, 'a> Names<'d, 'a> {
    pub(super) fn new(
        primary: &'d Units<'d, 'a>,
        supplementary: Option<&'d Units<'d, 'a>>,
        budget: &'d Budget,
    ) -> Self {
        Self {
            primary,
            supplementary,
            budget,
            known: RefCell::default(),
            scopes: RefCell::default(),
        }
    }

    /// The name of the entry at `offset` in `unit` of the primary file, which
    /// `unit` belongs to.
    pub(super) fn name(&self, unit: UnitRef<'_, 'a>, offset: UnitOffset) -> Option<Name<'a>> {
        let start = EntryId {
            supplementary: false,
            offset: offset.to_debug_info_offset(&unit.header)?.0,
        };
        if let Some(known) = self.known.borrow().get(&start) {
            return known.clone();
        }
        let name = self.follow(start, MAX_ENCLOSING);
        self.known.borrow_mut().insert(start, name.clone());
        name
    }

    fn follow(&self, start: EntryId, enclosing: usize) -> Option<Name<'a>> {
        let mut id = start;
        let mut in_source = None;
        for _ in 0..MAX_REFERENCES {
            let entry = self.read(id);
            if let Some(text) = entry.linkage_name {
                return Some(Name {
                    text: Cow::Borrowed(text),
                    is_linkage: true,
                    objects: self.objects(start, text, entry.name),
                });
            }
            // The referenced entry is the declaration, whose scope is the right one.
            in_source = entry.name.map(|name| (name, id)).or(in_source);
            match entry.origin {
                Some(origin) => id = origin,
                None => break,
            }
        }
        let (name, id) = in_source?;
        let scope = self.scope(id, enclosing);
        // Many entries may be in one scope of a long name.
        let length = |scope: &String| scope.len() + name.len();
        let scope = scope.filter(|it| self.budget.spend_name(length(it)).is_some());
        let constructs = scope.as_ref().is_some_and(|scope| is_class(scope, name));
        let objects = constructs.then(|| self.objects_of_this(start)).flatten();
        let text = match scope {
            Some(scope) => Cow::Owned([scope.as_bytes(), b"::", name].concat()),
            None => Cow::Borrowed(name),
        };
        Some(Name {
            text,
            is_linkage: false,
            objects,
        })
    }

    /// What the function with this linkage name, and this name in the source, constructs or
    /// allocates space for.
    fn objects(
        &self,
        start: EntryId,
        linkage: &[u8],
        in_source: Option<&'a [u8]>,
    ) -> Option<Objects<'a>> {
        if is_constructor(linkage) {
            return self.objects_of_this(start);
        }
        // Its parameters are in the name in the source only, `new<demo::Node>`.
        if !RUST_GENERIC.iter().any(|it| linkage.starts_with(it)) {
            return None;
        }
        Some(Objects {
            name: Cow::Borrowed(first_argument(in_source?)?),
            bytes: 0,
        })
    }

    /// The class that `this` points to, in a function whose name is that of its class.
    fn objects_of_this(&self, function: EntryId) -> Option<Objects<'a>> {
        let mut id = function;
        let this = (0..MAX_REFERENCES).find_map(|_| {
            let entry = self.read_this(id);
            let next = entry.origin.unwrap_or(id);
            id = next;
            entry.this
        });
        let mut id = this?;
        let mut is_pointed_to = false;
        for _ in 0..MAX_REFERENCES {
            let entry = self.read_this(id);
            if is_pointed_to && entry.bytes > 0 && is_class_type(entry.tag) {
                return Some(Objects {
                    name: Cow::Borrowed(b""),
                    bytes: entry.bytes,
                });
            }
            is_pointed_to |= entry.tag == Some(gimli::DW_TAG_pointer_type);
            id = entry.of_type.or(entry.origin)?;
        }
        None
    }

    /// The scope of an entry without a linkage name, spelled as in one:
    /// compilers leave it out for what no other unit can name, such as the
    /// lambdas of functions that are not exported.
    fn scope(&self, id: EntryId, enclosing: usize) -> Option<String> {
        let enclosing = enclosing.checked_sub(1)?;
        let units = self.units(id)?;
        let offset = DebugInfoOffset(id.offset);
        let index = units.holding(offset)?;
        let unit = units.unit(index)?;
        let unit = UnitRef::new(units.dwarf(), &unit);
        let table = self.scope_table(unit, (id.supplementary, index));
        let scopes = table.around(unit, offset.to_unit_offset(&unit.header)?)?;
        let mut path: Vec<String> = Vec::new();
        for scope in scopes {
            match scope {
                Scope::Named(name) => path.push(name),
                Scope::Function(offset) => {
                    let id = EntryId {
                        offset: offset.to_debug_info_offset(&unit.header)?.0,
                        ..id
                    };
                    // Its name already contains the scopes around it.
                    path.clear();
                    let name = self.follow(id, enclosing)?;
                    let text = String::from_utf8_lossy(&name.text);
                    path.push(match name.is_linkage {
                        true => self.budget.demangle(&text).function,
                        false => text.into_owned(),
                    });
                }
            }
        }
        Some(path.join("::"))
    }

    fn scope_table(&self, unit: UnitRef<'_, 'a>, key: (bool, usize)) -> Rc<ScopeTable> {
        let mut tables = self.scopes.borrow_mut();
        let read = || Rc::new(ScopeTable::read(unit, self.budget));
        tables.entry(key).or_insert_with(read).clone()
    }

    fn units(&self, id: EntryId) -> Option<&'d Units<'d, 'a>> {
        if id.supplementary {
            self.supplementary
        } else {
            Some(self.primary)
        }
    }

    fn read(&self, id: EntryId) -> Entry<'a> {
        let mut entry = Entry::default();
        // Of a damaged entry, the attributes before the damage are used.
        let _ = self.read_into(id, &mut entry);
        entry
    }

    fn read_this(&self, id: EntryId) -> ThisEntry {
        let mut entry = ThisEntry::default();
        let _ = self.each_attribute(id, |tag, unit, attribute| {
            entry.tag = Some(tag);
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_object_pointer => entry.this = referred(unit, id, value),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    entry.origin = referred(unit, id, value);
                }
                gimli::DW_AT_type => entry.of_type = referred(unit, id, value),
                gimli::DW_AT_byte_size => {
                    let bytes = attribute
                        .udata_value()
                        .and_then(|it| u32::try_from(it).ok());
                    entry.bytes = bytes.unwrap_or(0);
                }
                _ => {}
            }
        });
        entry
    }

    fn read_into(&self, id: EntryId, entry: &mut Entry<'a>) -> Option<()> {
        self.each_attribute(id, |_, unit, attribute| {
            let text = || Some(unit.attr_string(attribute.value()).ok()?.slice());
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    entry.linkage_name = text();
                }
                gimli::DW_AT_name => entry.name = text(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    entry.origin = referred(unit, id, attribute.value());
                }
                _ => {}
            }
        })
    }

    /// Calls `then` for each attribute of an entry, with the entry's tag.
    fn each_attribute(
        &self,
        id: EntryId,
        mut then: impl FnMut(gimli::DwTag, UnitRef<'_, 'a>, gimli::Attribute<Slice<'a>>),
    ) -> Option<()> {
        let units = self.units(id)?;
        let offset = DebugInfoOffset(id.offset);
        let unit = units.unit(units.holding(offset)?)?;
        let unit = UnitRef::new(units.dwarf(), &unit);
        let offset = offset.to_unit_offset(&unit.header)?;
        let mut entries = unit.entries_raw(Some(offset)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            then(abbreviation.tag(), unit, attribute);
        }
        Some(())
    }
}

/// Linkage names of what allocates in Rust's standard library, with the mangling scheme without
/// type arguments.
const RUST_GENERIC: [&[u8]; 2] = [b"_ZN5alloc5boxed", b"_ZN5alloc7raw_vec"];

/// Whether the last part of a scope is a class of this name.
fn is_class(scope: &str, name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let constructor = format!("{scope}::{name}");
    constructed(&constructor).is_some()
}

/// The first of the arguments at the end of a name like `new<(u8, demo::Node), Global>`.
fn first_argument(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'<')? + 1;
    let mut depth = 0_u32;
    for (at, byte) in name.iter().enumerate().skip(start) {
        match byte {
            // The arrow of a function's type.
            b'>' if name[at - 1] == b'-' => {}
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b',' | b'>' if depth == 0 => {
                return name.get(start..at).filter(|it| !it.is_empty());
            }
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

fn is_class_type(tag: Option<gimli::DwTag>) -> bool {
    matches!(
        tag,
        Some(gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type)
    )
}

/// The attributes of an entry that lead to the class of a function.
#[derive(Default)]
struct ThisEntry {
    tag: Option<gimli::DwTag>,
    this: Option<EntryId>,
    origin: Option<EntryId>,
    of_type: Option<EntryId>,
    bytes: u32,
}

/// The attributes of an entry that give its name.
#[derive(Default)]
struct Entry<'a> {
    linkage_name: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    origin: Option<EntryId>,
}

fn referred<'a>(
    unit: UnitRef<'_, 'a>,
    from: EntryId,
    value: AttributeValue<Slice<'a>>,
) -> Option<EntryId> {
    let (supplementary, offset) = match value {
        AttributeValue::UnitRef(offset) => (
            from.supplementary,
            offset.to_debug_info_offset(&unit.header)?,
        ),
        AttributeValue::DebugInfoRef(offset) => (from.supplementary, offset),
        AttributeValue::DebugInfoRefSup(offset) => (true, offset),
        _ => return None,
    };
    Some(EntryId {
        supplementary,
        offset: offset.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_ends_at_its_comma_or_bracket() {
        for (name, argument) in [
            ("new<demo::Node>", Some("demo::Node")),
            ("grow_one<(u8, [u16; 3]), Global>", Some("(u8, [u16; 3])")),
            (
                "new<fn(u8) -> Vec<u8, Global>>",
                Some("fn(u8) -> Vec<u8, Global>"),
            ),
            ("new<>", None),
            ("new", None),
            ("new<a", None),
            (">", None),
        ] {
            let found = first_argument(name.as_bytes());
            assert_eq!(found, argument.map(str::as_bytes), "{name}");
        }
    }
}
