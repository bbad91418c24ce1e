//! The state of a node as the one line that `systemctl status` shows.

use std::time::Duration;

use jiff::Zoned;

use schedd::engine::NodeStatus;

/// The maximum number of characters of a problem in the status line. The log has the whole text.
const LONGEST_TROUBLE: usize = 200;

/// Returns the state of the node as one line without control characters. The time of the next run
/// is in the time zone of `now`.
pub(super) fn words(standing: &NodeStatus, now: &Zoned) -> String {
    let running = match standing.running {
        0 => "no run is running".to_owned(),
        1 => "1 run is running".to_owned(),
        count => format!("{count} runs are running"),
    };
    if standing.is_stopping {
        return match standing.running {
            0 => "Stopping.".to_owned(),
            1 => "Stopping; waiting for 1 run.".to_owned(),
            count => format!("Stopping; waiting for {count} runs."),
        };
    }
    let jobs = match standing.jobs {
        None => "no jobs file".to_owned(),
        Some(1) => "1 job in the jobs file".to_owned(),
        Some(count) => format!("{count} jobs in the jobs file"),
    };
    let next = match standing.next {
        Some(ahead) => format!(", next run {}", clock(ahead, now)),
        None if standing.trouble.is_none() => ", no run is planned".to_owned(),
        // The problem may be the reason why the next run is unknown.
        None => String::new(),
    };
    let mut line = format!("{jobs}, {running}{next}");
    if let Some(trouble) = &standing.trouble {
        line.push_str("; ");
        let plain = trouble.chars().map(|c| if c.is_control() { ' ' } else { c });
        if trouble.chars().count() > LONGEST_TROUBLE {
            line.extend(plain.take(LONGEST_TROUBLE));
            line.push_str("...");
        } else {
            line.extend(plain);
        }
    }
    line
}

/// Returns the time of day that is `ahead` after `now`, rounded to seconds. The date is included if
/// it is another day.
fn clock(ahead: Duration, now: &Zoned) -> String {
    let ahead = Duration::from_millis(u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX));
    let Some(at) = now.checked_add(ahead).ok().and_then(|at| at.round(jiff::Unit::Second).ok())
    else {
        return "in the far future".to_owned();
    };
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    format!("at {}", at.strftime(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-21T22:59:59.300+01:00[Europe/Berlin]".parse().unwrap()
    }

    fn standing() -> NodeStatus {
        NodeStatus {
            is_stopping: false,
            jobs: Some(12),
            running: 2,
            next: Some(Duration::from_millis(700)),
            trouble: None,
        }
    }

    #[test]
    fn a_node_is_reported_in_one_line() {
        assert_eq!(
            words(&standing(), &now()),
            "12 jobs in the jobs file, 2 runs are running, next run at 23:00:00"
        );
        let far = NodeStatus {
            next: Some(Duration::from_secs(7_200)),
            jobs: None,
            running: 0,
            ..standing()
        };
        assert_eq!(
            words(&far, &now()),
            "no jobs file, no run is running, next run at 2026-11-22 00:59:59"
        );
        let bad = NodeStatus { next: None, trouble: Some("a\nb".to_owned()), ..standing() };
        assert_eq!(words(&bad, &now()), "12 jobs in the jobs file, 2 runs are running; a b");
        let stopping = NodeStatus { is_stopping: true, running: 1, ..standing() };
        assert_eq!(words(&stopping, &now()), "Stopping; waiting for 1 run.");
    }

    #[test]
    fn a_long_trouble_is_cut() {
        let long = NodeStatus { trouble: Some("x".repeat(1_000)), ..standing() };
        assert!(words(&long, &now()).len() < 300);
    }
}
