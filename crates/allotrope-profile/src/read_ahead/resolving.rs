//! Has the blocks of a single stream's decoded runs found, in the order of the runs,
//! by one thread at a time.

use super::{Decoded, ReadAhead, Slot, State};
use crate::error::ReplayError;
use crate::resolve::Resolver;
use crate::source::TraceSource;

impl<S: TraceSource> ReadAhead<'_, S> {
    pub(super) fn resolve_one(&self, (number, mut resolver, mut run): (usize, Resolver, Decoded)) {
        // In a panic whoever needs the run is told that there is none.
        let mut resolving = Resolving {
            ahead: self,
            number,
            run: Err(ReplayError::NoSuchRun(number)),
            resolver: None,
        };
        resolving.run = resolver.resolve(&mut run).map(|()| run);
        resolving.resolver = Some(resolver);
    }
}

impl State {
    /// The next run whose blocks are to be found, if it is decoded and nobody
    /// looks for others.
    pub(super) fn claim_resolving(&mut self) -> Option<(usize, Resolver, Decoded)> {
        self.resolver.as_ref()?;
        while let Some(slot) = self.slots.get_mut(self.unresolved) {
            let number = self.unresolved;
            match std::mem::replace(slot, Slot::Reading) {
                Slot::Decoded(Ok(run)) => {
                    self.unresolved += 1;
                    return Some((number, self.resolver.take()?, run));
                }
                // Whoever needs the run is told why there is none.
                Slot::Decoded(Err(error)) => *slot = Slot::Ready(Err(error)),
                other => {
                    *slot = other;
                    return None;
                }
            }
            self.unresolved += 1;
        }
        None
    }
}

/// A run whose blocks a thread has begun to find; when this is dropped, somebody
/// else can go on.
struct Resolving<'r, 'a, S: TraceSource> {
    ahead: &'r ReadAhead<'a, S>,
    number: usize,
    run: Result<Decoded, ReplayError>,
    resolver: Option<Resolver>,
}

impl<S: TraceSource> Drop for Resolving<'_, '_, S> {
    fn drop(&mut self) {
        let run = std::mem::replace(&mut self.run, Ok(Decoded::default()));
        let mut state = self.ahead.lock();
        state.slots[self.number] = Slot::Ready(run);
        state.resolver = self.resolver.take();
        drop(state);
        self.ahead.decoded.notify_all();
    }
}
