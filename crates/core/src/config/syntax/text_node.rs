//! The tree of a configuration text. Each value keeps its place in the text, if the text is a file.
//!
//! This module builds the tree from TOML, and `node_json` builds the tree from JSON. Invariant: a
//! tree is never deeper than [`MAX_DEPTH`]. So a walk through the tree cannot exhaust the stack.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, TextSpan, quoted};
use super::redaction::{Secrecy, as_name};

/// The maximum depth of nested tables and arrays.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value, and the bytes from which the value was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) value: Value<'t>,
    pub(crate) span: Option<TextSpan>,
}

/// The value of a node, by its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'t> {
    Table(Vec<NodeEntry<'t>>),
    Array(Vec<Node<'t>>),
    Text(Cow<'t, str>),
    /// An integer, capped at the ends of `i128`. Larger numbers are outside every bound anyway.
    Integer(i128),
    Float(f64),
    Bool(bool),
    /// An unquoted date of TOML, as RFC 3339 text.
    Datetime(String),
    /// JSON's null, which means the same as an absent key.
    Null,
}

/// A key of a table, with its value. Entries are sorted by key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeEntry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) key_span: Option<TextSpan>,
    pub(crate) node: Node<'t>,
}

impl Node<'_> {
    /// Returns a description of this value for a message: `integer 30`, `string "30"`,
    /// `string (not shown)`, `a table`. `secrecy` decides if the value is shown.
    pub(crate) fn found(&self, secrecy: Secrecy) -> String {
        let kind = self.kind();
        let is_shown = secrecy.is_open();
        match &self.value {
            Value::Text(text) if is_shown || text.trim().is_empty() => {
                format!("{kind} {}", quoted(text))
            }
            Value::Integer(number) if is_shown => format!("{kind} {number}"),
            Value::Float(number) if is_shown => format!("{kind} {number}"),
            Value::Datetime(text) if is_shown => format!("{kind} {text}"),
            Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Datetime(_) => {
                format!("{kind} (not shown)")
            }
            Value::Bool(flag) => format!("{flag}"),
            Value::Table(_) | Value::Array(_) | Value::Null => kind.to_owned(),
        }
    }

    /// Returns this value as a JSON text without spaces, with sorted keys. A date becomes a string.
    pub(crate) fn json_text(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text);
        text
    }

    /// Adds this value to `text`. A tree is never deeper than [`MAX_DEPTH`].
    fn write_json(&self, text: &mut String) {
        let string = |text: &str| serde_json::Value::from(text).to_string();
        match &self.value {
            Value::Table(entries) => {
                text.push('{');
                for (at, entry) in entries.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    text.push_str(&string(&entry.key));
                    text.push(':');
                    entry.node.write_json(text);
                }
                text.push('}');
            }
            Value::Array(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    item.write_json(text);
                }
                text.push(']');
            }
            Value::Text(found) => text.push_str(&string(found)),
            Value::Datetime(found) => text.push_str(&string(found)),
            Value::Integer(number) => text.push_str(&number.to_string()),
            // JSON has no infinity and no NaN. TOML has both.
            Value::Float(number) => text.push_str(&serde_json::Value::from(*number).to_string()),
            Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
            Value::Null => text.push_str("null"),
        }
    }

    fn kind(&self) -> &'static str {
        match &self.value {
            Value::Table(_) => "a table",
            Value::Array(_) => "an array",
            Value::Text(_) => "string",
            Value::Integer(_) => "integer",
            Value::Float(_) => "number",
            Value::Bool(_) => "true or false",
            Value::Datetime(_) => "date",
            Value::Null => "null",
        }
    }
}

/// Builds the tree of a TOML text. Fails with all faults of the text's syntax.
///
/// A key given twice is not a failure, because the tree can still be compiled. The problems of such
/// keys are returned beside the tree.
pub(crate) fn from_toml(text: &str) -> Result<(Node<'_>, Vec<Problem>), Vec<Problem>> {
    // The maximum size in bytes of a text whose faults are all reported. A larger garbled text
    // could have more faults than memory can store, so only the first fault is reported.
    const ALL_FAULTS_UP_TO: usize = 1 << 20;

    let (tree, errors) = match DeTable::parse(text) {
        Ok(tree) => (tree, Vec::new()),
        Err(first) if text.len() > ALL_FAULTS_UP_TO => {
            return Err(vec![syntax_problem(text, &first)]);
        }
        Err(_) => DeTable::parse_recoverable(text),
    };
    let mut duplicates_only = true;
    let mut problems: Vec<Problem> = errors
        .iter()
        .map(|error| {
            duplicates_only &= error.message() == DUPLICATE_KEY;
            syntax_problem(text, error)
        })
        .collect();
    if !duplicates_only {
        return Err(problems);
    }
    let node = from_table(tree.into_inner(), None, 1, &mut problems);
    Ok((node, problems))
}

// Messages of the TOML parser that schedd replaces by its own. If a later parser words a message
// differently, the parser's message is reported unchanged.
const DUPLICATE_KEY: &str = "duplicate key";
const RECURSION: &str = "recurs";

fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let span = error.span();
    let message = match (error.message(), span.clone().and_then(|span| text.get(span))) {
        (DUPLICATE_KEY, Some(key)) => format!(
            "key {} is given twice, wanted once",
            quoted(&as_name(key.trim_matches(['"', '\''])))
        ),
        (message, _) if message.contains(RECURSION) => too_deep(),
        (message, _) => format!("not valid TOML: {}", message.replace(char::is_control, " ")),
    };
    Problem::new("", span, message)
}

fn from_table<'t>(
    table: DeTable<'t>,
    span: Option<TextSpan>,
    depth: usize,
    problems: &mut Vec<Problem>,
) -> Node<'t> {
    let entries = table.into_iter().map(|(key, value)| {
        let key_span = Some(key.span());
        NodeEntry { key: key.into_inner(), key_span, node: from_value(value, depth, problems) }
    });
    Node { value: Value::Table(entries.collect()), span }
}

fn from_value<'t>(
    value: Spanned<DeValue<'t>>,
    depth: usize,
    problems: &mut Vec<Problem>,
) -> Node<'t> {
    let span = Some(value.span());
    let nested = matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
    if nested && depth >= MAX_DEPTH {
        problems.push(Problem::new("", span.clone(), too_deep()));
        return Node { value: Value::Null, span };
    }
    let value = match value.into_inner() {
        DeValue::Table(table) => return from_table(table, span, depth + 1, problems),
        DeValue::Array(array) => Value::Array(
            array.into_iter().map(|item| from_value(item, depth + 1, problems)).collect(),
        ),
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => Value::Integer(integer(number.as_str(), number.radix())),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Bool(flag),
        DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
    };
    Node { value, span }
}

/// Returns the message for a text nested deeper than [`MAX_DEPTH`].
pub(crate) fn too_deep() -> String {
    format!("found values nested deeper than {MAX_DEPTH} levels, wanted at most {MAX_DEPTH} levels")
}

fn integer(digits: &str, radix: u32) -> i128 {
    let end = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(digits, radix).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(text: &str) -> Vec<Problem> {
        from_toml(text).map_or_else(|faults| faults, |(_, beside)| beside)
    }

    #[test]
    fn a_very_long_dotted_key_is_a_problem_and_not_a_crash() {
        for parts in [70, 400, 100_000] {
            let key = vec!["a"; parts].join(".");
            for text in
                [format!("[{key}]\n"), format!("{key} = 1\n"), format!("x = {{ {key} = 1 }}\n")]
            {
                let problems = problems_of(&text);
                assert_eq!(problems[0].message, too_deep(), "{parts}: {problems:?}");
            }
        }
    }

    #[test]
    fn very_deep_nesting_is_a_problem_and_not_a_crash() {
        let key = vec!["a"; 75].join(".");
        for (open, close) in
            [("[".to_owned(), "]"), ("{ a = ".to_owned(), "}"), (format!("{{ {key} = "), "}")]
        {
            for levels in [70, 100_000] {
                let text = format!("a = {}1{}", open.repeat(levels), close.repeat(levels));
                assert!(
                    problems_of(&text).iter().any(|problem| problem.message == too_deep()),
                    "{levels} {:?}",
                    problems_of(&text)
                );
            }
            assert!(!problems_of(&format!("a = {}", open.repeat(100_000))).is_empty());
        }
        let both = format!("[{key}]\n{key} = {{ {key} = 1 }}");
        assert_eq!(problems_of(&both)[0].message, too_deep());
    }

    #[test]
    fn a_number_past_every_range_is_still_a_number() {
        let text = format!("a = {}\nb = -{}", "9".repeat(60), "9".repeat(60));
        match from_toml(&text) {
            Ok((node, _)) => {
                assert!(matches!(&node.value, Value::Table(entries) if entries.len() == 2));
            }
            Err(problems) => assert!(!problems.is_empty()),
        }
    }
}
