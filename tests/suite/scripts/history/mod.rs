//! The scripts of ended runs and notices.

pub(crate) mod deadlines;
mod explain_rounds;
pub(crate) mod folded;
pub(crate) mod forgetting;
pub(crate) mod ledger;
pub(crate) mod notices;
pub(crate) mod outputs;
