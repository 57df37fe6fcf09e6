//! The tables of a request under construction: each entry once. A set of stacks adds its
//! modules, functions and stacks; entry 0 of each table is the empty one.

use std::hash::Hash;

use allotrope_profile::{StackFrame, StackSet};
use rustc_hash::FxHashMap;

use super::messages::{
    Dictionary, DictionaryAttribute, Function, Line, Link, Location, Mapping, Stack, Value,
};
use crate::exporters::groups::groups;
use crate::exporters::modules::ModuleNames;
use crate::exporters::naming::name;

/// What `profile.frame.type` says of compiled code.
const NATIVE: &str = "native";

/// A map from entries of a table to their indexes. Index 0 is taken.
#[derive(Debug)]
struct Index<K>(FxHashMap<K, i32>);

impl<K: Hash + Eq> Index<K> {
    /// The index of an entry, and whether it is new.
    fn get(&mut self, key: K) -> (i32, bool) {
        // A request has far fewer entries than fit: see `SAMPLES` of its caller.
        let next = i32::try_from(self.0.len() + 1).unwrap_or(i32::MAX);
        let index = *self.0.entry(key).or_insert(next);
        (index, index == next)
    }
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

/// The tables.
#[derive(Debug)]
pub(super) struct Tables {
    dictionary: Dictionary,
    strings: Index<String>,
    mappings: Index<(i32, String)>,
    functions: Index<[i32; 3]>,
    locations: Index<(i32, Vec<Line>)>,
    stacks: Index<Vec<i32>>,
}

impl Tables {
    pub fn new() -> Self {
        Self {
            dictionary: Dictionary {
                mappings: vec![Mapping::default()],
                locations: vec![Location::default()],
                functions: vec![Function::default()],
                links: vec![Link::default()],
                strings: vec![String::new()],
                attributes: vec![DictionaryAttribute::default()],
                stacks: vec![Stack::default()],
            },
            strings: Index::default(),
            mappings: Index::default(),
            functions: Index::default(),
            locations: Index::default(),
            stacks: Index::default(),
        }
    }

    /// The finished tables.
    pub fn finish(self) -> Dictionary {
        self.dictionary
    }

    pub fn string(&mut self, text: &str) -> i32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(index) = self.strings.0.get(text) {
            return *index;
        }
        let (index, _) = self.strings.get(text.to_owned());
        self.dictionary.strings.push(text.to_owned());
        index
    }

    /// An attribute; equal ones are found again.
    pub fn attribute(&mut self, key: &str, value: Value, unit: &str) -> i32 {
        let attribute = DictionaryAttribute {
            key_strindex: self.string(key),
            value: Some(value.into()),
            unit_strindex: self.string(unit),
        };
        let attributes = &mut self.dictionary.attributes;
        // A few dozen: build ids, and what profiles have.
        let known = attributes.iter().position(|it| *it == attribute);
        let index = known.unwrap_or(attributes.len());
        if known.is_none() {
            attributes.push(attribute);
        }
        i32::try_from(index).unwrap_or(i32::MAX)
    }

    /// The stack of these frames, innermost first. Without frames it is the empty one.
    pub fn stack(&mut self, set: &StackSet, modules: &ModuleNames<'_>, frames: &[u32]) -> i32 {
        let groups = groups(set, frames);
        let locations = groups.map(|group| self.location(set, modules, group));
        let location_indices: Vec<i32> = locations.collect();
        if location_indices.is_empty() {
            return 0;
        }
        let (index, is_new) = self.stacks.get(location_indices.clone());
        if is_new {
            self.dictionary.stacks.push(Stack { location_indices });
        }
        index
    }

    fn location(&mut self, set: &StackSet, modules: &ModuleNames<'_>, group: &[u32]) -> i32 {
        let frames = || group.iter().map(|frame| &set.frames[*frame as usize]);
        let module = frames().next_back().map_or("", |frame| &*frame.module);
        let mapping_index = self.mapping(modules, module);
        let lines: Vec<Line> = frames().map(|frame| self.line(frame)).collect();
        let (index, is_new) = self.locations.get((mapping_index, lines.clone()));
        if is_new {
            let kind = self.attribute("profile.frame.type", NATIVE.into(), "");
            self.dictionary.locations.push(Location {
                mapping_index,
                lines,
                attribute_indices: vec![kind],
            });
        }
        index
    }

    fn line(&mut self, frame: &StackFrame) -> Line {
        let name = name(frame);
        let system_name = match &*frame.signature {
            "" => &*name,
            signature => signature,
        };
        let key = [
            self.string(&name),
            self.string(system_name),
            self.string(&frame.file),
        ];
        let (function_index, is_new) = self.functions.get(key);
        if is_new {
            self.dictionary.functions.push(Function {
                name_strindex: key[0],
                system_name_strindex: key[1],
                filename_strindex: key[2],
            });
        }
        Line {
            function_index,
            line: frame.line.into(),
            column: frame.column.into(),
        }
    }

    fn mapping(&mut self, modules: &ModuleNames<'_>, module: &str) -> i32 {
        if module.is_empty() {
            return 0;
        }
        let (path, build_id) = modules.identity(module);
        let filename_strindex = self.string(&path);
        let (index, is_new) = self.mappings.get((filename_strindex, build_id.clone()));
        if is_new {
            // Keeps backends from looking the names up once more, as in pprof.
            let resolved = ["functions", "filenames", "line_numbers", "inline_frames"].map(|it| {
                self.attribute(&format!("pprof.mapping.has_{it}"), Value::Bool(true), "")
            });
            let mut attribute_indices = resolved.to_vec();
            if !build_id.is_empty() {
                let key = "process.executable.build_id.gnu";
                attribute_indices.push(self.attribute(key, Value::Text(build_id), ""));
            }
            self.dictionary.mappings.push(Mapping {
                filename_strindex,
                attribute_indices,
            });
        }
        index
    }
}
