//! The tags of a job, such as `team=db`, and the filters that select jobs by them.

use std::collections::BTreeMap;
use std::str::FromStr;

use schedd_schedule::names::Label;

/// The most tags of a job.
pub const MOST_TAGS: usize = 8;
/// The most characters of a tag's value.
pub const MOST_TAG_CHARS: usize = 64;

/// The tags of a job: names in the form of labels, each with a value.
pub type Tags = BTreeMap<String, String>;

/// Returns true if `value` may be the value of a tag: 1 to 64 characters, none of them a control
/// character.
pub fn is_tag_value(value: &str) -> bool {
    (1..=MOST_TAG_CHARS).contains(&value.chars().count()) && !value.chars().any(char::is_control)
}

/// A filter for jobs: the name of a tag, and its value if only one value is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFilter {
    name: String,
    value: Option<String>,
}

/// The error for a text that is not a filter by a tag. The value is the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tag {0:?} is not valid: wanted NAME or NAME=VALUE, a name of 1 to 63 of the characters a-z 0-9 . _ - and a value of 1 to 64 characters"
)]
pub struct TagFilterError(String);

impl FromStr for TagFilter {
    type Err = TagFilterError;

    fn from_str(text: &str) -> Result<Self, TagFilterError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if name.parse::<Label>().is_ok() && value.is_none_or(is_tag_value) {
            Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
        } else {
            Err(TagFilterError(text.chars().take(160).collect()))
        }
    }
}

impl TagFilter {
    /// Returns true if the tags of a job match all of these filters.
    pub fn all_match(filters: &[Self], tags: &Tags) -> bool {
        filters.iter().all(|filter| {
            let found = tags.get(&filter.name);
            found.is_some_and(|found| filter.value.as_ref().is_none_or(|value| value == found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_selects_by_the_name_or_also_by_the_value() {
        let tags = Tags::from([("team".to_owned(), "db=1".to_owned())]);
        let selects = |texts: &[&str]| {
            let filters: Vec<TagFilter> = texts.iter().map(|text| text.parse().unwrap()).collect();
            TagFilter::all_match(&filters, &tags)
        };
        assert!(selects(&[]) && selects(&["team"]) && selects(&["team", "team=db=1"]));
        assert!(!selects(&["team=db"]) && !selects(&["team", "env"]));
        for bad in ["", "=db", "team=", "Team", "team=a\nb", &format!("team={}", "x".repeat(65))] {
            assert!(bad.parse::<TagFilter>().is_err(), "{bad}");
        }
    }
}
