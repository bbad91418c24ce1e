//! Each rule of the books, broken by hand: it is told, and mended or told how.

mod clocks;
mod garbage;
mod indexes;
mod jobs;
mod keys;
mod runs;
