//! The calls to Redis: the scripts, their replies, and the names of keys.

pub(crate) mod hash_fields;
pub(crate) mod key_scan;
pub(crate) mod member_text;
#[cfg(feature = "mutants")]
pub mod mutants;
pub(crate) mod record_fields;
pub(crate) mod redis_keys;
pub(crate) mod reply;
mod script_header;
pub(crate) mod scripts;
mod shared_lua;
pub(crate) mod store_error;

#[cfg(feature = "mutants")]
pub use scripts::load_all;
