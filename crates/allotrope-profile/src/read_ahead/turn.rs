//! In a single stream the blocks of a run can be found once those of the run before
//! have been: whoever has decoded a run leaves it where the resolver will pass, or takes
//! the resolver that is there already.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use super::Decoded;
use crate::error::ReplayError;
use crate::resolve::Resolver;

/// Where the resolver passes from one job to the next, and where the next one's run
/// waits for it. Only these two jobs have it: if the one before is lost, what waits
/// here is dropped with it, and so are all after that.
#[derive(Clone, Default)]
pub(super) struct Passing(Arc<Mutex<Passes>>);

#[derive(Default)]
enum Passes {
    #[default]
    Nothing,
    /// The job before is done.
    Resolver(Resolver),
    /// The job behind has decoded its run.
    Run(Waiting),
}

/// A job's place among those of its stream.
pub(super) struct Turn {
    pub before: Passing,
    pub after: Passing,
}

/// A decoded run whose turn has not come.
pub(super) struct Waiting {
    pub run: Result<Decoded, ReplayError>,
    /// To whom it goes.
    pub give: SyncSender<Result<Decoded, ReplayError>>,
    pub after: Passing,
}

impl Passing {
    /// Leaves the run here, unless the resolver is there: then the caller has both.
    pub(super) fn wait(self, waiting: Waiting) -> Option<(Resolver, Waiting)> {
        self.meet(|passes| match passes {
            Passes::Resolver(resolver) => (Passes::Nothing, Some((resolver, waiting))),
            _ => (Passes::Run(waiting), None),
        })
    }

    /// Leaves the resolver here, unless a run waits for it: then the caller has both.
    pub(super) fn hand_on(self, resolver: Resolver) -> Option<(Resolver, Waiting)> {
        self.meet(|passes| match passes {
            Passes::Run(waiting) => (Passes::Nothing, Some((resolver, waiting))),
            _ => (Passes::Resolver(resolver), None),
        })
    }

    fn meet<T>(&self, change: impl FnOnce(Passes) -> (Passes, T)) -> T {
        // Nobody panics while holding it.
        let mut passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, taken) = change(std::mem::take(&mut passes));
        *passes = left;
        taken
    }
}
