//! `allotrope-stacks/1`: JSON with all stacks of a
//! [`StackSet`](allotrope_profile::StackSet), without its
//! [`RunInfo`](allotrope_profile::RunInfo). The format is
//! stable: no field is renamed, removed or redefined without a new format
//! number.
//!
//! ```json
//! {"format":"allotrope-stacks/1",
//!  "title":"./prog",
//!  "metrics":["allocations","allocated_bytes"],
//!  "frames":[{"function":"f","signature":"f(int)","module":"prog","file":"/src/f.c",
//!             "line":10,"column":3,"offset":26,"inlined":false}],
//!  "stacks":[{"stack":[0],"figures":[17,1088]}]}
//! ```
//!
//! `stack` has indexes into `frames`, innermost first; `figures` are in the
//! order of `metrics`, which lists the metrics that the source has. `offset` is
//! in bytes from the start of the function, `null` if unknown; a line or column
//! of 0 and an empty text mean unknown. A frame whose function the compiler wrote (a
//! derived trait's method, an implicit copy constructor) also has `"generated":true`. Two
//! stacks may have the same frames. A stack of a recording also has
//! `"maximum":[BYTES,ALLOCATIONS]`: its largest number of live bytes, and the allocations
//! that were live then.
//! Of a sampled profile, a stack has `figures_low` and `figures_high`, the ends of the 95 %
//! intervals of its figures, and the object has `"sampled":{"period_bytes":…,"notes":[…],"totals":
//! {"leaked_bytes":…,"leaked_bytes_low":…,"leaked_bytes_high":…,…}}`.
//! Readers ignore unknown fields.

/// The value of the field `format`.
pub(crate) const FORMAT: &str = "allotrope-stacks/1";
