//! Whole nodes on a real Redis: what jobs did, and what history says of it.

mod after_crashes;
mod answers;
mod bounds;
mod catching_up;
mod clock_steps;
mod debouncing;
mod done_check;
mod editing;
mod explaining;
mod explaining_kept;
mod explaining_late;
mod explaining_lost;
mod failing_over;
mod flushed;
mod gates;
mod gates_shut;
mod gates_told;
mod given_back;
mod lanes;
mod living;
mod losing;
mod outputs;
mod queueing;
mod readding;
mod rebooting;
mod reloading;
mod retrying;
mod rolling;
mod rotating;
mod scene;
mod shaping;
mod sharing;
mod shortages;
mod spoilt;
mod stopping;
mod storm;
mod telling;
mod telling_desk;
mod telling_hidden;
mod telling_late;
mod turns;
mod weathering;

/// A short lease, so that tests of recovery are short.
const QUICK: &str = "[daemon]\nlease = \"2s\"\n";
