//! The short way of settled steps into the books: those of one stream that follow
//! each other.

use super::Ledger;
use crate::live::LiveBlocks;
use crate::tentative::{Link, Strand};

impl Ledger<'_> {
    /// Takes the first steps of a strand, of which these are the links.
    pub(crate) fn take_strand(&mut self, strand: &Strand, links: &[Link], live: &mut LiveBlocks) {
        for (place, link) in links.iter().enumerate() {
            let blocks = link.blocks();
            self.take(&strand.step(place, link), blocks, live);
            live.release(link.allocates, blocks);
        }
    }
}
