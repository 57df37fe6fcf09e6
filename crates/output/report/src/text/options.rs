//! What a text shows, and how.

use std::rc::Rc;

use allotrope_attribution::Suppressions;
use allotrope_profile::{Filter, Metric, MetricSet};
use allotrope_trace::model::ImageId;

use crate::source_lines::SourceLines;
use allotrope_text::Style;

/// The root of a call tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeOrder {
    /// The root is at the functions that allocate; branches are their callers.
    BottomUp,
    /// The root is at `main` and thread starts; branches are what they call.
    TopDown,
}

/// Which blocks are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Blocks {
    /// All.
    #[default]
    All,
    /// The blocks that were live at the end of their process.
    Leaked,
    /// The blocks that were freed.
    Freed,
}

/// What a text shows, and its width and colours.
#[derive(Debug, Clone)]
pub struct TextOptions {
    /// Width and colours.
    pub style: Style,
    /// The metric of a single list; `None` for the lists of [`LISTED`](crate::LISTED).
    pub metric: Option<Metric>,
    /// Largest number of sites in a list, and of branches at a node.
    pub top: usize,
    /// A call tree instead of lists.
    pub tree: Option<TreeOrder>,
    /// Branches with less than this share of the whole (0 to 1) are summed in one line.
    pub least_share: f64,
    /// Filter of the sites: only those with a frame that it selects are shown.
    pub filter: Option<Filter>,
    /// The only process image that is shown.
    pub process: Option<ImageId>,
    /// Which blocks are counted.
    pub blocks: Blocks,
    /// The leaks that rankings leave out.
    pub suppressions: Suppressions,
    /// Show frames of allocators and standard libraries, too.
    pub all_frames: bool,
    /// Show figures divided by this number, too; without it, figures of a window are
    /// divided by its iterations.
    pub per: Option<f64>,
    /// A line that names the windows, if the profile is that of windows.
    pub window: Option<String>,
    /// The source of lines of code, if they are to be shown.
    pub source: Option<Rc<SourceLines>>,
    /// The metrics that are known. Stacks of other tools have only some.
    pub known: MetricSet,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            style: Style::default(),
            metric: None,
            top: 10,
            tree: None,
            least_share: 0.01,
            filter: None,
            process: None,
            blocks: Blocks::All,
            suppressions: Suppressions::default(),
            all_frames: false,
            per: None,
            window: None,
            source: None,
            known: MetricSet::OF_STACKS,
        }
    }
}
