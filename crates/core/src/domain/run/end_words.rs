//! English texts for the end of an attempt, for use in sentences.

use nix::sys::signal::Signal;

/// Describes the end of an attempt by the first value that is not `None`: its error, its signal,
/// its exit code or its HTTP status. Returns `None` if the attempt has none of these values.
pub fn in_words(
    error: Option<&str>,
    signal: Option<i32>,
    exit_code: Option<i32>,
    http_status: Option<u16>,
) -> Option<String> {
    if let Some(error) = error {
        return Some(error.to_owned());
    }
    if let Some(signal) = signal {
        return Some(signal_in_words(signal));
    }
    exit_code
        .map(|code| format!("exit code {code}"))
        .or_else(|| http_status.map(|status| format!("status {status}")))
}

/// Returns a text such as `signal 9 (KILL)`, with the names of `signal(7)`.
pub fn signal_in_words(number: i32) -> String {
    match Signal::try_from(number).map(Signal::as_str) {
        Ok(name) => format!("signal {number} ({})", name.strip_prefix("SIG").unwrap_or(name)),
        Err(_) => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_in_words() {
        assert_eq!(
            in_words(Some("cannot start"), Some(9), None, None).as_deref(),
            Some("cannot start")
        );
        assert_eq!(in_words(None, Some(9), None, None).as_deref(), Some("signal 9 (KILL)"));
        assert_eq!(in_words(None, None, Some(3), None).as_deref(), Some("exit code 3"));
        assert_eq!(in_words(None, None, None, Some(500)).as_deref(), Some("status 500"));
        assert_eq!(in_words(None, Some(63), None, None).as_deref(), Some("signal 63"));
        assert_eq!(in_words(None, None, None, None), None);
    }
}
