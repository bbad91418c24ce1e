//! Corrections of planned runs after a step of Redis' clock, or a change of the zone data.

pub(crate) mod far_plans;
pub(crate) mod replan;
pub(crate) mod zone_change;
