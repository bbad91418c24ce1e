//! The drawings of pages: numbers for SVG elements, which templates write.

mod chain_drawing;
mod day_strip;
mod gantt;
mod heat_map;
mod run_bars;
mod time_axis;
mod waterfall;

pub(super) use chain_drawing::ChainDrawing;
pub(super) use day_strip::DayStrip;
pub(super) use gantt::{Gantt, GanttItem};
pub(super) use heat_map::HeatMap;
pub(super) use run_bars::{MOST_BARS, RunBars};
pub(super) use time_axis::TimeAxis;
pub(super) use waterfall::Waterfall;
