//! Whole nodes on a real Redis: what jobs did, and what history says of it.

mod explain;
mod gates;
mod idle;
mod jobs;
mod notices;
mod outages;
mod process;
mod scene;
mod scripted;
mod scripted_scene;

/// A short lease, so that tests of recovery are short.
const QUICK: &str = "[daemon]\nlease = \"2s\"\n";
