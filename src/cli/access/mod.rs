//! Access to the HTTP API: `token` and `dashboard`, and the address of the API. Access to Redis: `acl`.

pub(crate) mod acl_verb;
pub(crate) mod dashboard_verb;
pub(crate) mod tls_files;
mod token_place;
pub(crate) mod token_verb;

pub(crate) use token_place::api_address;
