//! What the text of a comparison shows, and how.

use super::selection::Selection;
use allotrope_diff::MetricChange;
use allotrope_text::Style;

/// What a text shows.
#[derive(Debug, Clone)]
pub struct DiffTextOptions {
    /// Width and colours.
    pub style: Style,
    /// Which entries are shown.
    pub selection: Selection,
    /// Largest number of entries that changed, and of those that moved.
    pub top: usize,
    /// Whole stacks, a frame a line, allocators' and runtimes' frames too.
    pub all_frames: bool,
    /// The metrics that changed, for the head.
    pub changes: Vec<MetricChange>,
    /// The names of the runs before, and of those after.
    pub titles: [Vec<String>; 2],
    /// The options of the command that show what is left out.
    pub hints: Hints,
    /// Sentences after the entries that changed, such as one about a part of the
    /// difference that no stack has.
    pub remarks: Vec<String>,
}

/// The options by which a command shows what its text leaves out. A command that lacks
/// such an option gives no hint.
#[derive(Debug, Clone, Copy)]
pub struct Hints {
    /// Shows all stacks of an entry.
    pub stacks: Option<&'static str>,
    /// Shows the stacks of entries that only moved.
    pub moved: Option<&'static str>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            stacks: Some("--all-frames"),
            moved: Some("--expand"),
        }
    }
}

impl Default for DiffTextOptions {
    fn default() -> Self {
        Self {
            style: Style::default(),
            selection: Selection::default(),
            top: 20,
            all_frames: false,
            changes: Vec::new(),
            titles: [Vec::new(), Vec::new()],
            hints: Hints::default(),
            remarks: Vec::new(),
        }
    }
}
