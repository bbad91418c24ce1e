//! The settings of queues and groups that files declare, as stored for all nodes.
//!
//! Invariant: each change of a section's text is written once. A copy of the file does not write
//! the same text again, so settings made by hand stay until that section is edited. An unreadable
//! field counts as not set, and the consistency check reports the field.

use std::collections::BTreeMap;

use redis::Value;

use super::section_fields::{
    LATER_FIELDS, QueueRecord, fields_of, group_fields, group_settings, queue_fields, queue_record,
    unreadable_in_group,
};
use crate::Store;
use crate::server::reply::{Reply, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_schedule::names::{GroupName, QueueName};

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

    /// Returns the digest of the settings. Two texts of a section with the same settings have the
    /// same digest.
    pub fn hash(&self) -> String {
        let mut fields = self.fields();
        // Earlier versions had no such settings. Without them, the digest is that of these versions,
        // so an update of schedd does not count as an edit of the section.
        fields.retain(|(field, value)| !LATER_FIELDS.contains(field) || !value.is_empty());
        let mut text: Vec<String> =
            fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        text.push(format!("paused={}", self.is_paused()));
        sha1_smol::Sha1::from(text.join("\n")).digest().to_string()
    }
}

fn declared(reply: &Reply) -> Result<DeclareReply, StoreError> {
    Ok(match reply.word.as_str() {
        "declared" => DeclareReply::Declared,
        "unchanged" => DeclareReply::Unchanged,
        "withdrawn" => DeclareReply::Withdrawn,
        "kept" => DeclareReply::Kept,
        _ => return Err(reply.unknown()),
    })
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
        let call = self.declaration(source, section, text, "say");
        declared(&self.link.invoke(&call).await?)
    }

    /// Records the texts that the file `source` declares for several sections, in one pipeline.
    /// Returns the reply for each section.
    pub async fn declare_sections(
        &self,
        source: &SourceName,
        sections: &[(&Section, &SectionText)],
    ) -> Result<Vec<Result<DeclareReply, StoreError>>, StoreError> {
        let calls: Vec<Invocation> = sections
            .iter()
            .map(|(section, text)| self.declaration(source, section, Some(text), "say"))
            .collect();
        let replies = self.link.invoke_all(&calls).await?;
        Ok(replies.into_iter().map(|reply| declared(&reply?)).collect())
    }

    /// Returns true if declaring this text would change the settings of the section. Another file
    /// may have declared the same text before; the declaration then changes nothing.
    pub async fn would_declare(
        &self,
        source: &SourceName,
        section: &Section,
        text: &SectionText,
    ) -> Result<bool, StoreError> {
        let call = self.declaration(source, section, Some(text), "look");
        Ok(declared(&self.link.invoke(&call).await?)? == DeclareReply::Declared)
    }

    fn declaration(
        &self,
        source: &SourceName,
        section: &Section,
        text: Option<&SectionText>,
        mode: &str,
    ) -> Invocation {
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
        let call = self
            .call(&scripts::DECLARE_SECTION)
            .key("settings", settings)
            .key("declared", self.keys.declared(source))
            .key("index", index)
            .arg("name", name)
            .arg("entry", section.entry())
            .arg("hash", text.map_or_else(String::new, SectionText::hash))
            .arg("source_name", source.as_str())
            .arg("shown", shown)
            .arg("paused", u8::from(text.is_some_and(SectionText::is_paused)))
            .arg("mode", mode);
        let fields = text.map(SectionText::fields).unwrap_or_default();
        fields
            .into_iter()
            .fold(call, |call, (field, value)| call.arg("field", field).arg("value", value))
    }

    /// Returns the digest of each section's text when the file `source` was last applied.
    pub async fn list_declared(
        &self,
        source: &SourceName,
    ) -> Result<BTreeMap<Section, String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.declared(source));
        // A list of the wrong type counts as empty. The consistency check reports the list.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        let Some(Ok(Value::Array(flat))) = answer else { return Ok(BTreeMap::new()) };
        Ok(flat
            .chunks_exact(2)
            .filter_map(|pair| Some((Section::of_entry(&text_of(&pair[0])?)?, text_of(&pair[1])?)))
            .collect())
    }

    /// Returns the digest of each section's text when the file `source` was last applied. The
    /// digest is empty for a section that the file must declare again: its stored settings are gone
    /// or have another digest for this file.
    pub async fn read_declared(
        &self,
        source: &SourceName,
    ) -> Result<BTreeMap<Section, String>, StoreError> {
        let mut declared = self.list_declared(source).await?;
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
    pub async fn read_queue_settings(
        &self,
        queues: &[QueueName],
    ) -> Result<Vec<QueueRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        for queue in queues {
            pipeline.cmd("HGETALL").arg(self.keys.queue(queue));
        }
        Ok(self
            .link
            .ask(&mut pipeline)
            .await?
            .into_iter()
            .map(|answer| queue_record(&fields_of(answer.ok())))
            .collect())
    }

    /// Returns the declared groups with their settings.
    pub async fn read_groups(&self) -> Result<BTreeMap<GroupName, GroupSettings>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HKEYS").arg(self.keys.groups());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok(BTreeMap::new()) };
        let names: Vec<GroupName> =
            names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()).collect();
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HGETALL").arg(self.keys.group(name));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        Ok(names
            .into_iter()
            .zip(answers)
            .map(|(name, answer)| (name, group_settings(&fields_of(answer.ok()))))
            .collect())
    }

    /// Returns the settings of a group. An undeclared group has the default settings.
    pub async fn read_group(&self, group: &GroupName) -> Result<GroupSettings, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.group(group));
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        Ok(group_settings(&fields_of(answer.and_then(Result::ok))))
    }

    /// Returns the groups with invalid settings, each with the names of these settings.
    pub async fn read_unreadable_groups(
        &self,
    ) -> Result<Vec<(GroupName, Vec<&'static str>)>, StoreError> {
        let names: Vec<GroupName> = self.read_groups().await?.into_keys().collect();
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HGETALL").arg(self.keys.group(name));
        }
        let answers =
            if names.is_empty() { Vec::new() } else { self.link.ask(&mut pipeline).await? };
        let unreadable = names
            .into_iter()
            .zip(answers)
            .map(|(name, answer)| (name, unreadable_in_group(&fields_of(answer.ok()))));
        Ok(unreadable.filter(|(_, fields)| !fields.is_empty()).collect())
    }
}

impl Section {
    /// Returns the section as text, such as `queue web`. This text is the field of the section in
    /// the Redis hash of the sections that a file declares.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_part_of_the_text() {
        let plain = QueueSettings::default();
        let paused = SectionText::Queue(QueueSettings { is_paused: true, ..plain.clone() });
        assert_ne!(SectionText::Queue(plain).hash(), paused.hash());
    }
}
