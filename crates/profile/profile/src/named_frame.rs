//! The two ways in which frames know their modules: by index in a profile, by name in a set of
//! stacks.

use std::sync::Arc;

use allotrope_trace::model::NamedFrame;

/// A frame of a profile. Its function is `module+0x1f` if the address has no name, `0x7f…` if it
/// is in no module, `[truncated]` in place of the frames beyond the depth limit of the walk. Its
/// module is an index into [`Profile::modules`](crate::Profile::modules), or
/// [`UNKNOWN_MODULE`](crate::UNKNOWN_MODULE).
pub type Frame = NamedFrame<u32>;

/// A frame of a [`StackSet`](crate::StackSet), with everything that its source has. Its function
/// may be the source's own text where no qualified name can be made of it. Its module is a file
/// name without folders, empty if unknown.
pub type StackFrame = NamedFrame<Arc<str>>;

/// The address in its module that an address without a name has in place of a function's name:
/// 0x1f of `module+0x1f`; `None` if the frame has a name. Such a frame's offset says nothing
/// more.
pub fn nameless_address(frame: &StackFrame) -> Option<u64> {
    if frame.module.is_empty() {
        return None;
    }
    let rest = frame.function.strip_prefix(&*frame.module)?;
    let digits = rest.strip_prefix("+0x")?;
    // The parser would take a sign.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_module_and_an_address_are_no_name() {
        let of = |module: &str, function: &str| {
            nameless_address(&StackFrame {
                module: module.into(),
                function: function.into(),
                ..StackFrame::default()
            })
        };
        assert_eq!(of("libc.so.6", "libc.so.6+0x29ca8"), Some(0x29ca8));
        for (module, function) in [
            ("libc.so.6", "main"),
            ("libc.so.6", "libc.so.6+0x"),
            ("libc.so.6", "libc.so.6+0x+1"),
            ("libc.so.6", "libc.so.6"),
            ("a", "libc.so.6+0x29ca8"),
            ("", "+0x29"),
        ] {
            assert_eq!(of(module, function), None, "{module} {function}");
        }
    }
}
