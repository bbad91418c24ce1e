//! The tables of `docs/json.md`, and the comparison of JSON documents with them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/json.md");

/// The verbs whose documents have times in the zone of the job.
const OF_JOBS: [&str; 11] = [
    "add", "backfill", "explain", "history", "list", "next", "pause", "rerun", "resume", "run",
    "show",
];
/// The fields of these documents that have times in UTC.
const OF_NO_JOB: [&str; 2] = [".definition", ".utc"];

/// A field of a table: its type, and the fields of its objects.
#[derive(Debug, Clone, Default)]
struct Field {
    kind: String,
    inner: Fields,
}

type Fields = BTreeMap<String, Field>;

/// The tables of the page, and what was compared with them so far.
pub(super) struct FieldTables {
    documents: BTreeMap<String, String>,
    objects: BTreeMap<String, Fields>,
    /// The verbs whose documents were compared.
    seen_verbs: RefCell<BTreeSet<String>>,
    /// The objects that were compared: headings, and fields with objects.
    seen_objects: RefCell<BTreeSet<String>>,
}

/// Returns the cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Returns the words between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the anchor of the first link to a heading of the page.
fn linked(text: &str) -> Option<&str> {
    Some(text.split_once("](#")?.1.split_once(')')?.0)
}

/// Returns true for the form of RFC 3339 that the page describes.
fn is_time(text: &str) -> bool {
    let shape: String =
        text.chars().map(|sign| if sign.is_ascii_digit() { '0' } else { sign }).collect();
    let offset = shape.strip_prefix("0000-00-00T00:00:00.000");
    offset.is_some_and(|offset| matches!(offset, "Z" | "+00:00" | "-00:00"))
}

/// Fails if a string that begins as a time does has another form, or if a time is not in the zone
/// of the page. The zone of the jobs is never UTC.
fn check_times(value: &Value, verb: &str, place: &str) {
    match value {
        Value::String(text) => {
            let begins_as_time = text.len() > 10
                && text.as_bytes()[10] == b'T'
                && text.bytes().take(4).all(|sign| sign.is_ascii_digit());
            if !begins_as_time {
                return;
            }
            assert!(is_time(text), "{verb}: {place}: the time {text:?} has another form");
            let is_of_job = verb.split(' ').next().is_some_and(|verb| OF_JOBS.contains(&verb))
                && !OF_NO_JOB.iter().any(|field| place.contains(field));
            assert_eq!(
                text.ends_with('Z'),
                !is_of_job,
                "{verb}: {place}: {text} is in another zone"
            );
        }
        Value::Array(items) => items.iter().for_each(|item| check_times(item, verb, place)),
        Value::Object(fields) => {
            for (name, value) in fields {
                check_times(value, verb, &format!("{place}.{name}"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl FieldTables {
    pub(super) fn read() -> Self {
        let mut documents = BTreeMap::new();
        let mut objects: BTreeMap<String, Fields> = BTreeMap::new();
        let mut heading = String::new();
        for line in PAGE.lines() {
            if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
                heading = title.replace(' ', "-");
            } else if line.starts_with("All fields of ") {
                let base = objects[linked(line).unwrap()].clone();
                objects.insert(heading.clone(), base);
            } else if line.starts_with("| `") {
                let cells = cells(line);
                for name in quoted(cells[0]) {
                    if heading == "Documents" {
                        documents.insert(name.to_owned(), cells[1].to_owned());
                        continue;
                    }
                    let mut fields = objects.entry(heading.clone()).or_default();
                    let mut parts: Vec<&str> = name.split('.').collect();
                    let last = parts.pop().unwrap();
                    for part in parts {
                        fields = &mut fields.get_mut(part.trim_end_matches("[]")).unwrap().inner;
                    }
                    let field = Field { kind: cells[1].to_owned(), inner: Fields::new() };
                    assert!(fields.insert(last.to_owned(), field).is_none(), "{heading}: {name}");
                }
            }
        }
        Self {
            documents,
            objects,
            seen_verbs: RefCell::default(),
            seen_objects: RefCell::default(),
        }
    }

    /// Fails unless the document of `verb` has exactly the fields of its table, with their types.
    #[track_caller]
    pub(super) fn check(&self, verb: &str, document: &Value) {
        let kind = self.documents.get(verb).unwrap_or_else(|| panic!("no row for {verb}"));
        check_times(document, verb, "");
        if let Err(problem) = self.compare(document, kind, &Fields::new(), verb) {
            panic!("docs/json.md differs from `{verb} --json`: {problem}\n{document:#}");
        }
        self.seen_verbs.borrow_mut().insert(verb.to_owned());
    }

    /// Returns the words of the table of documents.
    pub(super) fn verbs(&self) -> impl Iterator<Item = &str> {
        self.documents.keys().map(String::as_str)
    }

    /// Returns the verbs and the objects of the page that the test met in no document.
    pub(super) fn unseen(&self) -> Vec<String> {
        let (verbs, objects) = (self.seen_verbs.borrow(), self.seen_objects.borrow());
        let mut all = Vec::new();
        for (heading, fields) in &self.objects {
            all.push(heading.clone());
            structured(heading, fields, &mut all);
        }
        let missed = self.documents.keys().filter(|verb| !verbs.contains(*verb)).cloned();
        missed.chain(all.into_iter().filter(|name| !objects.contains(name))).collect()
    }

    fn compare(
        &self,
        value: &Value,
        kind: &str,
        inner: &Fields,
        place: &str,
    ) -> Result<(), String> {
        let mut problem = String::new();
        for one in kind.split(" or ") {
            match self.compare_one(value, one, inner, place) {
                Ok(()) => return Ok(()),
                Err(_) if one == "null" => {}
                Err(found) => problem = found,
            }
        }
        Err(problem)
    }

    fn compare_one(
        &self,
        value: &Value,
        kind: &str,
        inner: &Fields,
        place: &str,
    ) -> Result<(), String> {
        if let Some(kind) = kind.strip_prefix("list of ") {
            let items = value.as_array().ok_or_else(|| format!("{place} is no list: {value}"))?;
            return items.iter().try_for_each(|item| self.compare_one(item, kind, inner, place));
        }
        if let Some(heading) = linked(kind) {
            return self.compare_fields(value, &self.objects[heading], heading);
        }
        let fits = match kind {
            "null" => value.is_null(),
            "text" => value.is_string(),
            "time" => value.as_str().is_some_and(is_time),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "any value" => true,
            "object" if inner.is_empty() => value.is_object(),
            "object" | "objects" => return self.compare_fields(value, inner, place),
            other => panic!("{place}: unknown type {other:?}"),
        };
        if fits { Ok(()) } else { Err(format!("{place} is no {kind}: {value}")) }
    }

    fn compare_fields(&self, value: &Value, fields: &Fields, place: &str) -> Result<(), String> {
        let found = value.as_object().ok_or_else(|| format!("{place} is no object: {value}"))?;
        let names: BTreeSet<&String> = found.keys().collect();
        let documented: BTreeSet<&String> = fields.keys().collect();
        if names != documented {
            let undocumented: Vec<_> = names.difference(&documented).collect();
            let missing: Vec<_> = documented.difference(&names).collect();
            return Err(format!("{place}: undocumented {undocumented:?}, missing {missing:?}"));
        }
        self.seen_objects.borrow_mut().insert(place.to_owned());
        fields.iter().try_for_each(|(name, Field { kind, inner })| {
            self.compare(&found[name], kind, inner, &format!("{place}.{name}"))
        })
    }
}

/// Adds the names of the fields that have objects of their own.
fn structured(place: &str, fields: &Fields, names: &mut Vec<String>) {
    for (name, field) in fields.iter().filter(|(_, field)| !field.inner.is_empty()) {
        let place = format!("{place}.{name}");
        structured(&place, &field.inner, names);
        names.push(place);
    }
}
