//! Makes the [`WindowRun`] of each window of an image.

use allotrope_trace::model::ImageId;
use rustc_hash::FxHashMap;

use crate::index::{Image, Index};
use crate::window_table::Span;
use crate::windows::{WindowFigures, WindowKey, WindowRun};

/// The runs of an image's windows, in order of opening. `figures` has the figures of each
/// window; the image ended at `end_ns`.
pub(crate) fn window_runs<H>(
    index: &Index<H>,
    image: &Image<H>,
    figures: &[WindowFigures],
    end_ns: u64,
) -> Vec<WindowRun> {
    let start_ns = index.timeline.ns(image.start.tick);
    let mut occurrences: FxHashMap<&str, u32> = FxHashMap::default();
    let runs = image.windows.spans().iter().zip(figures);
    runs.map(|(span, figures)| {
        let occurrence = occurrences.entry(&span.window.name).or_default();
        *occurrence += 1;
        let opened_ns = index.timeline.ns(span.window.tick).max(start_ns);
        let end = span.end.as_ref();
        let closed_ns = end.map_or(end_ns, |end| index.timeline.ns(end.tick));
        let (measured, figures) = if index.recording.counts_only {
            let counted = image.windows.counted(span);
            (counted.is_some(), counted.unwrap_or_default())
        } else {
            (span.measured, *figures)
        };
        WindowRun {
            measured,
            opened_us: (opened_ns - start_ns) / 1000,
            duration_us: closed_ns.saturating_sub(opened_ns) / 1000,
            figures,
            ..run(image.start.image, span, *occurrence)
        }
    })
    .collect()
}

/// A run as far as its records have it: without times and figures.
fn run(image: ImageId, span: &Span, occurrence: u32) -> WindowRun {
    let end = span.end.as_ref();
    WindowRun {
        key: WindowKey {
            image,
            opened: span.window.opened,
        },
        name: span.window.name.clone(),
        occurrence,
        iterations: span.window.iterations,
        thread: span.thread,
        opened_us: 0,
        duration_us: 0,
        closed: end.is_some(),
        measured: span.measured,
        quiet: [
            span.window.quiet,
            end.map(|end| end.quiet).unwrap_or_default(),
        ],
        figures: WindowFigures::default(),
        descriptors: end.and_then(|end| end.descriptors.clone()),
    }
}
