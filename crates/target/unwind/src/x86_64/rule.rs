//! Unwind rules: how to find a frame's caller. For nearly all code a rule fits into one
//! word.
//!
//! A rule contains how to compute the CFA (the caller's stack pointer after the return)
//! and where the caller's rbp was saved; the return address is always at CFA − 8. Code
//! that needs more has the kind [`Kind::General`] and is unwound by `general`.

use crate::CodeId;

/// The kind of a rule. One mask of two bits distinguishes the two usual kinds from the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// CFA = rsp + offset.
    Rsp = 0,
    /// CFA = rbp + offset.
    Rbp = 1,
    /// CFA = *(rbp + offset), rbp saved at *rbp: gcc's realigned frames (DRAP).
    Realigned = 2,
    /// A signal trampoline: all registers come from the `ucontext` at rsp.
    Signal = 3,
    /// No unwind information; rbp is assumed to be a frame pointer.
    AssumedRbp = 4,
    /// The outermost frame.
    Outermost = 5,
    /// No unwind information.
    Unknown = 6,
    /// Needs all registers or an expression.
    General = 7,
}

/// A rule in a word:
///
/// ```text
/// bit 63..48  code id that the rule belongs to, see `rule_cache`
/// bit 47      the code is the dynamic loader's
/// bit 46..44  kind
/// bit 43..32  slot of the caller's rbp, words below the CFA; 0: rbp is unchanged
/// bit 31..0   CFA offset in bytes, signed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Rule(u64);

const KIND_SHIFT: u32 = 44;
const LOADER: u64 = 1 << 47;

/// Slot of the caller's rbp if rbp is a frame pointer, in words below the CFA.
const FRAME_POINTER_SLOT: u64 = 2;

impl Rule {
    /// Lowest bit of the code id in a rule; the bits below are the rule itself.
    pub const CODE_ID_SHIFT: u32 = 48;
    /// Bits of the number of a slot.
    pub const SLOT_BITS: u32 = 12;
    /// The rule of no code. For a frame whose callee has it, only the return address is
    /// checked.
    pub const NOTHING: Self = Self(0);

    /// A rule; `None` if the numbers do not fit. For [`Kind::Rsp`] the offset must be
    /// positive and a multiple of 8, so that the CFA is above the frame and is aligned if
    /// rsp is.
    pub const fn new(kind: Kind, cfa_offset: i64, rbp_slot: u64) -> Option<Self> {
        if matches!(kind, Kind::Rsp) && (cfa_offset <= 0 || cfa_offset & 7 != 0) {
            return None;
        }
        if cfa_offset as i32 as i64 != cfa_offset || rbp_slot >= 1 << Self::SLOT_BITS {
            return None;
        }
        // Words that are read must be above the frame, or the word right below it: the
        // return address by which the frame was found.
        let words = match kind {
            Kind::Rsp => cfa_offset / 8 + 1,
            _ => FRAME_POINTER_SLOT as i64,
        };
        if rbp_slot as i64 > words {
            return None;
        }
        Some(Self(
            cfa_offset as u32 as u64 | rbp_slot << 32 | (kind as u64) << KIND_SHIFT,
        ))
    }

    /// A rule without numbers.
    pub const fn of_kind(kind: Kind) -> Self {
        Self((kind as u64) << KIND_SHIFT)
    }

    /// The rule of code without unwind information.
    pub const fn without_information(follow_frame_pointers: bool) -> Self {
        if follow_frame_pointers {
            Self((Kind::AssumedRbp as u64) << KIND_SHIFT | FRAME_POINTER_SLOT << 32)
        } else {
            Self::of_kind(Kind::Unknown)
        }
    }

    /// Whether the code has no unwind information.
    pub const fn is_without_information(self) -> bool {
        matches!(self.kind(), Kind::Unknown | Kind::AssumedRbp)
    }

    /// The rule of an outermost frame.
    pub const fn outermost() -> Self {
        Self::of_kind(Kind::Outermost)
    }

    /// The same rule for code of the dynamic loader.
    pub const fn in_loader(self) -> Self {
        Self(self.0 | LOADER)
    }

    /// Whether the code is the dynamic loader's.
    #[inline(always)]
    pub const fn is_in_loader(self) -> bool {
        self.0 & LOADER != 0
    }

    /// From [`Rule::bits`].
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The rule with its code id, as stored in the rule cache.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The half from which [`super::FrameFlags`] takes its fields.
    #[inline(always)]
    pub const fn upper_half(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The rule with a code id; it must have none yet.
    #[inline(always)]
    pub const fn with_code_id(self, id: CodeId) -> Self {
        Self(self.0 | (id.0 as u64) << Self::CODE_ID_SHIFT)
    }

    /// The id of the code to which the rule belongs.
    #[inline(always)]
    pub const fn code_id(self) -> CodeId {
        CodeId((self.0 >> Self::CODE_ID_SHIFT) as u16)
    }

    #[inline(always)]
    pub(super) const fn offset(self) -> u64 {
        self.0 as u32 as i32 as i64 as u64
    }

    /// The kind of the rule.
    pub const fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT & 7 {
            0 => Kind::Rsp,
            1 => Kind::Rbp,
            2 => Kind::Realigned,
            3 => Kind::Signal,
            4 => Kind::AssumedRbp,
            5 => Kind::Outermost,
            6 => Kind::Unknown,
            _ => Kind::General,
        }
    }

    /// Whether the CFA depends on the stack pointer only.
    #[inline(always)]
    pub const fn needs_stack_pointer_only(self) -> bool {
        self.0 >> KIND_SHIFT & 7 == Kind::Rsp as u64
    }

    /// Whether the CFA is stack or frame pointer plus offset.
    #[inline(always)]
    pub const fn is_simple(self) -> bool {
        self.0 >> KIND_SHIFT & 6 == 0
    }

    /// Whether a step by this rule reads the frame pointer.
    #[inline(always)]
    pub const fn needs_frame_pointer(self) -> bool {
        const KINDS: u64 =
            1 << Kind::Rbp as u8 | 1 << Kind::Realigned as u8 | 1 << Kind::AssumedRbp as u8;
        KINDS >> (self.0 >> KIND_SHIFT & 7) & 1 != 0
    }

    /// Whether a step by this rule leaves the frame pointer unchanged.
    #[inline(always)]
    pub const fn keeps_frame_pointer(self) -> bool {
        self.is_simple() && self.slot() == 0
    }

    #[inline(always)]
    const fn slot(self) -> u64 {
        self.0 >> 32 & ((1 << Self::SLOT_BITS) - 1)
    }

    /// The address at which the caller's frame pointer is saved; `None` if it is
    /// unchanged.
    #[inline(always)]
    pub const fn frame_pointer_slot(self, cfa: u64) -> Option<u64> {
        match self.slot() {
            0 => None,
            slot => Some(cfa.wrapping_sub(8 * slot)),
        }
    }
}
