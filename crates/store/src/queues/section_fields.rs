//! The fields of the Redis hashes that contain the settings of queues and groups.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use crate::server::reply::{number_of, text_of};
use crate::server::scripts::millis;
use schedd_core::domain::queue::backlog::BacklogRules;
use schedd_core::domain::queue::group_rules::{GroupSettings, TurnRules};
use schedd_core::domain::queue::queue_rules::{QueueSettings, Share};
use schedd_core::domain::queue::rate::{MOST_RUNS, Rate};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The settings and the pause of a queue, as stored in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    /// The settings in effect for the queue.
    pub settings: QueueSettings,
    /// True if the concurrency was set by hand. Such a concurrency applies on each node and
    /// overrides the file of the node.
    pub is_concurrency_by_hand: bool,
    /// The time since which the queue is paused, and who paused the queue. None if the queue is not
    /// paused.
    pub paused: Option<(UnixMillis, String)>,
    /// The time of the last setting by hand, and the user who made the setting. None if no setting
    /// was made by hand since the queue's section was last edited.
    pub set: Option<(UnixMillis, String)>,
    /// The names of the queue's fields with invalid values.
    pub unreadable: Vec<String>,
}

fn or_nothing<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The fields that earlier versions of schedd do not have.
pub(super) const LATER_FIELDS: [&str; 4] = ["warn_depth", "warn_oldest_ms", "on_backlog", "spread"];

/// Returns the settings of a queue as pairs of field and value, without the pause of the queue.
pub(crate) fn queue_fields(queue: &QueueSettings) -> Vec<(&'static str, String)> {
    let QueueSettings { concurrency, limit, rate, share, is_paused: _, backlog, is_spread } = queue;
    let weight = match share {
        Share::Strict => None,
        Share::Weight(weight) => Some(weight),
    };
    vec![
        ("concurrency", concurrency.to_string()),
        ("limit", or_nothing(*limit)),
        ("rate_count", or_nothing(rate.map(Rate::count))),
        ("rate_ms", or_nothing(rate.map(|rate| millis(rate.per())))),
        ("burst", or_nothing(rate.map(Rate::burst))),
        ("weight", or_nothing(weight)),
        ("strict", if weight.is_none() { "1".to_owned() } else { String::new() }),
        ("warn_depth", or_nothing(backlog.depth)),
        ("warn_oldest_ms", or_nothing(backlog.oldest.map(millis))),
        ("on_backlog", or_nothing(backlog.job.as_ref())),
        ("spread", if *is_spread { "1".to_owned() } else { String::new() }),
    ]
}

/// Returns the settings of a group as pairs of field and value.
pub(super) fn group_fields(group: &GroupSettings) -> Vec<(&'static str, String)> {
    let turns = if let GroupSettings::Alternate(turns) = group { Some(turns) } else { None };
    let order = turns
        .map(|turns| turns.order.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    vec![
        ("mode", group.mode().to_owned()),
        ("order", or_nothing(order)),
        ("gap_ms", or_nothing(turns.map(|turns| millis(turns.gap)))),
        ("turn_timeout_ms", or_nothing(turns.map(|turns| millis(turns.turn_timeout)))),
    ]
}

/// Returns the fields of a hash from `answer`, the reply to HGETALL. A missing key or a key of the
/// wrong type has no fields.
pub(super) fn fields_of(answer: Option<Value>) -> BTreeMap<String, String> {
    let Some(Value::Array(flat)) = answer else { return BTreeMap::new() };
    flat.chunks_exact(2).filter_map(|pair| Some((text_of(&pair[0])?, text_of(&pair[1])?))).collect()
}

/// Parses the fields of a queue. The record names the fields with invalid values.
pub(super) fn queue_record(fields: &BTreeMap<String, String>) -> QueueRecord {
    let mut unreadable = Vec::new();
    let mut number = |field: &str, most: u32| {
        let text = fields.get(field)?;
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        if number.is_none() {
            unreadable.push(field.to_owned());
        }
        number
    };
    let plain = QueueSettings::default();
    let concurrency =
        number("concurrency", QueueSettings::MOST_CONCURRENT).unwrap_or(plain.concurrency);
    let limit = number("limit", QueueSettings::MOST_AT_ONCE);
    let (count, per) = (number("rate_count", MOST_RUNS), number("rate_ms", 86_400_000));
    let burst = number("burst", MOST_RUNS);
    let weight = number("weight", QueueSettings::MOST_WEIGHT).map_or(plain.share, Share::Weight);
    let depth = number("warn_depth", BacklogRules::MOST_DEPTH);
    let oldest = number("warn_oldest_ms", u32::MAX).map(|ms| Duration::from_millis(ms.into()));
    let job = fields.get("on_backlog").map(|name| name.parse().map_err(drop));
    if job == Some(Err(())) {
        unreadable.push("on_backlog".to_owned());
    }
    if count.is_some() != per.is_some() {
        unreadable.push("rate".to_owned());
    }
    let rate =
        count.zip(per).and_then(|(count, per)| Rate::new(count, Duration::from_millis(per.into())));
    let text = |field: &str| fields.get(field).cloned().unwrap_or_default();
    let reported = |at: &str, by: &str| {
        let at = fields.get(at)?.parse().ok().and_then(UnixMillis::new)?;
        Some((at, text(by)))
    };
    let is_paused = fields.contains_key("paused");
    let paused = is_paused
        .then(|| reported("paused", "paused_by").unwrap_or((UnixMillis::EPOCH, text("paused_by"))));
    QueueRecord {
        settings: QueueSettings {
            concurrency,
            limit,
            rate: rate.map(|rate| burst.map_or(rate, |burst| rate.with_burst(burst))),
            share: if text("strict") == "1" { Share::Strict } else { weight },
            is_paused,
            backlog: BacklogRules { depth, oldest, job: job.and_then(Result::ok) },
            is_spread: text("spread") == "1",
        },
        is_concurrency_by_hand: text("concurrency_by") == "hand"
            && fields.contains_key("concurrency"),
        paused,
        set: reported("set_at", "set_by"),
        unreadable,
    }
}

/// Parses the fields of a group. A group with missing or invalid settings is exclusive, so it never
/// runs two members at once.
pub(super) fn group_settings(fields: &BTreeMap<String, String>) -> GroupSettings {
    let time = |field: &str, or: Duration| {
        let millis = fields
            .get(field)
            .and_then(|text| number_of(&Value::BulkString(text.clone().into_bytes())));
        millis.and_then(|millis| u64::try_from(millis).ok()).map_or(or, Duration::from_millis)
    };
    let order = fields
        .get("order")
        .map(|order| order.split(' ').map(str::parse).collect::<Result<Vec<_>, _>>());
    match (fields.get("mode").map(String::as_str), order) {
        (Some("alternate"), Some(Ok(order)))
            if (2..=TurnRules::MOST_MEMBERS).contains(&order.len()) =>
        {
            let (gap, turn_timeout) =
                (time("gap_ms", TurnRules::GAP), time("turn_timeout_ms", TurnRules::TURN_TIMEOUT));
            GroupSettings::Alternate(TurnRules { order, gap, turn_timeout })
        }
        _ => GroupSettings::Exclusive,
    }
}

/// Returns the names of those settings of a group that have invalid values.
pub(super) fn unreadable_in_group(fields: &BTreeMap<String, String>) -> Vec<&'static str> {
    const LONGEST: u64 = 86_400_000;
    let mode = fields.get("mode").map(String::as_str);
    let is_time = |field: &str| {
        fields
            .get(field)
            .is_none_or(|text| text.parse::<u64>().is_ok_and(|millis| millis <= LONGEST))
    };
    let has_turns = matches!(group_settings(fields), GroupSettings::Alternate(_));
    let mut unreadable = Vec::new();
    if !matches!(mode, Some("exclusive" | "alternate")) {
        unreadable.push("mode");
    }
    if mode == Some("alternate") && !has_turns {
        unreadable.push("order");
    }
    unreadable.extend(
        ["gap_ms", "turn_timeout_ms"]
            .into_iter()
            .zip(["gap", "turn_timeout"])
            .filter(|(field, _)| !is_time(field))
            .map(|(_, word)| word),
    );
    unreadable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(fields: Vec<(&str, String)>) -> BTreeMap<String, String> {
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        fields.map(|(field, value)| (field.to_owned(), value)).collect()
    }

    #[test]
    fn what_a_section_says_reads_back() {
        let rate = "100/1m".parse::<Rate>().unwrap().with_burst(7);
        let queue = QueueSettings {
            concurrency: 5,
            limit: Some(3),
            rate: Some(rate),
            share: Share::Weight(4),
            is_paused: false,
            backlog: BacklogRules {
                depth: Some(1_000),
                oldest: Some(Duration::from_secs(30 * 86_400)),
                job: Some("page".parse().unwrap()),
            },
            is_spread: false,
        };
        for queue in [
            QueueSettings { share: Share::Strict, ..queue.clone() },
            QueueSettings { is_spread: true, ..QueueSettings::default() },
            queue,
            QueueSettings::default(),
        ] {
            let record = queue_record(&kept(queue_fields(&queue)));
            assert_eq!((record.settings, record.unreadable), (queue, Vec::new()));
        }
        let order = vec!["a".parse().unwrap(), "b".parse().unwrap()];
        let turns = TurnRules {
            order,
            gap: Duration::from_secs(5),
            turn_timeout: Duration::from_millis(1_500),
        };
        for group in [GroupSettings::Exclusive, GroupSettings::Alternate(turns)] {
            let kept = kept(group_fields(&group));
            assert_eq!((group_settings(&kept), unreadable_in_group(&kept)), (group, Vec::new()));
        }
    }

    #[test]
    fn what_is_damaged_of_a_group_is_reported() {
        let unreadable = |fields: &[(&str, &str)]| {
            unreadable_in_group(
                &fields
                    .iter()
                    .map(|(field, value)| ((*field).to_owned(), (*value).to_owned()))
                    .collect(),
            )
        };
        assert_eq!(
            unreadable(&[("mode", "foo"), ("order", "a b"), ("gap_ms", "abc")]),
            ["mode", "gap"]
        );
        assert_eq!(
            unreadable(&[("mode", "alternate"), ("order", "a"), ("turn_timeout_ms", "-1")]),
            ["order", "turn_timeout"]
        );
        assert_eq!(unreadable(&[]), ["mode"]);
    }

    #[test]
    fn what_is_damaged_counts_as_not_set_and_is_reported() {
        let fields = [("limit", "x"), ("rate_count", "5"), ("weight", "0"), ("concurrency", "-1")];
        let record =
            queue_record(&fields.map(|(field, value)| (field.to_owned(), value.to_owned())).into());
        assert_eq!(record.settings, QueueSettings::default());
        assert_eq!(record.unreadable, ["concurrency", "limit", "weight", "rate"]);
    }
}
