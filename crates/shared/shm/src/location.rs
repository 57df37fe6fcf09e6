//! What the recorder is to do, the value of
//! [`ENVIRONMENT_VARIABLE`](crate::layout::ENVIRONMENT_VARIABLE): to record into an arena, whose
//! location has the secret by which processes prove that they belong to the recording, or to
//! keep the process ready to be watched.
//!
//! It is passed only in the environment, which only the program's own user can read
//! (`/proc/PID/environ`), never in an argument or in a name.

use core::fmt;

/// The value of the variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Record into the arena at this location.
    Record(Location),
    /// Sample allocations, one of so many bytes on average; 0: not before a watcher sets a
    /// period. Written `watch:BYTES`.
    Watch(u64),
    /// Sample few allocations (`Period::SPARSE`), until a watcher wants more. Written `watch:standby`.
    Standby,
}

impl Request {
    /// Parses the variable's value; `None` if it is malformed.
    pub fn parse(value: &[u8]) -> Option<Self> {
        /// Longest number of bytes, in decimal digits: enough for 1 TiB.
        const DIGITS: core::ops::RangeInclusive<usize> = 1..=13;
        let Some(bytes) = value.strip_prefix(b"watch:") else {
            return Location::parse(value).map(Self::Record);
        };
        if bytes == b"standby" {
            return Some(Self::Standby);
        }
        if !DIGITS.contains(&bytes.len()) {
            return None;
        }
        let digit = |byte: &u8| char::from(*byte).to_digit(10).map(u64::from);
        bytes
            .iter()
            .try_fold(0, |value, byte| Some(value * 10 + digit(byte)?))
            .map(Self::Watch)
    }

    /// Parses the value of [`WATCH_VARIABLE`](crate::layout::WATCH_VARIABLE), which users write:
    /// `standby`, `off`, or how many bytes one sample stands for, such as `512KiB`; `None` if it is
    /// malformed.
    pub fn parse_watch(value: &[u8]) -> Option<Self> {
        /// The longest period: 1 TiB.
        const MAX: u64 = 1 << 40;
        match value {
            b"standby" => return Some(Self::Standby),
            b"off" => return Some(Self::Watch(0)),
            _ => {}
        }
        let digits = value.iter().take_while(|it| it.is_ascii_digit()).count();
        let (digits, unit) = value.split_at_checked(digits.min(14))?;
        let (first, rest) = match unit {
            [] => (b'b', &[][..]),
            [first, rest @ ..] => (first.to_ascii_lowercase(), rest),
        };
        let shift = match first {
            b'b' => 0,
            b'k' => 10,
            b'm' => 20,
            b'g' => 30,
            b't' => 40,
            _ => return None,
        };
        let is_unit = rest.is_empty() || shift > 0 && rest.eq_ignore_ascii_case(b"ib");
        let number = core::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
        let bytes = number.checked_mul(1 << shift)?;
        (is_unit && (1..=MAX).contains(&bytes)).then_some(Self::Watch(bytes))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(location) => location.fmt(into),
            Self::Watch(period) => write!(into, "watch:{period}"),
            Self::Standby => into.write_str("watch:standby"),
        }
    }
}

/// `PID:ARENA:CONTROL:NAME:SECRET`: three decimal numbers, then 16 and 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The collector's process id in its own namespace.
    pub process: u32,
    /// The collector's descriptor of the arena file.
    pub arena: u32,
    /// The collector's descriptor of the control file.
    pub control: u32,
    /// Random part of the name of the collector's socket, which every user can see.
    pub name: u64,
    /// Random; known only to the recording's own processes.
    pub secret: u128,
}

/// Longest name of a socket, in bytes.
pub const SOCKET_NAME: usize = 10 + 16;

impl Location {
    /// The part of the secret that is also in the control page, see
    /// [`Control::key`](crate::layout::Control::key).
    pub const fn key(&self) -> u64 {
        (self.secret >> 64) as u64
    }

    /// Abstract name of the collector's socket (`unix(7)`), without the leading zero
    /// byte.
    pub fn socket_name(&self) -> [u8; SOCKET_NAME] {
        let mut name = *b"allotrope-0000000000000000";
        for (at, digit) in name[10..].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(self.name >> (60 - 4 * at)) as usize & 15];
        }
        name
    }

    /// Parses the variable's value; `None` if it is malformed.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = value.split(|byte| *byte == b':');
        let mut number = |radix: u32, digits: core::ops::RangeInclusive<usize>| {
            let part = parts.next().filter(|part| digits.contains(&part.len()))?;
            part.iter().try_fold(0u128, |value, digit| {
                let digit = char::from(*digit).to_digit(radix)?;
                Some(value * u128::from(radix) + u128::from(digit))
            })
        };
        let location = Self {
            process: number(10, 1..=10)?.try_into().ok()?,
            arena: number(10, 1..=10)?.try_into().ok()?,
            control: number(10, 1..=10)?.try_into().ok()?,
            name: number(16, 16..=16)?.try_into().ok()?,
            secret: number(16, 32..=32)?,
        };
        parts.next().is_none().then_some(location)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            arena,
            control,
            name,
            secret,
        } = self;
        write!(
            into,
            "{process}:{arena}:{control}:{name:016x}:{secret:032x}"
        )
    }
}

/// Leaves out name and secret, since debug output may end up in messages.
impl fmt::Debug for Location {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Location")
            .field("process", &self.process)
            .field("arena", &self.arena)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCATION: Location = Location {
        process: 4_194_304,
        arena: 7,
        control: 8,
        name: 0x00ab_cdef_0123_4567,
        secret: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
    };
    const VALUE: &str = "4194304:7:8:00abcdef01234567:00112233445566778899aabbccddeeff";

    #[test]
    fn a_location_is_parsed_as_it_was_written() {
        assert_eq!(LOCATION.to_string(), VALUE);
        assert_eq!(Location::parse(VALUE.as_bytes()), Some(LOCATION));
        assert_eq!(&LOCATION.socket_name(), b"allotrope-00abcdef01234567");
        assert_eq!(LOCATION.key(), 0x0011_2233_4455_6677);
    }

    #[test]
    fn a_request_is_parsed_as_it_was_written() {
        for request in [
            Request::Record(LOCATION),
            Request::Watch(0),
            Request::Watch(1 << 40),
            Request::Standby,
        ] {
            let value = request.to_string();
            assert_eq!(Request::parse(value.as_bytes()), Some(request), "{value}");
        }
        for value in [
            "",
            "watch",
            "watch:",
            "watch:-1",
            "watch:1k",
            "watch:1:2",
            "watch:off",
        ] {
            assert_eq!(Request::parse(value.as_bytes()), None, "{value}");
        }
        // No number of this length overflows.
        assert_eq!(
            Request::parse(b"watch:9999999999999"),
            Some(Request::Watch(9_999_999_999_999))
        );
        assert_eq!(Request::parse(b"watch:10000000000000"), None);
        assert_eq!(Request::parse(&[b"watch:", &[b'9'; 99][..]].concat()), None);
    }

    #[test]
    fn users_write_sizes_with_units() {
        for (value, bytes) in [
            ("off", 0),
            ("1", 1),
            ("524288", 524_288),
            ("512KiB", 524_288),
            ("512k", 524_288),
            ("7b", 7),
            ("32MiB", 32 << 20),
            ("2G", 2 << 30),
            ("1TiB", 1 << 40),
        ] {
            let parsed = Request::parse_watch(value.as_bytes());
            assert_eq!(parsed, Some(Request::Watch(bytes)), "{value}");
        }
        for value in [
            "",
            "0",
            "0KiB",
            "-1",
            "1.5MiB",
            "KiB",
            "1 KiB",
            "1KB",
            "1bib",
            "2TiB",
            "Standby",
            "OFF",
            "standby ",
            "99999999999999999999",
            "18446744073709551616",
            "16777216TiB",
            "%s%n",
            "\u{1b}[2J",
            "1\n",
        ] {
            assert_eq!(Request::parse_watch(value.as_bytes()), None, "{value}");
        }
        assert_eq!(Request::parse_watch(b"standby"), Some(Request::Standby));
        assert_eq!(Request::parse_watch(&[0xff; 4096]), None);
        assert_eq!(Request::parse_watch(&[b'9'; 1 << 20]), None);
    }

    #[test]
    fn malformed_values_are_rejected() {
        for value in [
            "",
            ":::::",
            "1:2:3:4:5",
            &VALUE[1..].replace(':', ";"),
            &VALUE[..VALUE.len() - 1],
            &format!("{VALUE}0"),
            &format!("{VALUE}:"),
            &format!("9999999999{}", &VALUE[7..]),
            &VALUE.replace("7:8", "-7:8"),
        ] {
            assert_eq!(Location::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn the_secret_is_not_printed_by_accident() {
        assert!(!format!("{LOCATION:?}").contains("aabb"));
    }
}
