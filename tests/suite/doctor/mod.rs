//! The consistency check: each rule broken by hand and mended, garbage in every key, and random walks that leave them clean.

mod chain_walk;
mod corruption;
mod desk;
mod node;
mod quarantine;
mod rules;
mod scale;
mod uniques;
mod verb;
mod walk;
