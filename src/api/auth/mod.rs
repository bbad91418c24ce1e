//! Who sends a request, and what the sender may do.

mod browser_sessions;
mod caller;
mod host_name;
mod origin_check;
mod sign_in;
mod site_base;

pub(super) use browser_sessions::BrowserSessions;
pub(super) use caller::{Caller, Peer, ReaderRight, identify, permit_define, read_credentials};
pub(super) use origin_check::{check_host, check_origin, curl_address};
pub(super) use sign_in::sign_in;
pub(super) use site_base::site_base;
