//! The first process of the recording.

use crate::protocol::FirstExit;

/// The first process of the recording, which the launcher started.
#[derive(Debug, Default)]
pub(crate) struct RootProcess {
    /// The pid in the launcher's message.
    pub(crate) announced: Option<u32>,
    /// The pid of the first image that attached, used as long as there is no message.
    pub(crate) guessed: Option<u32>,
    /// An image of the process has attached.
    pub(crate) has_image: bool,
    /// How the process ended, from the launcher's message.
    pub(crate) exit: Option<FirstExit>,
    pub(crate) launcher_gone: bool,
    /// The launcher's pid, if the launcher stopped itself because this process stopped.
    pub(crate) stopped_launcher: Option<u32>,
}

impl RootProcess {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.announced.or(self.guessed)
    }

    /// The process has ended, or the launcher that would report its end is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.exit.is_some() || self.launcher_gone
    }
}
