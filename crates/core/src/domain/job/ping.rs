//! Pings to a monitoring service, in the form of healthchecks.io.
//!
//! Invariant: all pings of a run have the same UUID in the parameter `rid`.

use schedd_schedule::names::RunId;

/// The event of a run that a ping reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ping {
    /// An attempt of the run begins.
    Start,
    /// The run succeeded.
    Success,
    /// The run failed. The value is the exit code, if any.
    Failure(Option<i64>),
    /// An operator stopped the run. The monitoring service logs the ping, but counts it neither as
    /// success nor as failure.
    Cancelled,
}

/// The placeholder for the name of the job in a `ping_url`.
pub const JOB: &str = "{job}";

/// Returns the URL of a ping about `run`: `base` with the event `ping` after its path. The caller
/// has inserted the credentials into `base`. The fragment of `base` is dropped, because servers get
/// no fragments.
pub fn ping_address(base: &str, run: &RunId, ping: Ping) -> String {
    let base = base.split_once('#').map_or(base, |(base, _)| base).replace(JOB, run.job().as_str());
    let (path, query) =
        base.split_once('?').map_or((base.as_str(), None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    let suffix = match ping {
        Ping::Start => "/start".to_owned(),
        Ping::Success => String::new(),
        Ping::Failure(Some(code @ 1..=255)) => format!("/{code}"),
        Ping::Failure(_) => "/fail".to_owned(),
        Ping::Cancelled => "/log".to_owned(),
    };
    let query = query
        .filter(|query| !query.is_empty())
        .map(|query| format!("{query}&"))
        .unwrap_or_default();
    format!("{path}{suffix}?{query}rid={}", rid(run))
}

/// Returns a UUID made from a digest of the id of `run` (version 8 of RFC 9562).
fn rid(run: &RunId) -> String {
    let bytes = sha1_smol::Sha1::from(run.to_string()).digest().bytes();
    let mut number = u128::from_be_bytes(std::array::from_fn(|at| bytes[at]));
    number = number & !(0xf << 76) | (0x8 << 76);
    number = number & !(0x3 << 62) | (0x2 << 62);
    let hex = format!("{number:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_has_the_event_after_the_path_and_the_id_of_the_run() {
        let run: RunId = "backup@1790000000000".parse().unwrap();
        let at = |base, ping| ping_address(base, &run, ping);
        let rid = rid(&run);
        assert_eq!((rid.len(), &rid[14..15]), (36, "8"));
        assert_eq!(
            at("https://hc-ping.com/u", Ping::Start),
            format!("https://hc-ping.com/u/start?rid={rid}")
        );
        assert_eq!(
            at("https://hc-ping.com/u/", Ping::Success),
            format!("https://hc-ping.com/u?rid={rid}")
        );
        assert_eq!(
            at("https://h/k/{job}?create=1", Ping::Failure(Some(7))),
            format!("https://h/k/backup/7?create=1&rid={rid}")
        );
        assert_eq!(
            at("https://h/q/{job}?a#f", Ping::Start),
            format!("https://h/q/backup/start?a&rid={rid}")
        );
        assert_eq!(at("https://h/u", Ping::Cancelled), format!("https://h/u/log?rid={rid}"));
        for code in [None, Some(0), Some(300), Some(-1)] {
            assert_eq!(
                at("https://h/u", Ping::Failure(code)),
                format!("https://h/u/fail?rid={rid}")
            );
        }
    }
}
