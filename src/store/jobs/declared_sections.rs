//! The settings of queues and groups that files declare, as stored for all nodes.
//!
//! Invariant: each change of a section's text is written once. A copy of the file does not write
//! the same text again. So settings made by hand stay until somebody edits that section. An
//! unreadable field counts as not set, and is a finding of the consistency check.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::{GroupName, QueueName};
use crate::domain::queue::group_rules::{GroupSettings, TurnRules};
use crate::domain::queue::queue_rules::{QueueSettings, Share};
use crate::domain::queue::rate::{MOST_RUNS, Rate};
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::server::reply::{number_of, text_of};
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::scripts::millis;
use crate::store::server::store_error::StoreError;

/// A section of a file, by the queue or group that the section configures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The section `[queues.X]` for the queue X.
    Queue(QueueName),
    /// The section `[groups.X]` for the group X.
    Group(GroupName),
}

/// The settings that a section declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionText {
    /// The settings of a queue.
    Queue(QueueSettings),
    /// The settings of a group.
    Group(GroupSettings),
}

/// The settings and the pause of a queue, as stored in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    /// The settings in effect for the queue.
    pub settings: QueueSettings,
    /// True if the concurrency was set by hand. A concurrency set by hand applies on each node,
    /// whatever the file of that node says.
    pub is_concurrency_by_hand: bool,
    /// The time since which the queue is paused, and who paused the queue. None if the queue is not
    /// paused.
    pub paused: Option<(UnixMillis, String)>,
    /// The time of the last setting by hand, and the user who made the setting. None if the queue's
    /// section was edited later.
    pub set: Option<(UnixMillis, String)>,
    /// The names of the queue's fields with invalid values.
    pub spoilt: Vec<String>,
}

/// The result of declaring or withdrawing a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclareReply {
    /// The section now has the settings that this file declares.
    Declared,
    /// The section did not change, because this or another file declared the same settings before.
    Unchanged,
    /// No file declares the section any more.
    Withdrawn,
    /// The section did not change, because another file declares the section or its settings were
    /// made by hand.
    Kept,
}

impl SectionText {
    /// Returns the settings as pairs of field and value, in a fixed order. A setting that is not
    /// set has an empty value.
    fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Queue(queue) => queue_fields(queue),
            Self::Group(group) => group_fields(group),
        }
    }

    fn is_paused(&self) -> bool {
        matches!(self, Self::Queue(queue) if queue.is_paused)
    }

    /// Returns the hash that distinguishes this text from other texts of the section.
    pub fn hash(&self) -> String {
        let mut text: Vec<String> = self.fields().iter().map(|(field, value)| format!("{field}={value}")).collect();
        text.push(format!("paused={}", self.is_paused()));
        sha1_smol::Sha1::from(text.join("\n")).digest().to_string()
    }
}

fn or_nothing<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the settings of a queue as pairs of field and value, without the pause of the queue.
pub(crate) fn queue_fields(queue: &QueueSettings) -> Vec<(&'static str, String)> {
    let QueueSettings { concurrency, limit, rate, share, is_paused: _ } = queue;
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
    ]
}

fn group_fields(group: &GroupSettings) -> Vec<(&'static str, String)> {
    let turns = if let GroupSettings::Alternate(turns) = group { Some(turns) } else { None };
    let order = turns.map(|turns| turns.order.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    vec![
        ("mode", group.mode().to_owned()),
        ("order", or_nothing(order)),
        ("gap_ms", or_nothing(turns.map(|turns| millis(turns.gap)))),
        ("turn_timeout_ms", or_nothing(turns.map(|turns| millis(turns.turn_timeout)))),
    ]
}

impl Store {
    /// Records the text that the file `source` declares for a section. If `text` is None, the file
    /// withdraws the section.
    pub async fn declare_section(
        &self,
        source: &SourceName,
        section: &Section,
        text: Option<&SectionText>,
    ) -> Result<DeclareReply, StoreError> {
        self.call_declare(source, section, text, "say").await
    }

    /// Returns true if declaring this text would change the settings of the section. Another file
    /// may have declared the same text before; the declaration then changes nothing.
    pub async fn would_declare(&self, source: &SourceName, section: &Section, text: &SectionText) -> Result<bool, StoreError> {
        Ok(self.call_declare(source, section, Some(text), "look").await? == DeclareReply::Declared)
    }

    async fn call_declare(
        &self,
        source: &SourceName,
        section: &Section,
        text: Option<&SectionText>,
        mode: &str,
    ) -> Result<DeclareReply, StoreError> {
        let (settings, index, name) = match section {
            Section::Queue(queue) => (self.keys.queue(queue), self.keys.queues(), queue.as_str()),
            Section::Group(group) => (self.keys.group(group), self.keys.groups(), group.as_str()),
        };
        let shown = match (section, text) {
            (_, Some(SectionText::Queue(queue))) => queue.concurrency.to_string(),
            (_, Some(SectionText::Group(group))) => group.mode().to_owned(),
            // The queue stays in the index so that nodes still serve its runs.
            (Section::Queue(_), None) => QueueSettings::DEFAULT_CONCURRENCY.to_string(),
            (Section::Group(_), None) => String::new(),
        };
        let call = Invocation::new(&scripts::DECLARE_SECTION)
            .key("settings", settings)
            .key("declared", self.keys.declared(source))
            .key("index", index)
            .key("nudge", self.keys.nudge())
            .key("gate_wakes", self.keys.gate_wakes())
            .arg("now", self.now_arg())
            .arg("name", name)
            .arg("entry", section.entry())
            .arg("hash", text.map_or_else(String::new, SectionText::hash))
            .arg("source_name", source.as_str())
            .arg("shown", shown)
            .arg("paused", u8::from(text.is_some_and(SectionText::is_paused)))
            .arg("mode", mode);
        let fields = text.map(SectionText::fields).unwrap_or_default();
        let call = fields.into_iter().fold(call, |call, (field, value)| call.arg("field", field).arg("value", value));
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "declared" => DeclareReply::Declared,
            "unchanged" => DeclareReply::Unchanged,
            "withdrawn" => DeclareReply::Withdrawn,
            "kept" => DeclareReply::Kept,
            _ => return Err(reply.unknown()),
        })
    }

    /// Returns the hash of each section's text at the last push of the file `source`.
    pub async fn list_declared(&self, source: &SourceName) -> Result<BTreeMap<Section, String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.declared(source));
        // A list of the wrong type is a finding of its own.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        let Some(Ok(Value::Array(flat))) = answer else { return Ok(BTreeMap::new()) };
        Ok(flat.chunks_exact(2).filter_map(|pair| Some((Section::of_entry(&text_of(&pair[0])?)?, text_of(&pair[1])?))).collect())
    }

    /// Returns the hashes that [`Store::list_declared`] returns, some of them emptied. A hash is
    /// empty if the settings are gone or the file must push the section again.
    pub async fn read_declared(&self, source: &SourceName) -> Result<BTreeMap<Section, String>, StoreError> {
        let mut declared = self.list_declared(source).await?;
        if declared.is_empty() {
            return Ok(declared);
        }
        let mut pipeline = redis::pipe();
        for section in declared.keys() {
            let key = match section {
                Section::Queue(queue) => self.keys.queue(queue),
                Section::Group(group) => self.keys.group(group),
            };
            pipeline.cmd("HGET").arg(key).arg(format!("src:{source}"));
        }
        for (hash, answer) in declared.values_mut().zip(self.link.ask(&mut pipeline).await?) {
            if answer.ok().as_ref().and_then(text_of).as_ref() != Some(hash) {
                hash.clear();
            }
        }
        Ok(declared)
    }

    /// Returns the settings of these queues. An undeclared queue has the default settings.
    pub async fn read_queue_settings(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, StoreError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for queue in queues {
            pipeline.cmd("HGETALL").arg(self.keys.queue(queue));
        }
        Ok(self.link.ask(&mut pipeline).await?.into_iter().map(|answer| queue_record(&fields_of(answer.ok()))).collect())
    }

    /// Returns the declared groups with their settings.
    pub async fn read_groups(&self) -> Result<BTreeMap<GroupName, GroupSettings>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HKEYS").arg(self.keys.groups());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok(BTreeMap::new()) };
        let names: Vec<GroupName> = names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()).collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HGETALL").arg(self.keys.group(name));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        Ok(names.into_iter().zip(answers).map(|(name, answer)| (name, group_settings(&fields_of(answer.ok())))).collect())
    }

    /// Returns the settings of a group. An undeclared group has the default settings.
    pub async fn read_group(&self, group: &GroupName) -> Result<GroupSettings, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.group(group));
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        Ok(group_settings(&fields_of(answer.and_then(Result::ok))))
    }

    /// Returns the groups with invalid settings, each with the names of these settings.
    pub async fn read_spoilt_groups(&self) -> Result<Vec<(GroupName, Vec<&'static str>)>, StoreError> {
        let names: Vec<GroupName> = self.read_groups().await?.into_keys().collect();
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HGETALL").arg(self.keys.group(name));
        }
        let answers = if names.is_empty() { Vec::new() } else { self.link.ask(&mut pipeline).await? };
        let spoilt = names.into_iter().zip(answers).map(|(name, answer)| (name, spoilt_in_group(&fields_of(answer.ok()))));
        Ok(spoilt.filter(|(_, fields)| !fields.is_empty()).collect())
    }
}

impl Section {
    /// Returns the section as text. The list of a file has a field of this name for the section.
    pub fn entry(&self) -> String {
        match self {
            Self::Queue(queue) => format!("queue {queue}"),
            Self::Group(group) => format!("group {group}"),
        }
    }

    fn of_entry(entry: &str) -> Option<Self> {
        match entry.split_once(' ')? {
            ("queue", name) => name.parse().ok().map(Self::Queue),
            ("group", name) => name.parse().ok().map(Self::Group),
            _ => None,
        }
    }
}

fn fields_of(answer: Option<Value>) -> BTreeMap<String, String> {
    let Some(Value::Array(flat)) = answer else { return BTreeMap::new() };
    flat.chunks_exact(2).filter_map(|pair| Some((text_of(&pair[0])?, text_of(&pair[1])?))).collect()
}

/// Parses the fields of a queue. The record names the fields with invalid values.
pub(crate) fn queue_record(fields: &BTreeMap<String, String>) -> QueueRecord {
    let mut spoilt = Vec::new();
    let mut number = |field: &str, most: u32| {
        let text = fields.get(field)?;
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        if number.is_none() {
            spoilt.push(field.to_owned());
        }
        number
    };
    let plain = QueueSettings::default();
    let concurrency = number("concurrency", QueueSettings::MOST_CONCURRENT).unwrap_or(plain.concurrency);
    let limit = number("limit", QueueSettings::MOST_AT_ONCE);
    let (count, per) = (number("rate_count", MOST_RUNS), number("rate_ms", 86_400_000));
    let burst = number("burst", MOST_RUNS);
    let weight = number("weight", QueueSettings::MOST_WEIGHT).map_or(plain.share, Share::Weight);
    if count.is_some() != per.is_some() {
        spoilt.push("rate".to_owned());
    }
    let rate = count.zip(per).and_then(|(count, per)| Rate::new(count, Duration::from_millis(per.into())));
    let text = |field: &str| fields.get(field).cloned().unwrap_or_default();
    let told = |at: &str, by: &str| {
        let at = fields.get(at)?.parse().ok().and_then(UnixMillis::new)?;
        Some((at, text(by)))
    };
    let is_paused = fields.contains_key("paused");
    let paused = is_paused.then(|| told("paused", "paused_by").unwrap_or((UnixMillis::EPOCH, text("paused_by"))));
    QueueRecord {
        settings: QueueSettings {
            concurrency,
            limit,
            rate: rate.map(|rate| burst.map_or(rate, |burst| rate.with_burst(burst))),
            share: if text("strict") == "1" { Share::Strict } else { weight },
            is_paused,
        },
        is_concurrency_by_hand: text("concurrency_by") == "hand" && fields.contains_key("concurrency"),
        paused,
        set: told("set_at", "set_by"),
        spoilt,
    }
}

/// Parses the fields of a group. A group with missing or invalid settings is exclusive, so it never
/// runs two members at once.
fn group_settings(fields: &BTreeMap<String, String>) -> GroupSettings {
    let time = |field: &str, or: Duration| {
        let millis = fields.get(field).and_then(|text| number_of(&Value::BulkString(text.clone().into_bytes())));
        millis.and_then(|millis| u64::try_from(millis).ok()).map_or(or, Duration::from_millis)
    };
    let order = fields.get("order").map(|order| order.split(' ').map(str::parse).collect::<Result<Vec<_>, _>>());
    match (fields.get("mode").map(String::as_str), order) {
        (Some("alternate"), Some(Ok(order))) if (2..=TurnRules::MOST_MEMBERS).contains(&order.len()) => {
            let (gap, turn_timeout) = (time("gap_ms", TurnRules::GAP), time("turn_timeout_ms", TurnRules::TURN_TIMEOUT));
            GroupSettings::Alternate(TurnRules { order, gap, turn_timeout })
        }
        _ => GroupSettings::Exclusive,
    }
}

/// Returns the names of a group's settings with invalid values.
fn spoilt_in_group(fields: &BTreeMap<String, String>) -> Vec<&'static str> {
    const LONGEST: u64 = 86_400_000;
    let mode = fields.get("mode").map(String::as_str);
    let is_time = |field: &str| fields.get(field).is_none_or(|text| text.parse::<u64>().is_ok_and(|millis| millis <= LONGEST));
    let has_turns = matches!(group_settings(fields), GroupSettings::Alternate(_));
    let mut spoilt = Vec::new();
    if !matches!(mode, Some("exclusive" | "alternate")) {
        spoilt.push("mode");
    }
    if mode == Some("alternate") && !has_turns {
        spoilt.push("order");
    }
    spoilt.extend(
        ["gap_ms", "turn_timeout_ms"]
            .into_iter()
            .zip(["gap", "turn_timeout"])
            .filter(|(field, _)| !is_time(field))
            .map(|(_, word)| word),
    );
    spoilt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &SectionText) -> BTreeMap<String, String> {
        let fields = text.fields().into_iter().filter(|(_, value)| !value.is_empty());
        fields.map(|(field, value)| (field.to_owned(), value)).collect()
    }

    #[test]
    fn what_a_section_says_reads_back() {
        let rate = "100/1m".parse::<Rate>().unwrap().with_burst(7);
        let queue = QueueSettings { concurrency: 5, limit: Some(3), rate: Some(rate), share: Share::Weight(4), is_paused: false };
        for queue in [QueueSettings { share: Share::Strict, ..queue.clone() }, queue, QueueSettings::default()] {
            let record = queue_record(&kept(&SectionText::Queue(queue.clone())));
            assert_eq!((record.settings, record.spoilt), (queue, Vec::new()));
        }
        let order = vec!["a".parse().unwrap(), "b".parse().unwrap()];
        let turns = TurnRules { order, gap: Duration::from_secs(5), turn_timeout: Duration::from_millis(1_500) };
        for group in [GroupSettings::Exclusive, GroupSettings::Alternate(turns)] {
            let kept = kept(&SectionText::Group(group.clone()));
            assert_eq!((group_settings(&kept), spoilt_in_group(&kept)), (group, Vec::new()));
        }
    }

    #[test]
    fn what_is_spoilt_of_a_group_is_told() {
        let spoilt = |fields: &[(&str, &str)]| {
            spoilt_in_group(&fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(spoilt(&[("mode", "foo"), ("order", "a b"), ("gap_ms", "abc")]), ["mode", "gap"]);
        assert_eq!(spoilt(&[("mode", "alternate"), ("order", "a"), ("turn_timeout_ms", "-1")]), ["order", "turn_timeout"]);
        assert_eq!(spoilt(&[]), ["mode"]);
    }

    #[test]
    fn what_is_spoilt_counts_as_not_set_and_is_told() {
        let fields = [("limit", "x"), ("rate_count", "5"), ("weight", "0"), ("concurrency", "-1")];
        let record = queue_record(&fields.map(|(field, value)| (field.to_owned(), value.to_owned())).into());
        assert_eq!(record.settings, QueueSettings::default());
        assert_eq!(record.spoilt, ["concurrency", "limit", "weight", "rate"]);
    }

    #[test]
    fn a_pause_is_part_of_the_text() {
        let plain = QueueSettings::default();
        let paused = SectionText::Queue(QueueSettings { is_paused: true, ..plain.clone() });
        assert_ne!(SectionText::Queue(plain).hash(), paused.hash());
    }
}
