//! The difference between the clock of this host and the clock of Redis, which decides when jobs
//! are due.

use std::time::Duration;

use crate::cli::failure::CliFailure;
use crate::cli::render::span;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// The maximum difference between this host's clock and Redis' clock that causes no warning.
const TOLERATED: Duration = Duration::from_secs(3);

/// Returns the time by this host's clock.
pub(crate) fn own_now() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH)
}

/// Returns the time by Redis' clock. Also returns a warning if this host's clock differs from
/// Redis' clock by more than 3 seconds. The duration of the request does not count as a difference.
pub(super) async fn ask_time(store: &Store) -> Result<(UnixMillis, Option<String>), CliFailure> {
    let before = own_now();
    let now = store.now().await?;
    Ok((now, difference(before, now, own_now())))
}

fn difference(before: UnixMillis, now: UnixMillis, after: UnixMillis) -> Option<String> {
    let (length, ahead_or_behind) =
        if now < before { (before.since(now), "ahead of") } else { (now.since(after), "behind") };
    (length > TOLERATED)
        .then(|| format!("the clock of this host is {} {ahead_or_behind} the clock of Redis, which decides when jobs are due", span(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_an_hour_off_is_reported_and_a_slow_answer_is_not() {
        let at = |secs: i64| UnixMillis::new(1_790_000_000_000 + secs * 1_000).unwrap();
        assert!(difference(at(3_600), at(0), at(3_600)).unwrap().contains("1h ahead of"));
        assert!(difference(at(0), at(3_600), at(1)).unwrap().contains("59m 59s behind"));
        for (before, now, after) in [(0, 0, 0), (0, 20, 40), (0, 3, 0), (3, 0, 3)] {
            assert_eq!(difference(at(before), at(now), at(after)), None);
        }
    }
}
