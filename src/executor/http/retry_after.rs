//! The wait that an answer requests in its field `Retry-After` (RFC 9110, 10.2.3).
//!
//! Invariant: the wait is never longer than a day, whatever a server says. A field that cannot be
//! read counts as absent.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use reqwest::header::{self, HeaderMap, HeaderName};

/// The longest wait. A server with a wrong clock or configuration must not put a job to sleep for
/// years.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// The three forms of a date that a receiver must understand (RFC 9110, 5.6.7).
const DATES: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Returns the wait that `headers` request. Returns `None` if `headers` request no wait.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    wait_asked(text(header::RETRY_AFTER)?, text(header::DATE))
}

/// Returns the wait that the value `asked` of a `Retry-After` requests, in an answer with the date
/// `sent`. Returns `None` if the value cannot be read.
///
/// A date is compared with the answer's own `Date`, which a server with a clock sends (RFC 9110,
/// 6.6.1). The clock of this host may differ from the server's.
pub fn wait_asked(asked: &str, sent: Option<&str>) -> Option<Duration> {
    let asked = asked.trim();
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large to parse still means a long wait.
        return Some(asked.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST));
    }
    let (until, sent) = (date(asked)?, sent.map(str::trim).and_then(date)?);
    (until - sent).to_std().ok().map(|wait| wait.min(LONGEST))
}

fn date(text: &str) -> Option<DateTime<Utc>> {
    DATES
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .map(|date| date.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn wait(fields: &[(HeaderName, &str)]) -> Option<u64> {
        retry_after(&headers(fields)).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_taken_up_to_a_day() {
        let cases = [
            ("0", 0),
            ("120", 120),
            (" 7 ", 7),
            ("86401", 86_400),
            ("99999999999999999999999", 86_400),
        ];
        for (text, seconds) in cases {
            assert_eq!(wait(&[(header::RETRY_AFTER, text)]), Some(seconds), "{text:?}");
        }
    }

    #[test]
    fn a_date_is_measured_against_the_answers_own_and_without_one_says_nothing() {
        let sent = (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT");
        let later = [
            "Sun, 06 Nov 1994 08:51:07 GMT",
            "Sunday, 06-Nov-94 08:51:07 GMT",
            "Sun Nov  6 08:51:07 1994",
        ];
        for form in later {
            assert_eq!(wait(&[(header::RETRY_AFTER, form), sent.clone()]), Some(90), "{form:?}");
        }
        let alone = (header::RETRY_AFTER, "Sun, 06 Nov 1994 09:49:42 GMT");
        assert_eq!(wait(std::slice::from_ref(&alone)), None);
        assert_eq!(wait(&[alone, (header::DATE, "once")]), None);
        assert_eq!(
            wait(&[(header::RETRY_AFTER, "Fri, 31 Dec 9999 23:59:59 GMT"), sent]),
            Some(86_400)
        );
    }

    #[test]
    fn what_is_past_or_no_time_at_all_asks_for_nothing() {
        for text in [
            "",
            "soon",
            "-5",
            "1.5",
            "+3",
            "5s",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(wait(&[(header::RETRY_AFTER, text)]), None, "{text:?}");
        }
        assert_eq!(wait(&[]), None);
    }
}
