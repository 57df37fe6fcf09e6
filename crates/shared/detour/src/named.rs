//! Allocators of a program's own, whose functions a user names:
//!
//! ```text
//! alloc=ngx_palloc:2@1,alloc=ngx_pnalloc:2@1,free=ngx_pfree:2,reset=ngx_destroy_pool:1
//! ```
//!
//! | item | what the function does |
//! | --- | --- |
//! | `alloc=NAME:SIZE` | returns a block of as many bytes as the argument SIZE says, or null |
//! | `alloc=NAME:COUNT*SIZE` | the same, of the product of two arguments |
//! | `realloc=NAME:BLOCK:SIZE` | replaces a block; returns the new one, or null if it fails |
//! | `free=NAME:BLOCK` | frees a block |
//! | `reset=NAME:OWNER` | frees every block of an owner |
//!
//! Arguments are numbered from 1. `@OWNER` behind an item with a size is the argument whose pool the block
//! belongs to: then the allocator is one of pools.
//!
//! The command and the recorder have this one parser: it does not allocate and does not panic, for the
//! text comes from the environment.

/// No name of a function is as long.
pub const MAX_NAME: usize = 128;

/// Separates the allocators in the value of
/// [`ALLOCATORS_VARIABLE`](allotrope_shm::layout::ALLOCATORS_VARIABLE), by which the recorder gets them.
pub const SEPARATOR: u8 = b';';

/// Largest number of functions in such a value.
pub const MAX_FUNCTIONS: usize = 64;

/// Arguments that are passed in registers, which are all that are read (System V ABI for x86-64, §3.2.3).
pub const MAX_ARGUMENT: u8 = 6;

/// What a function does. Its arguments are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Returns a new block of the first argument's size, or of its product with the second one's.
    Allocate(u8, Option<u8>),
    /// Replaces the block of the first argument by one of the second one's size.
    Reallocate(u8, u8),
    /// Frees the block.
    Free(u8),
    /// Frees every block of this owner.
    Reset(u8),
}

/// What a function does, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// What it does.
    pub role: Role,
    /// The argument that is the owner of the block, of an allocator of pools.
    pub owner: Option<u8>,
}

/// One item of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Name of the function's symbol.
    pub name: &'a [u8],
    /// What it does.
    pub named: Named,
}

/// Why an item, or a text, makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The item does not begin with a known kind and `=`.
    Kind,
    /// There is no name, it is as long as [`MAX_NAME`], or has characters that no symbol's name has.
    Name,
    /// Behind the name there are not the numbers that the kind needs.
    Arguments,
    /// An argument is not from 1 to [`MAX_ARGUMENT`].
    Number,
    /// A function is named twice.
    Twice,
    /// There is no `alloc`.
    NothingAllocates,
    /// Some items have an owner and others have none.
    SomeOwners,
    /// A `reset` without owners.
    NothingToReset,
    /// There are more than [`MAX_FUNCTIONS`].
    TooMany,
}

/// A fault, and the item that has it, or the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error<'a> {
    /// The part of the text.
    pub part: &'a [u8],
    /// What is wrong with it.
    pub fault: Fault,
}

/// The texts in a value.
pub fn allocators(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == SEPARATOR)
}

/// The items of one allocator's text, in their order.
pub fn items(text: &[u8]) -> impl Iterator<Item = Result<Item<'_>, Error<'_>>> {
    let parts = text.split(|byte| *byte == b',');
    parts.map(|part| item(part).map_err(|fault| Error { part, fault }))
}

/// Whether the allocator is one of pools, whose blocks have owners.
pub fn has_pools(text: &[u8]) -> bool {
    let mut items = items(text).flatten();
    items.any(|item| is_new(item.named) && item.named.owner.is_some())
}

/// Checks a value as a whole.
///
/// # Errors
/// The first fault.
pub fn check(value: &[u8]) -> Result<(), Error<'_>> {
    let mut count = 0;
    for text in allocators(value) {
        let whole = |fault| Error { part: text, fault };
        let mut is_there = [false; 2];
        for (part, item) in text.split(|byte| *byte == b',').zip(items(text)) {
            let Item { name, named } = item?;
            count += 1;
            let fault = |fault| Error { part, fault };
            if all(value).filter(|other| other.name == name).count() > 1 {
                return Err(fault(Fault::Twice));
            }
            if is_new(named) {
                is_there[usize::from(named.owner.is_some())] = true;
            }
            if matches!(named.role, Role::Reset(_)) && !has_pools(text) {
                return Err(fault(Fault::NothingToReset));
            }
            if count > MAX_FUNCTIONS {
                return Err(fault(Fault::TooMany));
            }
        }
        match is_there {
            [false, false] => return Err(whole(Fault::NothingAllocates)),
            [true, true] => return Err(whole(Fault::SomeOwners)),
            _ => {}
        }
    }
    Ok(())
}

/// All items of a value that are right.
pub fn all(value: &[u8]) -> impl Iterator<Item = Item<'_>> {
    allocators(value).flat_map(|text| items(text).flatten())
}

fn is_new(named: Named) -> bool {
    matches!(named.role, Role::Allocate(..) | Role::Reallocate(..))
}

fn item(part: &[u8]) -> Result<Item<'_>, Fault> {
    let (kind, rest) = split(part, b'=').ok_or(Fault::Kind)?;
    if !matches!(kind, b"alloc" | b"realloc" | b"free" | b"reset") {
        return Err(Fault::Kind);
    }
    let (name, rest) = split(rest, b':').unwrap_or((rest, b""));
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
    if name.is_empty() || name.len() >= MAX_NAME || !name.iter().all(is_of_name) {
        return Err(Fault::Name);
    }
    let (arguments, owner) = match split(rest, b'@') {
        Some((arguments, owner)) => (arguments, Some(argument(owner)?)),
        None => (rest, None),
    };
    let role = match kind {
        b"alloc" => match split(arguments, b'*') {
            Some((count, size)) => Role::Allocate(argument(count)?, Some(argument(size)?)),
            None => Role::Allocate(argument(arguments)?, None),
        },
        b"realloc" => {
            let (block, size) = split(arguments, b':').ok_or(Fault::Arguments)?;
            Role::Reallocate(argument(block)?, argument(size)?)
        }
        b"free" => Role::Free(argument(arguments)?),
        _ => Role::Reset(argument(arguments)?),
    };
    let named = Named { role, owner };
    Ok(Item { name, named })
}

/// What is before the first such byte, and behind it.
fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..position)?, bytes.get(position + 1..)?))
}

/// The index of the argument of this number.
fn argument(digits: &[u8]) -> Result<u8, Fault> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Arguments);
    }
    match digits {
        [digit] if (1..=MAX_ARGUMENT).contains(&(digit - b'0')) => Ok(digit - b'1'),
        _ => Err(Fault::Number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NGINX: &[u8] = b"alloc=ngx_palloc:2@1,free=ngx_pfree:2,reset=ngx_destroy_pool:1";

    fn fault(text: &str) -> Option<Fault> {
        check(text.as_bytes()).err().map(|error| error.fault)
    }

    #[test]
    fn items_say_what_a_function_does() {
        let all: Vec<_> = items(NGINX).map(|it| it.expect("it is right")).collect();
        let role = |name: &[u8]| all.iter().find(|it| it.name == name).unwrap().named;
        let palloc = role(b"ngx_palloc");
        assert_eq!(
            (palloc.role, palloc.owner),
            (Role::Allocate(1, None), Some(0))
        );
        assert_eq!(role(b"ngx_pfree").role, Role::Free(1));
        assert_eq!(role(b"ngx_destroy_pool").role, Role::Reset(0));
        assert!(has_pools(NGINX) && check(NGINX).is_ok());
        let other = b"alloc=f:1*2,realloc=g:1:2,free=h:1";
        let all: Vec<_> = items(other).map(|it| it.unwrap().named.role).collect();
        let expected = [
            Role::Allocate(0, Some(1)),
            Role::Reallocate(0, 1),
            Role::Free(0),
        ];
        assert_eq!(all, expected);
        assert!(!has_pools(other) && check(other).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_a_fault() {
        for (text, expected) in [
            ("", Fault::Kind),
            ("malloc=f:1", Fault::Kind),
            ("alloc=:1", Fault::Name),
            ("alloc=a b:1", Fault::Name),
            (&format!("alloc={}:1", "f".repeat(MAX_NAME)), Fault::Name),
            ("alloc=f", Fault::Arguments),
            ("alloc=f:x", Fault::Arguments),
            ("alloc=f:1:2", Fault::Arguments),
            ("realloc=f:1", Fault::Arguments),
            ("alloc=f:0", Fault::Number),
            ("alloc=f:7", Fault::Number),
            ("alloc=f:11", Fault::Number),
            ("alloc=f:1@9", Fault::Number),
            ("alloc=f:1,free=f:1", Fault::Twice),
            ("alloc=f:1;alloc=f:1", Fault::Twice),
            ("free=f:1", Fault::NothingAllocates),
            ("alloc=f:1,alloc=g:2@1", Fault::SomeOwners),
            ("alloc=f:1,reset=g:1", Fault::NothingToReset),
        ] {
            assert_eq!(fault(text), Some(expected), "{text}");
        }
        let many: Vec<_> = (0..=MAX_FUNCTIONS)
            .map(|it| format!("alloc=f{it}:1"))
            .collect();
        assert_eq!(fault(&many.join(",")), Some(Fault::TooMany));
        assert_eq!(fault(&many[1..].join(",")), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in vec(prop::sample::select(b"alocfrest=:@*,;129x\xff".to_vec()), 0..60)) {
            let _ = check(&text);
            prop_assert!(all(&text).count() <= text.len());
        }
    }
}
