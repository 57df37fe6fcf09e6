//! The protobuf messages of OTLP profiles that are written, and the answers of a collector.
//!
//! Source: opentelemetry-proto, `profiles/v1development` and `collector/profiles/v1development`,
//! in the form that the OpenTelemetry Collector 0.165 reads (its `pdata/internal`). The schema is
//! under development: field numbers have changed before. Fields that are not used are left out.
//!
//! Indexes refer to a table of the [`Dictionary`]; entry 0 of each table is the empty one.

use prost::{Message, Oneof};

/// What is sent: `ExportProfilesServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// One for each process.
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles: Vec<ResourceProfiles>,
    /// The tables that all profiles refer to.
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Dictionary>,
}

/// The tables: `ProfilesDictionary`.
#[derive(Clone, PartialEq, Message)]
pub struct Dictionary {
    /// The module files.
    #[prost(message, repeated, tag = "1")]
    pub mappings: Vec<Mapping>,
    /// A function and those that are inlined into it.
    #[prost(message, repeated, tag = "2")]
    pub locations: Vec<Location>,
    /// The functions.
    #[prost(message, repeated, tag = "3")]
    pub functions: Vec<Function>,
    /// References to spans. There are none, but the table has its empty entry.
    #[prost(message, repeated, tag = "4")]
    pub links: Vec<Link>,
    /// The texts.
    #[prost(string, repeated, tag = "5")]
    pub strings: Vec<String>,
    /// Attributes of profiles and mappings.
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<DictionaryAttribute>,
    /// The stacks.
    #[prost(message, repeated, tag = "7")]
    pub stacks: Vec<Stack>,
}

/// The profiles of a process.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceProfiles {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// One for each program that makes profiles.
    #[prost(message, repeated, tag = "2")]
    pub scope_profiles: Vec<ScopeProfiles>,
}

/// What profiles are about.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Attributes of the resource.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<Attribute>,
}

/// The profiles that one program has made.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeProfiles {
    /// The program that has made the profiles.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// One for each sample type.
    #[prost(message, repeated, tag = "2")]
    pub profiles: Vec<Profile>,
}

/// The program that makes profiles: `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Name of the program.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version of the program.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Attributes of the program.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<Attribute>,
}

/// The values of one sample type.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values are.
    #[prost(message, optional, tag = "1")]
    pub sample_type: Option<ValueType>,
    /// The stacks with their values.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// When the values were collected, in nanoseconds since 1970 UTC.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// What `period` counts.
    #[prost(message, optional, tag = "5")]
    pub period_type: Option<ValueType>,
    /// The sampling period.
    #[prost(int64, tag = "6")]
    pub period: i64,
    /// 16 bytes that no other profile has.
    #[prost(bytes = "vec", tag = "7")]
    pub profile_id: Vec<u8>,
    /// Attributes of the profile.
    #[prost(int32, repeated, tag = "11")]
    pub attribute_indices: Vec<i32>,
}

/// A stack with its value.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The stack.
    #[prost(int32, tag = "1")]
    pub stack_index: i32,
    /// One value of the profile's sample type.
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// A type and a unit, as indexes of strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    /// Such as `inuse_space`.
    #[prost(int32, tag = "1")]
    pub type_strindex: i32,
    /// Such as `bytes`.
    #[prost(int32, tag = "2")]
    pub unit_strindex: i32,
}

/// A module file.
#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    /// Path of the file.
    #[prost(int32, tag = "4")]
    pub filename_strindex: i32,
    /// Attributes of the file, such as the build id.
    #[prost(int32, repeated, tag = "5")]
    pub attribute_indices: Vec<i32>,
}

/// A stack, the innermost location first.
#[derive(Clone, PartialEq, Message)]
pub struct Stack {
    /// Locations of the stack.
    #[prost(int32, repeated, tag = "1")]
    pub location_indices: Vec<i32>,
}

/// A function and those that are inlined into it.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// The module file.
    #[prost(int32, tag = "1")]
    pub mapping_index: i32,
    /// The innermost inlined function first.
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
    /// Attributes of the location.
    #[prost(int32, repeated, tag = "4")]
    pub attribute_indices: Vec<i32>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Line {
    /// The function.
    #[prost(int32, tag = "1")]
    pub function_index: i32,
    /// Line number from 1; 0 if unknown.
    #[prost(int64, tag = "2")]
    pub line: i64,
    /// Column number from 1; 0 if unknown.
    #[prost(int64, tag = "3")]
    pub column: i64,
}

/// A function, as indexes of strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// Name of the function without parameters.
    #[prost(int32, tag = "1")]
    pub name_strindex: i32,
    /// The full form of its name.
    #[prost(int32, tag = "2")]
    pub system_name_strindex: i32,
    /// Source file of the function.
    #[prost(int32, tag = "3")]
    pub filename_strindex: i32,
}

/// A reference to a span. Only the empty one is used.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Link {}

/// An attribute of a resource or scope: `KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Name of the attribute.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of the attribute.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// An attribute of the dictionary: `KeyValueAndUnit`.
#[derive(Clone, PartialEq, Message)]
pub struct DictionaryAttribute {
    /// The string that is its name.
    #[prost(int32, tag = "1")]
    pub key_strindex: i32,
    /// Value of the attribute.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
    /// The string that is its unit; 0 if it has none.
    #[prost(int32, tag = "3")]
    pub unit_strindex: i32,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// The value of an attribute, by its type.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Several values.
    #[prost(message, tag = "5")]
    Array(Array),
}

/// Several values.
#[derive(Clone, PartialEq, Message)]
pub struct Array {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// The answer to an accepted request: `ExportProfilesServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// What was not accepted.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What was not accepted of a request.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// The number of profiles that were not accepted.
    #[prost(int64, tag = "1")]
    pub rejected_profiles: i64,
    /// Why; with no rejected profile, a warning.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The answer to a request that failed: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// A sentence for developers.
    #[prost(string, tag = "2")]
    pub message: String,
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> Self {
        Self { value: Some(value) }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
