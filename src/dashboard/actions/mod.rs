//! The actions of the dashboard: one row of a table for each, one page that asks, and one page with
//! the result.
//!
//! An action acts on names. The page that asks has the names in its form, so what is acted on is what
//! was shown. The action itself is the verb of the API.
//!
//! - `action_table`: the actions; `action_field`: the fields of their forms
//! - `acted_names`: the names on which an action acts, from ticks or from a filter
//! - `action_page`: the page that asks; `backfill_preview`: the times of a backfill
//! - `carried_out`: the calls of the verb; `action_result`: their result, and its page

mod acted_names;
mod action_field;
mod action_page;
mod action_result;
mod action_table;
mod backfill_preview;
mod carried_out;

pub(super) use action_page::action_page;
pub(super) use action_result::result_page;
pub(crate) use carried_out::carry_out;
