//! The times of the library, which are those of the standard library.

use std::time::{Duration, SystemTime};

use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns the time as text for a definition. Returns `None` for a time that schedd does not know.
pub(crate) fn text_of(at: SystemTime) -> Option<String> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let millis = i64::try_from(since.as_millis()).ok().and_then(UnixMillis::new)?;
    Some(millis.to_string())
}

/// Returns the time of the standard library.
pub(crate) fn system_time(at: UnixMillis) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_i64()).unwrap_or(0))
}
