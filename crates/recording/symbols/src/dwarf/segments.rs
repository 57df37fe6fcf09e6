//! The frames of all of a module's code, for an index: the code is cut into
//! segments within which every address has the same frames.
//!
//! A cut is wherever a row of a line table, a function or an inlined call begins or
//! ends. The frames of a segment are those of its first address, found in the same
//! way as for single addresses, so that both always agree.

use std::ops::Range;

use gimli::UnitOffset;
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::bytes::UnitRef;
use super::functions::{Function, Inlined, InlinedRange, chains_at, functions, inlined_ranges};
use super::lines::{self, Position};
use super::names::{Name, Names};
use super::units::Units;
use super::{DebugInformation, by_function, ranges_of_units};
use crate::intervals::Intervals;
use crate::progress::{Progress, Work};
use crate::shared_strings::Md5;

/// An index that means "none".
pub(crate) const NONE: u32 = u32::MAX;

/// Largest number of overlapping segments that are examined at one address. Every unit that
/// instantiates a template describes the one copy that the linker chose, so a hundred units may
/// describe one address.
const MAX_OVERLAPPING: usize = 64;

/// A frame, shared by all addresses and inner frames that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// Index into the names.
    pub(crate) name: u32,
    /// Index into the files.
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// The node this one is inlined into.
    pub(crate) parent: u32,
    /// Start of the function, if known, in a node without parent.
    pub(crate) start: Option<u64>,
}

/// All segments of a module.
#[derive(Debug, Default)]
pub(crate) struct SegmentTable {
    pub(crate) names: Vec<Name<'static>>,
    pub(crate) files: Vec<(String, Option<Md5>)>,
    pub(crate) nodes: Vec<Node>,
    /// Start of each segment and its innermost node; it ends where the next
    /// begins. Sorted.
    pub(crate) segments: Vec<(u64, u32)>,
}

/// A segment of one unit.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u64,
    end: u64,
    /// Rank of the piece; of several at one address the one of lowest rank counts: 0, the unit has
    /// the function; 1, it has a line; 2, it is a unit without ranges.
    rank: u8,
    unit: u32,
    node: u32,
}

impl DebugInformation {
    /// The segments of all code; `None` if some of it is described in split
    /// files, which may come and go independently.
    pub(crate) fn segments(&self, progress: &Progress) -> Option<SegmentTable> {
        let dwarf = self.borrow();
        let units = Units::new(&dwarf);
        let supplementary = dwarf.sup().map(Units::new);
        let budget = Budget::for_bytes(self.size);
        let mut collector = Collector {
            names: Names::new(&units, supplementary.as_ref(), &budget),
            budget: &budget,
            table: SegmentTable::default(),
            pieces: Vec::new(),
            known_names: FxHashMap::default(),
            known_files: FxHashMap::default(),
        };
        let (ranges, without_ranges) = ranges_of_units(&units, &budget);
        let mut by_unit: FxHashMap<usize, Vec<Range<u64>>> = FxHashMap::default();
        for (range, unit) in ranges {
            by_unit.entry(unit).or_default().push(range);
        }
        for index in 0..units.len() {
            progress.report(Work::Reading, index as u64, units.len() as u64);
            let ranges = by_unit.remove(&index);
            if ranges.is_none() && !without_ranges.contains(&index) {
                continue;
            }
            let unit = units.parse(index)?;
            if unit.dwo_id.is_some() {
                return None;
            }
            collector.unit(UnitRef::new(&dwarf, &unit), index as u32, ranges);
        }
        // A table cut short by the budget would hide names for as long as the
        // index exists.
        budget.spend(1)?;
        let Collector {
            mut table, pieces, ..
        } = collector;
        table.segments = merge(pieces);
        Some(table)
    }
}

struct Collector<'s, 'd, 'a> {
    names: Names<'d, 'a>,
    budget: &'s Budget,
    table: SegmentTable,
    pieces: Vec<Piece>,
    known_names: FxHashMap<Name<'static>, u32>,
    known_files: FxHashMap<String, u32>,
}

/// The names, files and nodes of a unit, from its own numbers to those of the table.
#[derive(Default)]
struct KnownOfUnit {
    nodes: FxHashMap<Node, u32>,
    names: FxHashMap<UnitOffset, u32>,
    files: FxHashMap<u64, u32>,
}

impl<'a> Collector<'_, '_, 'a> {
    fn unit(&mut self, unit: UnitRef<'_, 'a>, number: u32, ranges: Option<Vec<Range<u64>>>) {
        let functions = functions(unit, self.budget);
        let mut inlined: FxHashMap<UnitOffset, Vec<InlinedRange>> = FxHashMap::default();
        let mut cuts = lines::boundaries(unit, self.budget);
        for (range, function) in functions.iter() {
            cuts.extend([range.start, range.end]);
            let calls = inlined
                .entry(function.entry)
                .or_insert_with(|| inlined_ranges(unit, function.entry, self.budget));
            cuts.extend(
                calls
                    .iter()
                    .flat_map(|call| [call.range.start, call.range.end]),
            );
        }
        cuts.extend(ranges.iter().flatten().flat_map(|it| [it.start, it.end]));
        cuts.sort_unstable();
        cuts.dedup();
        let own = ranges.map(|it| Intervals::new(it.into_iter().map(|it| (it, ())).collect()));
        let positions = lines::positions(unit, &cuts, self.budget);
        let mut known = KnownOfUnit::default();
        let mut nodes: Vec<Option<(u32, u8)>> = vec![None; cuts.len()];
        for (function, members) in by_function(&functions, &cuts) {
            let inside: Vec<u64> = members.iter().map(|member| cuts[*member]).collect();
            let calls = function.and_then(|function| inlined.get(&function.entry));
            let chains = chains_at(calls.map_or(&[][..], |calls| calls), &inside);
            for (member, chain) in members.into_iter().zip(chains) {
                let node = self.node(unit, &mut known, function, &chain, positions[member]);
                let rank = match (&own, function) {
                    (None, _) => 2,
                    (Some(_), None) => 1,
                    (Some(_), Some(_)) => 0,
                };
                nodes[member] = node.map(|node| (node, rank));
            }
        }
        for (index, node) in nodes.into_iter().enumerate() {
            let (Some((node, rank)), Some(end)) = (node, cuts.get(index + 1)) else {
                continue;
            };
            let start = cuts[index];
            let is_own = |own: &Intervals<()>| own.containing(start).next().is_some();
            if own.as_ref().is_none_or(is_own) {
                let (end, unit) = (*end, number);
                self.pieces.push(Piece {
                    start,
                    end,
                    rank,
                    unit,
                    node,
                });
            }
        }
    }

    /// The innermost node of the frames at an address; see `Describe`.
    fn node(
        &mut self,
        unit: UnitRef<'_, 'a>,
        known: &mut KnownOfUnit,
        function: Option<Function>,
        chain: &[Inlined],
        position: Option<Position>,
    ) -> Option<u32> {
        if function.is_none() && position.is_none() {
            return None;
        }
        let own = position.map_or((None, 0, 0), |it| (Some(it.file), it.line, it.column));
        let mut entry = function.map(|function| function.entry);
        let mut parent = NONE;
        // Outermost first. The position of each is that of the call of the next one.
        let calls = chain
            .iter()
            .map(|it| (it.call_file, it.call_line, it.call_column));
        let positions = calls.chain([own]);
        for (depth, (file, line, column)) in positions.enumerate() {
            let node = Node {
                name: entry.map_or(NONE, |entry| self.name(unit, known, entry)),
                file: file.map_or(NONE, |file| self.file(unit, known, file)),
                line,
                column,
                parent,
                start: function.filter(|_| depth == 0).map(|it| it.start),
            };
            let nodes = &mut self.table.nodes;
            parent = *known.nodes.entry(node).or_insert_with(|| {
                nodes.push(node);
                (nodes.len() - 1) as u32
            });
            entry = chain.get(depth).map(|inlined| inlined.entry);
        }
        Some(parent)
    }

    fn name(&mut self, unit: UnitRef<'_, 'a>, known: &mut KnownOfUnit, entry: UnitOffset) -> u32 {
        if let Some(known) = known.names.get(&entry) {
            return *known;
        }
        let number = match self.names.name(unit, entry) {
            None => NONE,
            Some(name) => {
                let name = name.into_owned();
                let names = &mut self.table.names;
                *self.known_names.entry(name).or_insert_with_key(|name| {
                    names.push(name.clone());
                    (names.len() - 1) as u32
                })
            }
        };
        known.names.insert(entry, number);
        number
    }

    fn file(&mut self, unit: UnitRef<'_, 'a>, known: &mut KnownOfUnit, file: u64) -> u32 {
        if let Some(known) = known.files.get(&file) {
            return *known;
        }
        let number = match lines::file_path(unit, file) {
            None => NONE,
            Some(path) => {
                let files = &mut self.table.files;
                *self.known_files.entry(path).or_insert_with_key(|path| {
                    files.push((path.clone(), lines::file_md5(unit, file)));
                    (files.len() - 1) as u32
                })
            }
        };
        known.files.insert(file, number);
        number
    }
}

/// Segments that do not overlap, from pieces that may.
fn merge(mut pieces: Vec<Piece>) -> Vec<(u64, u32)> {
    pieces.sort_unstable_by_key(|piece| (piece.start, piece.rank, piece.unit));
    let mut merged = Merged::default();
    let mut open: Vec<Piece> = Vec::new();
    for piece in pieces {
        merged.up_to(piece.start, &mut open);
        if open.len() >= MAX_OVERLAPPING {
            open.retain(|open| open.end > piece.start);
        }
        if open.len() < MAX_OVERLAPPING {
            open.push(piece);
        }
    }
    merged.up_to(u64::MAX, &mut open);
    merged.segments
}

#[derive(Default)]
struct Merged {
    segments: Vec<(u64, u32)>,
    at: u64,
}

impl Merged {
    /// Emits the segments of the open pieces below `limit`.
    fn up_to(&mut self, limit: u64, open: &mut Vec<Piece>) {
        while self.at < limit {
            open.retain(|piece| piece.end > self.at);
            let best = open.iter().min_by_key(|piece| (piece.rank, piece.unit));
            let Some(best) = best else {
                self.emit(NONE);
                self.at = limit;
                return;
            };
            self.emit(best.node);
            let end = open.iter().map(|piece| piece.end).min();
            self.at = limit.min(end.unwrap_or(limit));
        }
    }

    fn emit(&mut self, node: u32) {
        let last = self.segments.last().map_or(NONE, |last| last.1);
        if node != last {
            self.segments.push((self.at, node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_overlapping_pieces_hide_nothing_after_them() {
        let many = MAX_OVERLAPPING as u32 * 2;
        let piece = |start, end, unit| Piece {
            start,
            end,
            rank: 0,
            unit,
            node: unit,
        };
        let both = (0..many).flat_map(|unit| [piece(10, 20, unit), piece(20, 30, many + unit)]);
        let expected = [(10, 0), (20, many), (30, NONE)];
        assert_eq!(merge(both.collect()), expected);
    }

    #[test]
    fn of_overlapping_pieces_the_one_of_lowest_rank_counts() {
        let piece = |start, end, rank, node| Piece {
            start,
            end,
            rank,
            unit: node,
            node,
        };
        let pieces = vec![
            piece(10, 50, 1, 1),
            piece(20, 30, 0, 2),
            piece(60, 70, 0, 3),
        ];
        let expected = [(10, 1), (20, 2), (30, 1), (50, NONE), (60, 3), (70, NONE)];
        assert_eq!(merge(pieces.clone()), expected);
        assert_eq!(merge(pieces.into_iter().rev().collect()), expected);
    }
}
