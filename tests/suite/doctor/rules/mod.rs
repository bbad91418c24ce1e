//! Each rule of the consistency check, broken by hand: it is told, and mended or told how.

mod broken_entries;
mod clocks;
mod garbage;
mod indexes;
mod jobs;
mod keys;
mod runs;
