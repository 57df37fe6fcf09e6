use prost::encoding::{WireType, encode_key, encode_varint};

use super::*;
use crate::pprof_message::{Function, Line, Location, Mapping};
use crate::readers::tests::describe;

/// Writes a profile field by field.
#[derive(Default)]
struct Profile(Vec<u8>);

impl Profile {
    fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(self, number: u32, message: &impl Message) -> Self {
        self.bytes(number, &message.encode_to_vec())
    }

    fn strings(self, strings: &[&str]) -> Self {
        strings.iter().fold(self, |profile, text| {
            profile.bytes(field::STRING, text.as_bytes())
        })
    }

    fn read(&self) -> Result<Parsed, Fault> {
        read(&mut &self.0[..], &Budget::default())
    }
}

const STRINGS: [&str; 8] = [
    "",
    "alloc_objects",
    "count",
    "alloc_space",
    "bytes",
    "f",
    "/bin/p",
    "p.c",
];

fn kind(kind: i64, unit: i64) -> ValueType {
    ValueType { kind, unit }
}

fn sample(location_id: &[u64], value: &[i64]) -> Sample {
    Sample {
        location_id: location_id.into(),
        value: value.into(),
    }
}

fn profile() -> Profile {
    let line = |function_id, line| Line {
        function_id,
        line,
        column: 2,
    };
    let function = |id, name, system_name| Function {
        id,
        name,
        system_name,
        filename: 7,
    };
    Profile::default()
        .message(field::SAMPLE_TYPE, &kind(1, 2))
        .message(field::SAMPLE_TYPE, &kind(3, 4))
        .message(field::SAMPLE, &sample(&[1, 2], &[3, 300]))
        .message(field::SAMPLE, &sample(&[1, 2], &[4, 400]))
        .message(
            field::MAPPING,
            &Mapping {
                id: 9,
                filename: 6,
                ..Mapping::default()
            },
        )
        .message(
            field::LOCATION,
            &Location {
                id: 1,
                mapping_id: 9,
                address: 16,
                line: vec![line(1, 10), line(2, 20)],
            },
        )
        .message(
            field::LOCATION,
            &Location {
                id: 2,
                address: 32,
                ..Location::default()
            },
        )
        .message(field::FUNCTION, &function(1, 5, 5))
        .message(field::FUNCTION, &function(2, 0, 8))
        .strings(&STRINGS)
        .strings(&["_ZN1a1gEi"])
}

#[test]
fn samples_are_read_through_the_tables() {
    let parsed = profile().read().unwrap();
    assert_eq!(describe(&parsed.set), ["p`f p`a::g `0x20 = 7"]);
    assert_eq!(parsed.set.stacks[0].figures[1], 300 + 400);
    let [f, g, _] = &parsed.set.frames[..] else {
        panic!("{:?}", parsed.set.frames)
    };
    assert!(f.inlined && !g.inlined);
    assert_eq!((f.line, f.column, &*f.file), (10, 2, "p.c"));
    assert_eq!(&*g.signature, "a::g(int)");
    assert!(begins(&profile().0));
}

/// In protobuf, the fields of a message may be in any order.
#[test]
fn samples_may_precede_their_types() {
    let shuffled = Profile::default()
        .message(field::SAMPLE, &sample(&[1], &[3, 300]))
        .message(field::SAMPLE_TYPE, &kind(1, 2))
        .message(field::SAMPLE, &sample(&[1], &[4, 400]))
        .message(field::SAMPLE_TYPE, &kind(3, 4))
        .message(
            field::LOCATION,
            &Location {
                id: 1,
                address: 32,
                ..Location::default()
            },
        )
        .strings(&STRINGS);
    let parsed = shuffled.read().unwrap();
    assert_eq!(describe(&parsed.set), ["`0x20 = 7"]);
    assert_eq!(parsed.set.stacks[0].figures[1], 300 + 400);
}

#[test]
fn samples_with_more_or_fewer_values_than_types_are_an_error() {
    let kinds = |profile: Profile| {
        profile
            .message(field::SAMPLE_TYPE, &kind(1, 2))
            .message(field::SAMPLE_TYPE, &kind(3, 4))
            .strings(&STRINGS)
    };
    for values in [&[][..], &[1], &[1, 1, 1]] {
        // All samples before the types, and one between them.
        let before = kinds(Profile::default().message(field::SAMPLE, &sample(&[], values)));
        let between = kinds(
            Profile::default()
                .message(field::SAMPLE_TYPE, &kind(5, 2))
                .message(field::SAMPLE, &sample(&[], values))
                .message(field::SAMPLE, &sample(&[], &[1, 2])),
        );
        for profile in [before, between] {
            let problem = profile.read().unwrap_err().problem.to_string();
            assert!(problem.contains("one value for each kind"), "{problem}");
        }
    }
}

#[test]
fn a_profile_of_time_is_refused() {
    let profile = Profile::default()
        .message(field::SAMPLE_TYPE, &kind(1, 2))
        .strings(&["", "cpu", "nanoseconds"]);
    let problem = profile.read().unwrap_err().problem.to_string();
    assert!(
        problem.contains("it counts cpu, not allocations"),
        "{problem}"
    );
}

#[test]
fn invalid_profiles_are_errors() {
    for profile in [
        profile().message(field::SAMPLE, &sample(&[7], &[1, 1])),
        profile().message(field::SAMPLE, &sample(&[1], &[1])),
        profile().message(field::SAMPLE, &sample(&[1], &[-1, 1])),
        profile().message(field::SAMPLE_TYPE, &kind(99, 0)),
        profile().bytes(field::SAMPLE, b"\xff\xff"),
        profile()
            .message(field::SAMPLE, &sample(&[1], &[i64::MAX, 1]))
            .message(field::SAMPLE, &sample(&[1], &[i64::MAX, 1]))
            .message(field::SAMPLE, &sample(&[1], &[i64::MAX, 1])),
    ] {
        assert!(profile.read().is_err());
    }
}
