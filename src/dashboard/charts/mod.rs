//! The drawings of pages: numbers for SVG elements, which templates write.

mod run_bars;
mod waterfall;

pub(super) use run_bars::{MOST_BARS, RunBars};
pub(super) use waterfall::Waterfall;
