//! Writes a profile field by field: first the samples, then the tables they
//! refer to.

use std::io::{self, Write};

use allotrope_profile::{Metric, StackFrame, StackSet};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rustc_hash::FxHashMap;

use super::{DEFAULTS, entry_points};
use crate::exporters::groups::groups;
use crate::exporters::modules::ModuleNames;
use crate::exporters::naming::name;
use crate::pprof_message::{Function, Line, Location, Mapping, Sample, ValueType, field};

/// A comment of each profile.
const SAMPLE_TYPES: &str =
    "alloc: all allocations; inuse: live at the end; peak: live when most bytes were live";

/// A profile under construction. Ids count from 1; 0 is none.
pub(super) struct Builder<'a> {
    set: &'a StackSet,
    modules: ModuleNames<'a>,
    out: &'a mut dyn Write,
    strings: FxHashMap<String, i64>,
    texts: Vec<String>,
    locations: FxHashMap<&'a [u32], u64>,
    functions: FxHashMap<[i64; 3], u64>,
    mappings: FxHashMap<&'a str, u64>,
}

impl<'a> Builder<'a> {
    pub fn new(set: &'a StackSet, out: &'a mut dyn Write) -> Self {
        let mut builder = Self {
            set,
            modules: ModuleNames::of(set),
            out,
            strings: FxHashMap::default(),
            texts: Vec::new(),
            locations: FxHashMap::default(),
            functions: FxHashMap::default(),
            mappings: FxHashMap::default(),
        };
        // The first string must be the empty one.
        builder.string("");
        builder
    }

    /// Writes the sample types, in the order of their values.
    pub fn kinds(
        &mut self,
        kinds: &[(Metric, &str, &str)],
        default: Option<Metric>,
    ) -> io::Result<()> {
        for (_, kind, unit) in kinds {
            let value_type = ValueType {
                kind: self.string(kind),
                unit: self.string(unit),
            };
            self.message(field::SAMPLE_TYPE, &value_type)?;
        }
        // Without it, pprof takes the last.
        let known = |metric| kinds.iter().find(|(known, ..)| *known == metric);
        let defaults = match self.set.run.sampling {
            // As in Go's heap profiles: what fills the memory now.
            Some(_) => [Metric::LeakedBytes, Metric::Bytes, Metric::Allocations],
            None => DEFAULTS,
        };
        let mut defaults = default.into_iter().chain(defaults);
        let preferred = defaults.find_map(known).or(kinds.first());
        let preferred = self.string(preferred.map_or("", |(_, kind, _)| kind));
        self.number(field::DEFAULT_SAMPLE_TYPE, preferred)
    }

    /// Writes what is known of the run as a whole.
    pub fn about(&mut self) -> io::Result<()> {
        let set = self.set;
        let dropped = self.string(&entry_points::pattern());
        self.number(field::DROP_FRAMES, dropped)?;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(started) = set.run.started_unix_ns {
            self.number(field::TIME_NANOS, signed(started))?;
        }
        if let Some(duration) = set.run.duration_us {
            let duration = signed(duration.saturating_mul(1_000));
            self.number(field::DURATION_NANOS, duration)?;
        }
        let mut comments = vec![&*set.title, SAMPLE_TYPES];
        if let Some(sampling) = &set.run.sampling {
            let period_type = ValueType {
                kind: self.string("space"),
                unit: self.string("bytes"),
            };
            self.message(field::PERIOD_TYPE, &period_type)?;
            self.number(field::PERIOD, signed(sampling.period))?;
            comments.extend(sampling.notes.iter().map(String::as_str));
        }
        for comment in comments {
            if !comment.is_empty() {
                let comment = self.string(comment);
                self.number(field::COMMENT, comment)?;
            }
        }
        // The first mapping is the main one.
        let main = self.modules.main();
        self.mapping(main);
        Ok(())
    }

    /// Writes a stack with its values.
    pub fn sample(
        &mut self,
        stack: &'a [u32],
        values: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        let sample = Sample {
            location_id: groups(self.set, stack)
                .map(|group| self.location(group))
                .collect(),
            // pprof's values are signed.
            value: values
                .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
                .collect(),
        };
        self.message(field::SAMPLE, &sample)
    }

    /// Writes the tables.
    pub fn finish(mut self) -> io::Result<()> {
        let mut locations: Vec<(&[u32], u64)> = self.locations.drain().collect();
        locations.sort_unstable_by_key(|(_, id)| *id);
        for (group, id) in locations {
            let location = self.location_message(group, id);
            self.message(field::LOCATION, &location)?;
        }
        let mut functions: Vec<([i64; 3], u64)> = self.functions.drain().collect();
        functions.sort_unstable_by_key(|(_, id)| *id);
        for ([name, system_name, filename], id) in functions {
            let function = Function {
                id,
                name,
                system_name,
                filename,
            };
            self.message(field::FUNCTION, &function)?;
        }
        self.write_mappings()?;
        for text in std::mem::take(&mut self.texts) {
            self.bytes(field::STRING, text.as_bytes())?;
        }
        Ok(())
    }

    fn write_mappings(&mut self) -> io::Result<()> {
        let mut mappings: Vec<(&str, u64)> = self.mappings.drain().collect();
        mappings.sort_unstable_by_key(|(_, id)| *id);
        for (module, id) in mappings {
            let (path, build_id) = self.modules.identity(module);
            let mapping = Mapping {
                id,
                filename: self.string(&path),
                build_id: self.string(&build_id),
                // Keeps pprof from symbolizing by itself.
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
                ..Mapping::default()
            };
            self.message(field::MAPPING, &mapping)?;
        }
        Ok(())
    }

    fn location(&mut self, group: &'a [u32]) -> u64 {
        let next = self.locations.len() as u64 + 1;
        *self.locations.entry(group).or_insert(next)
    }

    fn location_message(&mut self, group: &'a [u32], id: u64) -> Location {
        let set = self.set;
        let frames = || group.iter().map(|frame| &set.frames[*frame as usize]);
        let module = frames().next_back().map_or("", |frame| &*frame.module);
        Location {
            id,
            mapping_id: self.mapping(module),
            address: 0,
            line: frames().map(|frame| self.line(frame)).collect(),
        }
    }

    fn mapping(&mut self, module: &'a str) -> u64 {
        if module.is_empty() {
            return 0;
        }
        let next = self.mappings.len() as u64 + 1;
        *self.mappings.entry(module).or_insert(next)
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
        let next = self.functions.len() as u64 + 1;
        Line {
            function_id: *self.functions.entry(key).or_insert(next),
            line: frame.line.into(),
            column: frame.column.into(),
        }
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = self.texts.len() as i64;
        self.strings.insert(text.to_owned(), index);
        self.texts.push(text.to_owned());
        index
    }

    fn message(&mut self, number: u32, message: &impl Message) -> io::Result<()> {
        let bytes = message.encode_to_vec();
        self.bytes(number, &bytes)
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) -> io::Result<()> {
        let mut head = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut head);
        encode_varint(bytes.len() as u64, &mut head);
        self.out.write_all(&head)?;
        self.out.write_all(bytes)
    }

    fn number(&mut self, number: u32, value: i64) -> io::Result<()> {
        let mut bytes = Vec::new();
        prost::encoding::int64::encode(number, &value, &mut bytes);
        self.out.write_all(&bytes)
    }
}
