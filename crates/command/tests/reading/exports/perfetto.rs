//! Decodes Perfetto traces by messages that are declared here, from
//! `protos/perfetto/trace/perfetto_trace.proto` and not from ours, and resolves what is
//! interned.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<Clocks>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub event: Option<Event>,
    #[prost(message, optional, tag = "12")]
    pub interned: Option<Interned>,
    #[prost(uint32, optional, tag = "13")]
    pub flags: Option<u32>,
    #[prost(message, optional, tag = "37")]
    pub profile: Option<Profile>,
    #[prost(message, optional, tag = "60")]
    pub track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clocks {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub ns: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    #[prost(message, repeated, tag = "5")]
    pub functions: Vec<Text>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub stacks: Vec<Stack>,
    #[prost(message, repeated, tag = "17")]
    pub paths: Vec<Text>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Text {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub function: u64,
    #[prost(uint64, tag = "3")]
    pub mapping: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Stack {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frames: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "5")]
    pub dumps: Vec<Dump>,
    #[prost(bool, optional, tag = "6")]
    pub continued: Option<bool>,
    #[prost(uint64, optional, tag = "7")]
    pub index: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dump {
    #[prost(uint64, tag = "1")]
    pub pid: u64,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    #[prost(uint64, tag = "9")]
    pub ns: u64,
    #[prost(string, tag = "11")]
    pub heap: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(uint64, tag = "1")]
    pub stack: u64,
    #[prost(uint64, tag = "2")]
    pub allocated: u64,
    #[prost(uint64, tag = "3")]
    pub freed: u64,
    #[prost(uint64, tag = "5")]
    pub allocations: u64,
    #[prost(uint64, tag = "6")]
    pub frees: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Track {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub process: Option<Process>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Process {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "6")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(int32, tag = "9")]
    pub kind: i32,
    #[prost(uint64, tag = "11")]
    pub track: u64,
    #[prost(string, tag = "23")]
    pub name: String,
    #[prost(int64, tag = "30")]
    pub value: i64,
}

/// What a trace processor knows of a heap after all dumps: by stack, outermost function first,
/// then its id, because different stacks may have the same functions.
pub type Heap = BTreeMap<Vec<String>, Sums>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub allocations: u64,
    pub allocated: u64,
    pub frees: u64,
    pub freed: u64,
}

/// Decodes a file and checks what a reader relies on: flags and the numbers of dumps of each
/// sequence, their order in time, sums that do not decrease, interned ids. Returns the heaps by
/// pid and name.
pub fn heaps(file: &[u8]) -> (Trace, BTreeMap<(u64, String), Heap>) {
    let trace = Trace::decode(file).expect("it is a trace");
    let mut heaps: BTreeMap<(u64, String), Heap> = BTreeMap::new();
    let sequences = trace.packet.iter().filter_map(|packet| packet.sequence);
    for sequence in sequences.collect::<std::collections::BTreeSet<u32>>() {
        let packets = trace.packet.iter();
        let own = packets.filter(|packet| packet.sequence == Some(sequence));
        dumps_of(own, &mut heaps);
    }
    (trace, heaps)
}

fn dumps_of<'a>(
    packets: impl Iterator<Item = &'a Packet>,
    heaps: &mut BTreeMap<(u64, String), Heap>,
) {
    let mut names = Names::default();
    // A heap that begins later starts anew, although Perfetto adds up all heaps of a process.
    let mut before: HashMap<(u64, &str, Vec<String>), Sums> = HashMap::new();
    let (mut index, mut ns) = (0, 0);
    for (number, packet) in packets.enumerate() {
        assert_eq!(packet.flags, Some(if number == 0 { 3 } else { 2 }));
        if let Some(interned) = &packet.interned {
            names.add(interned);
        }
        let Some(profile) = &packet.profile else {
            continue;
        };
        assert_eq!(profile.index, Some(index));
        index += 1;
        assert!(packet.timestamp >= Some(ns), "dumps are in order of time");
        ns = packet.timestamp.expect("a dump has a time");
        for dump in &profile.dumps {
            assert_eq!(dump.ns, ns);
            for sample in &dump.samples {
                let mut stack = names.stack(sample.stack);
                stack.push(format!("stack {}", sample.stack));
                let sums = Sums {
                    allocations: sample.allocations,
                    allocated: sample.allocated,
                    frees: sample.frees,
                    freed: sample.freed,
                };
                let last = before.insert((dump.pid, &dump.heap, stack.clone()), sums);
                let last = last.unwrap_or_default();
                assert!(last.allocated <= sums.allocated && last.freed <= sums.freed);
                assert!(last.allocations <= sums.allocations && last.frees <= sums.frees);
                let heap = heaps.entry((dump.pid, dump.heap.clone())).or_default();
                heap.insert(stack, sums);
            }
        }
    }
}

#[derive(Default)]
struct Names {
    functions: HashMap<u64, String>,
    frames: HashMap<u64, u64>,
    stacks: HashMap<u64, Vec<u64>>,
    paths: HashMap<u64, String>,
    mappings: HashMap<u64, Vec<u64>>,
}

impl Names {
    fn add(&mut self, interned: &Interned) {
        let text = |it: &Text| (it.id, String::from_utf8(it.text.clone()).expect("UTF-8"));
        self.functions.extend(interned.functions.iter().map(text));
        self.paths.extend(interned.paths.iter().map(text));
        let mappings = interned.mappings.iter();
        self.mappings
            .extend(mappings.map(|it| (it.id, it.path.clone())));
        for frame in &interned.frames {
            let path = &self.mappings[&frame.mapping];
            assert!(path.iter().all(|id| self.paths.contains_key(id)));
            self.frames.insert(frame.id, frame.function);
        }
        let stacks = interned.stacks.iter();
        self.stacks
            .extend(stacks.map(|it| (it.id, it.frames.clone())));
    }

    fn stack(&self, id: u64) -> Vec<String> {
        let frames = self.stacks[&id].iter();
        let functions = frames.map(|frame| self.functions[&self.frames[frame]].clone());
        functions.collect()
    }
}
