//! Verbs that a schedd runs for the requests of its HTTP API: the same verbs, with a store of the
//! process instead of flags, and with the output as pieces instead of standard output.

pub(crate) mod job_page;
pub(crate) mod output_pieces;
pub(crate) mod page_cursor;
pub(crate) mod remote_call;
pub(crate) mod remote_frames;
pub(crate) mod remote_verb;
pub(crate) mod request_files;
pub(crate) mod run_page;
pub(crate) mod verb_call;
pub(crate) mod verb_right;
pub(crate) mod views;

pub(crate) use super::access::tls_files::tls_server;
pub(crate) use super::add::{JobLines, ResultForm, add_from};
pub(crate) use super::connect::who_is;
pub(crate) use super::failure::CliFailure;
pub(crate) use super::local_zone::run_in_zone;
pub(crate) use super::logs::output_place::OutputPlace;
pub(crate) use super::merged_places::{IndexEntry, MergedPlaces};
pub(crate) use super::queue::{QueueOverview, queue_depths};
pub(crate) use super::render::{Console, JobView, one_line, rfc3339, safe_text, view_jobs};
