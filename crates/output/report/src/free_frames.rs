//! The frames of the stacks that freed single blocks.

use allotrope_profile::{Block, FreePlace, Profile};
use allotrope_trace::model::{ImageId, StackId};
use rustc_hash::FxHashMap;

/// Maps the image and id of a stack that freed blocks to its frames: the stacks that the
/// details of the sites list, and further ones that single blocks name.
pub(crate) struct FreeFrames<'a>(FxHashMap<(ImageId, StackId), &'a [u32]>);

impl<'a> FreeFrames<'a> {
    /// The stacks of a profile, also those that its aggregation was asked for; `None` if the
    /// recording has none.
    pub(crate) fn of(profile: &'a Profile) -> Option<Self> {
        if !profile.recording.free_stacks {
            return None;
        }
        let mut frames = FxHashMap::default();
        for process in &profile.processes {
            let details = process
                .sites
                .iter()
                .filter_map(|site| site.details.as_ref());
            for element in details.flat_map(|details| &details.free_stacks) {
                if let FreePlace::Stack { id, stack, .. } = &element.place {
                    frames.insert((process.id, *id), &**stack);
                }
            }
            let more = process.stacks.iter();
            frames.extend(more.map(|(id, stack)| ((process.id, *id), &**stack)));
        }
        Some(Self(frames))
    }

    /// The frames of the stack that freed the block, innermost first; `None` if it was not
    /// freed, or the stack is not listed.
    pub(crate) fn get(&self, block: &Block) -> Option<&'a [u32]> {
        self.0.get(&(block.image, block.freed_at)).copied()
    }
}
