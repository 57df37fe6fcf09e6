//! Writes profiles in pprof's form. Source: the Protocol Buffers documentation, "Encoding", and
//! pprof's `proto/profile.proto`.

/// A message under construction.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

impl Message {
    pub fn number(mut self, field: u64, number: u64) -> Self {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, number);
        self
    }

    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn message(self, field: u64, message: Message) -> Self {
        self.bytes(field, &message.0)
    }

    pub fn packed(self, field: u64, numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut bytes = Vec::new();
        for number in numbers {
            varint(&mut bytes, number);
        }
        self.bytes(field, &bytes)
    }

    /// The start of a profile of allocations: its kind, and strings. The first two are there
    /// already.
    pub fn profile(strings: &[&str]) -> Self {
        let kind = Message::default().number(1, 1).number(2, 1);
        let profile = Message::default().message(1, kind).bytes(6, b"");
        let strings = std::iter::once(&"alloc_objects").chain(strings);
        strings.fold(profile, |profile, text| profile.bytes(6, text.as_bytes()))
    }

    /// A function, whose name is the string with this number.
    pub fn function(self, id: u64, name: u64) -> Self {
        self.message(5, Message::default().number(1, id).number(2, name))
    }

    /// A location with these lines: function and line each.
    pub fn location(self, id: u64, lines: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut location = Message::default().number(1, id);
        for (function, line) in lines {
            let line = Message::default().number(1, function).number(2, line);
            location = location.message(4, line);
        }
        self.message(4, location)
    }

    /// A sample at these locations.
    pub fn sample(self, locations: impl IntoIterator<Item = u64>) -> Self {
        let sample = Message::default().packed(1, locations).packed(2, [1]);
        self.message(2, sample)
    }
}
