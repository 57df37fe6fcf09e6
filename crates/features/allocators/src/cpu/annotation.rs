//! The instructions of one function, each with its part of the function's samples, its source line
//! and its text: what `perf annotate` shows.
//!
//! A sample belongs to the innermost frame's instruction, whether the function was called or
//! jumped to. The extent of a function is that of its symbol; without one (the inner functions of a
//! stripped library) that of the unwind information.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use allotrope_demangle::demangle;
use allotrope_detour::instruction::{self, Instruction, Reference};
use allotrope_symbols::{Locator, ModuleSymbols, NamedFrame, Nearest, Ran};
use allotrope_text::numbers::{count, plural};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::cpu::allocator_code::plain;
use crate::cpu::code::{Callee, Code, Function, MAX_FUNCTION};
use crate::cpu::module::Module;
use crate::cpu::names::Names;
use crate::cpu::rows::{Share, share};
use crate::cpu::session::Counts;
use crate::cpu::space::Frame;
use crate::cpu::stacks::{Codes, Stack};
use crate::source;

/// From this part of a function's samples on, an instruction is hot.
const HOT: f64 = 0.05;
/// Functions that a sentence names.
const NAMED: usize = 5;

/// A function as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Annotation {
    /// The name that was given.
    pub wanted: String,
    /// Why there is nothing, as a sentence; `null` if there is.
    pub problem: Option<String>,
    /// The function; `null` if it has no samples, or if several have the name.
    pub function: Option<Annotated>,
}

/// A function with its instructions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Annotated {
    /// The name, demangled.
    pub name: String,
    /// The path of its module.
    pub module: String,
    /// The address of its first byte, in the module's file.
    pub address: u64,
    /// Its own part of all samples, without what it calls.
    #[serde(flatten)]
    pub share: Share,
    /// All instructions, in the order of their addresses.
    pub instructions: Vec<AnnotatedInstruction>,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotatedInstruction {
    /// Its address in the module's file.
    pub address: u64,
    /// Its bytes in hexadecimal.
    pub bytes: String,
    /// Its text in Intel's syntax; `(bad)` for bytes that are no instruction.
    pub text: String,
    /// What it calls or jumps to, if it is another function or a place in this one: `getenv`,
    /// `hak_free_at+0x70`.
    pub target: Option<String>,
    /// The function whose code it is, if that is inlined into this one.
    pub inlined: Option<String>,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown.
    pub line: u32,
    /// The text of this line, if the file is on this machine.
    pub source: Option<String>,
    /// Whether it has 5 % of the function's samples or more.
    pub hot: bool,
    /// Its part of the function's samples.
    #[serde(flatten)]
    pub share: Share,
}

/// A function that was sampled.
struct Sampled {
    module: u32,
    range: Range<u64>,
    /// All names that it is known by; the first one is shown.
    names: Vec<String>,
    counts: Counts,
    by_address: FxHashMap<u64, Counts>,
}

/// What annotations are made of.
pub(crate) struct Sources<'a> {
    pub(crate) modules: &'a [Arc<Module>],
    pub(crate) codes: &'a Codes,
    pub(crate) stacks: &'a [Stack<'a>],
    pub(crate) names: &'a Names<'a>,
    pub(crate) locator: &'a Locator,
}

impl Sources<'_> {
    /// The functions of these names. `NAME@0xADDRESS` is the one of several that starts there.
    pub(crate) fn annotations(&self, wanted: &[String]) -> Vec<Annotation> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let sampled = self.sampled();
        let all = self.stacks.iter().map(|it| it.counts.samples).sum();
        let annotations = wanted.iter().map(|wanted| {
            let found = self.find(wanted, &sampled);
            let found = found.and_then(|it| self.annotate(it, all));
            let (function, problem) = match found {
                Ok(function) => (Some(function), None),
                Err(problem) => (None, Some(problem)),
            };
            Annotation {
                wanted: wanted.clone(),
                problem,
                function,
            }
        });
        annotations.collect()
    }

    fn module(&self, number: u32) -> Option<&Module> {
        self.modules.get(number as usize).map(|it| &**it)
    }

    fn path(&self, number: u32) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(&self.module(number)?.path)))
    }

    /// All functions with samples of their own, the most frequent first.
    fn sampled(&self) -> Vec<Sampled> {
        let mut nearest: FxHashMap<u32, Nearest> = FxHashMap::default();
        let mut found: FxHashMap<(u32, u64), Sampled> = FxHashMap::default();
        for stack in self.stacks.iter().filter(|it| it.counts.samples > 0) {
            let Some(frame) = stack.steps.first().map(|it| it.frame) else {
                continue;
            };
            let symbol = self.codes.function(&frame);
            let range = symbol.map(|it| it.range.clone()).or_else(|| {
                let path = self.path(frame.module)?;
                let nearest = nearest.entry(frame.module);
                let nearest = nearest.or_insert_with(|| Nearest::read(self.locator, path));
                nearest.function(frame.address)
            });
            let Some(range) = range else { continue };
            let sampled = found
                .entry((frame.module, range.start))
                .or_insert_with(|| Sampled {
                    module: frame.module,
                    range,
                    names: Vec::new(),
                    counts: Counts::default(),
                    by_address: FxHashMap::default(),
                });
            let shown = self.names.function(&frame).function;
            let own = self.names.frames(&frame).last();
            let own = own.map(|it| it.function.to_string());
            let symbol = symbol.map(|it| it.name.clone());
            for name in [Some(shown), own, symbol].into_iter().flatten() {
                if !sampled.names.contains(&name) {
                    sampled.names.push(name);
                }
            }
            sampled.counts.add(stack.counts);
            let at = sampled.by_address.entry(frame.address).or_default();
            at.add(stack.counts);
        }
        let mut found: Vec<Sampled> = found.into_values().collect();
        found.sort_by_key(|it| {
            (
                std::cmp::Reverse(it.counts.samples),
                it.module,
                it.range.start,
            )
        });
        found
    }

    /// The one function of a name; a sentence if there is none, or more than one.
    fn find<'s>(&self, wanted: &str, sampled: &'s [Sampled]) -> Result<&'s Sampled, String> {
        let (name, address) = match wanted.rsplit_once("@0x") {
            Some((name, digits)) => (name, u64::from_str_radix(digits, 16).ok()),
            None => (wanted, None),
        };
        let of = |is_it: &dyn Fn(&str) -> bool| -> Vec<&'s Sampled> {
            let all = sampled.iter();
            let all = all.filter(|it| it.names.iter().any(|name| is_it(name)));
            all.filter(|it| address.is_none_or(|address| it.range.start == address))
                .collect()
        };
        let mut found = of(&|it| it == name);
        if found.is_empty() {
            // `free` for `__libc_free`, `f` for `f.part.0`.
            found = of(&|it| plain(it) == name);
        }
        match found[..] {
            [one] => Ok(one),
            [] => Err(self.why_none(name, sampled)),
            _ => {
                let which = found.iter().map(|it| {
                    format!(
                        "{name}@{:#x} ({}{}, {})",
                        it.range.start,
                        self.base(it.module),
                        self.place(it),
                        plural(it.counts.samples as usize, "sample", "samples")
                    )
                });
                Err(format!(
                    "{} functions of this name have samples; ask for one of {}",
                    found.len(),
                    listed(which)
                ))
            }
        }
    }

    fn base(&self, module: u32) -> String {
        let path = self.names.path(module);
        crate::tables::base(&path).to_owned()
    }

    /// `, a.c`: the source file in which a function is.
    fn place(&self, function: &Sampled) -> String {
        let frame = function.by_address.keys().map(|address| Frame {
            module: function.module,
            address: *address,
            exact: true,
        });
        let mut files = frame.filter_map(|it| {
            let file = &self.names.frames(&it).last()?.file;
            (!file.is_empty()).then(|| format!(", {}", crate::tables::base(file)))
        });
        files.next().unwrap_or_default()
    }

    /// Why a name has no samples: it is inlined, it only calls, it was not sampled, or there is no such
    /// function.
    fn why_none(&self, name: &str, sampled: &[Sampled]) -> String {
        let is_it = |it: &str| it == name || plain(it) == name;
        let (mut hosts, mut callees) = (BTreeMap::new(), BTreeMap::new());
        let mut in_callees = 0;
        for stack in self.stacks.iter().filter(|it| it.counts.samples > 0) {
            let samples = stack.counts.samples;
            for (at, step) in stack.steps.iter().enumerate() {
                let frames = self.names.frames(&step.frame);
                let Some((last, inlined)) = frames.split_last() else {
                    continue;
                };
                if at == 0 && inlined.iter().any(|it| is_it(&it.function)) {
                    *hosts.entry(last.function.to_string()).or_insert(0) += samples;
                } else if at > 0 && is_it(&last.function) {
                    let callee = self.names.function(&stack.steps[0].frame).function;
                    *callees.entry(callee).or_insert(0) += samples;
                    in_callees += samples;
                    break;
                }
            }
        }
        if !hosts.is_empty() {
            return format!(
                "it has no instructions of its own, because it is inlined; ask for {}",
                listed(most(hosts))
            );
        }
        if in_callees > 0 {
            return format!(
                "no sample is in an instruction of its own; {} in what it calls: {}",
                plural(in_callees as usize, "sample is", "samples are"),
                listed(most(callees))
            );
        }
        let numbers = 0..self.modules.len();
        let codes = numbers.filter_map(|it| self.codes.of(it as u32));
        let is_known = codes
            .flat_map(Code::functions)
            .any(|it| is_it(&it.name) || is_it(&demangle(&it.name).function));
        let mut frequent: Vec<String> = Vec::new();
        for name in sampled.iter().filter_map(|it| it.names.first()) {
            if !frequent.contains(name) {
                frequent.push(name.clone());
            }
        }
        let frequent = listed(frequent.into_iter());
        match is_known {
            true => format!(
                "it has no samples, neither of its own nor in what it calls; the most are in {frequent}"
            ),
            false => format!(
                "no function of this name is in what was sampled; the most samples are in {frequent}"
            ),
        }
    }

    fn annotate(&self, function: &Sampled, all: u64) -> Result<Annotated, String> {
        let code = self.codes.of(function.module);
        let bytes = code.map(|it| it.bytes(function.range.start));
        let (Some(code), Some(bytes @ [_, ..])) = (code, bytes) else {
            return Err("the file with its instructions is not there any more, or is another one than what ran".to_owned());
        };
        let length = function.range.end - function.range.start;
        let length = usize::try_from(length.min(MAX_FUNCTION)).unwrap_or(usize::MAX);
        let bytes = &bytes[..length.min(bytes.len())];
        let decoded = decode(bytes, function.range.start);
        let addresses: Vec<(u64, bool)> = decoded.iter().map(|(at, ..)| (*at, true)).collect();
        let lines = self.lines(function.module, &addresses);
        let mut texts = Texts::default();
        let own = function.counts.samples;
        let name = function.names.first().cloned().unwrap_or_default();
        let instructions = decoded.into_iter().map(|(address, code_bytes, decoded)| {
            let frames: &[NamedFrame] = lines.get(&address).map_or(&[], |it| it);
            let line = frames.first();
            let counts = function.by_address.get(&address);
            let share = share(&counts.copied().unwrap_or_default(), own);
            let file = line.map_or_else(String::new, |it| it.file.to_string());
            let number = line.map_or(0, |it| it.line);
            AnnotatedInstruction {
                address,
                bytes: code_bytes.iter().map(|it| format!("{it:02x}")).collect(),
                text: match instruction::text(code_bytes, address) {
                    Some(text) if decoded.is_some() => text.to_string(),
                    _ => "(bad)".to_owned(),
                },
                target: decoded.and_then(|it| target(code, &name, function, address, &it)),
                inlined: match frames {
                    [inner, _, ..] => Some(inner.function.to_string()),
                    _ => None,
                },
                source: texts.line(&file, number),
                file,
                line: number,
                hot: share.samples > 0 && share.share >= HOT,
                share,
            }
        });
        Ok(Annotated {
            instructions: instructions.collect(),
            name,
            module: self.names.path(function.module),
            address: function.range.start,
            share: share(&function.counts, all),
        })
    }

    /// The functions and lines of addresses.
    fn lines(&self, number: u32, addresses: &[(u64, bool)]) -> FxHashMap<u64, Vec<NamedFrame>> {
        let (Some(module), Some(path)) = (self.module(number), self.path(number)) else {
            return FxHashMap::default();
        };
        let ran = Ran::new(&module.build_id, module.file);
        let Ok(symbols) = ModuleSymbols::load(self.locator, path, &ran, None) else {
            return FxHashMap::default();
        };
        let found = symbols.resolve(addresses);
        let all = addresses.iter().zip(found);
        all.map(|((address, _), found)| (*address, found.frames))
            .collect()
    }
}

/// `a, b, c`.
fn listed(names: impl Iterator<Item = String>) -> String {
    names.take(NAMED).collect::<Vec<_>>().join(", ")
}

/// The names with most samples, each with its number.
fn most(names: BTreeMap<String, u64>) -> impl Iterator<Item = String> {
    let mut names: Vec<(String, u64)> = names.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    names
        .into_iter()
        .map(|(name, samples)| format!("{name} ({})", count(samples)))
}

/// Instructions with their addresses and bytes; `None` for a byte that begins none.
fn decode(mut bytes: &[u8], mut address: u64) -> Vec<(u64, &[u8], Option<Instruction>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let decoded = Instruction::decode(bytes, address);
        let length = decoded.map_or(1, |it| it.length).min(bytes.len());
        let (this, rest) = bytes.split_at(length);
        found.push((address, this, decoded));
        bytes = rest;
        address += length as u64;
    }
    found
}

/// What an instruction calls or jumps to.
fn target(
    code: &Code,
    name: &str,
    function: &Sampled,
    address: u64,
    decoded: &Instruction,
) -> Option<String> {
    if let Some(callee) = code.callee(address, decoded) {
        return Some(match callee {
            Callee::Name(name) => name,
            Callee::Address(to) => code.function_at(to)?.name.clone(),
        })
        .filter(|_| !matches!(decoded.reference, Reference::Memory(_)) || code.is_jump(address));
    }
    let to = decoded.target()?;
    let within = |name: &str, start: u64| match to - start {
        0 => name.to_owned(),
        offset => format!("{name}+{offset:#x}"),
    };
    if function.range.contains(&to) {
        return Some(within(name, function.range.start));
    }
    let Function { range, name } = code.function_at(to)?;
    Some(within(name, range.start))
}

/// The lines of source files, read once.
#[derive(Default)]
struct Texts {
    files: FxHashMap<String, Option<Vec<String>>>,
}

impl Texts {
    fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let at = (line as usize).checked_sub(1)?;
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), source::lines(file));
        }
        self.files.get(file)?.as_ref()?.get(at).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_instruction_stand_alone() {
        // `push r14`, a byte that begins no instruction in 64-bit code, `ret`.
        let found = decode(&[0x41, 0x56, 0x06, 0xc3], 0x10);
        let parts = found
            .iter()
            .map(|(at, bytes, it)| (*at, bytes.len(), it.is_some()));
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [(0x10, 2, true), (0x12, 1, false), (0x13, 1, true)]
        );
        // A call that the end of the function cuts; the rest is `add byte [rax], al`.
        assert_eq!(decode(&[0xe8, 0, 0], 0).len(), 2);
    }
}
