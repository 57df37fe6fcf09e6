//! Splits large records (stack nodes, symbols) into several, so that neither writer
//! nor reader needs memory for all of their contents at once.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::model::{Location, NamedFrame, Record, StackId, Symbols};

/// Largest number of stack nodes in one record.
const NODES: usize = 1 << 16;
/// Largest number of lost blocks in one record.
const LOST_BLOCKS: usize = 1 << 16;
/// Approximate size of a part of a symbols record, in bytes.
const SYMBOL_BYTES: usize = 1 << 20;

/// The record itself, or several smaller records that together are equivalent to it.
pub(crate) fn split(record: &Record) -> Vec<Cow<'_, Record>> {
    match record {
        Record::Stacks {
            image,
            first,
            nodes,
        } if nodes.len() > NODES => (*first..)
            .step_by(NODES)
            .zip(nodes.chunks(NODES))
            .map(|(first, nodes): (StackId, _)| {
                Cow::Owned(Record::Stacks {
                    image: *image,
                    first,
                    nodes: nodes.to_vec(),
                })
            })
            .collect(),
        Record::LostBlocks { image, blocks } if blocks.len() > LOST_BLOCKS => blocks
            .chunks(LOST_BLOCKS)
            .map(|blocks| {
                Cow::Owned(Record::LostBlocks {
                    image: *image,
                    blocks: blocks.to_vec(),
                })
            })
            .collect(),
        Record::Symbols(symbols) if bytes_of(symbols) > SYMBOL_BYTES => symbol_parts(symbols)
            .into_iter()
            .map(|part| Cow::Owned(Record::Symbols(part)))
            .collect(),
        _ => vec![Cow::Borrowed(record)],
    }
}

/// Approximate encoded size of a symbols record, in bytes.
fn bytes_of(symbols: &Symbols) -> usize {
    let frames: usize = symbols.frames.iter().map(frame_bytes).sum();
    frames + symbols.locations.iter().map(location_bytes).sum::<usize>()
}

/// Approximate encoded size of a frame, in bytes.
fn frame_bytes(frame: &NamedFrame) -> usize {
    let of_type = frame.allocates.as_ref().map_or(0, |it| 8 + it.name.len());
    16 + frame.function.len() + frame.signature.len() + frame.file.len() + of_type
}

/// Approximate encoded size of a location, in bytes.
fn location_bytes(location: &Location) -> usize {
    4 + 2 * location.frames.len()
}

/// Splits symbols into parts. Each part has some of the locations and the frames that
/// they refer to. A frame that several parts refer to is in each of them.
fn symbol_parts(symbols: &Symbols) -> Vec<Symbols> {
    let empty = || Symbols {
        module: symbols.module,
        unoptimised: symbols.unoptimised,
        compilers: symbols.compilers.clone(),
        missing: symbols.missing,
        ..Symbols::default()
    };
    let mut parts = vec![Symbols {
        sources: symbols.sources.clone(),
        ..empty()
    }];
    let mut bytes = 0;
    // Maps a frame's index in `symbols` to its index in the current part.
    let mut moved = FxHashMap::default();
    for location in &symbols.locations {
        if bytes > SYMBOL_BYTES {
            parts.push(empty());
            moved.clear();
            bytes = 0;
        }
        let Some(part) = parts.last_mut() else { break };
        let frames = location.frames.iter().map(|&index| {
            *moved.entry(index).or_insert_with(|| {
                let frame = symbols.frames[index as usize].clone();
                bytes += frame_bytes(&frame);
                part.frames.push(frame);
                (part.frames.len() - 1) as u32
            })
        });
        let frames = frames.collect();
        bytes += location_bytes(location);
        part.locations.push(Location {
            frames,
            ..*location
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LostBlock, LostClass, StackNode, stack_end};

    #[test]
    fn small_records_stay_whole() {
        let record = Record::Symbols(Symbols::default());
        assert_eq!(split(&record).len(), 1);
    }

    #[test]
    fn stack_nodes_keep_their_ids() {
        let first = stack_end::FIRST_NODE;
        let node = |address| StackNode {
            parent: 0,
            address,
            mapping: 0,
            exact: false,
        };
        let nodes: Vec<_> = (0..NODES as u64 * 2 + 1).map(node).collect();
        let record = Record::Stacks {
            image: 4,
            first,
            nodes: nodes.clone(),
        };
        let mut next = first;
        let mut joined = Vec::new();
        for part in split(&record) {
            let Record::Stacks {
                image: 4,
                first,
                nodes,
            } = part.as_ref()
            else {
                panic!()
            };
            assert_eq!(*first, next);
            assert!(nodes.len() <= NODES);
            next += nodes.len() as u32;
            joined.extend_from_slice(nodes);
        }
        assert_eq!(joined, nodes);
    }

    #[test]
    fn lost_blocks_stay_in_order() {
        let block = |index: u64| LostBlock {
            address: index * LostBlock::ALIGNMENT,
            class: LostClass::ALL[index as usize % LostClass::ALL.len()],
        };
        let blocks: Vec<_> = (0..LOST_BLOCKS as u64 * 2 + 1).map(block).collect();
        let record = Record::LostBlocks {
            image: 4,
            blocks: blocks.clone(),
        };
        let mut joined = Vec::new();
        for part in split(&record) {
            let Record::LostBlocks { image: 4, blocks } = part.as_ref() else {
                panic!()
            };
            assert!(blocks.len() <= LOST_BLOCKS);
            joined.extend_from_slice(blocks);
        }
        assert_eq!(joined, blocks);
    }

    #[test]
    fn split_symbols_have_the_names_of_every_address() {
        let frame = |i: u32| NamedFrame {
            signature: format!("{i}").repeat(100).into(),
            line: i,
            ..NamedFrame::default()
        };
        let count = 10_000_u32;
        let symbols = Symbols {
            module: 3,
            unoptimised: Some(true),
            compilers: vec!["GCC: 12.2.0".to_owned()],
            frames: (0..count).map(frame).collect(),
            locations: (0..count)
                .map(|i| Location {
                    address: i.into(),
                    exact: false,
                    frames: vec![i, i / 2],
                })
                .collect(),
            ..Symbols::default()
        };
        let named = |symbols: &Symbols| -> Vec<(u64, Vec<u32>)> {
            let lines = |it: &Location| {
                it.frames
                    .iter()
                    .map(|&index| symbols.frames[index as usize].line)
                    .collect()
            };
            symbols
                .locations
                .iter()
                .map(|it| (it.address, lines(it)))
                .collect()
        };
        let record = Record::Symbols(symbols.clone());
        let parts = split(&record);
        assert!(parts.len() > 1);
        let mut joined = Vec::new();
        for part in &parts {
            let Record::Symbols(part) = part.as_ref() else {
                panic!()
            };
            assert_eq!((part.module, part.unoptimised), (3, Some(true)));
            assert_eq!(part.compilers, ["GCC: 12.2.0"]);
            assert!(bytes_of(part) < 2 * SYMBOL_BYTES);
            joined.extend(named(part));
        }
        assert_eq!(joined, named(&symbols));
    }
}
