//! The parser of a JSON text or value into the tree that the compilers of jobs read.
//!
//! Unlike `serde_json::Value` the parser refuses a key that a table has twice, because it is
//! unknown which value the user wants.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use crate::config::syntax::problem::quoted;
use crate::config::syntax::redaction::as_name;
use crate::config::syntax::text_node::{MAX_DEPTH, Node, NodeEntry, Value, too_deep};

/// Builds the tree that the compilers of jobs read, from a JSON text. The error names the fault in
/// one line.
pub(crate) fn from_text(text: &str) -> Result<Node<'static>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = Level(0).deserialize(&mut deserializer).map_err(|error| json_fault(&error))?;
    deserializer.end().map_err(|error| json_fault(&error))?;
    Ok(node)
}

/// Returns the message for a JSON text that cannot be read, in one line without words of the parser.
pub fn json_fault(error: &serde_json::Error) -> String {
    let place = format!("at line {} column {}", error.line(), error.column());
    match error.classify() {
        Category::Eof => format!("found JSON that ends too early {place}, wanted a complete value"),
        Category::Syntax | Category::Io => {
            format!("found text that is not JSON {place}, wanted one JSON object")
        }
        // The message is that of the visitor below. It names the key, so its place says no more.
        Category::Data => {
            let message = error.to_string();
            message.strip_suffix(&format!(" {place}")).map_or(message.clone(), str::to_owned)
        }
    }
}

/// Builds the tree that the compilers of jobs read, from a JSON value. The error names the fault in
/// one line.
pub(crate) fn from_value(value: &serde_json::Value) -> Result<Node<'static>, String> {
    Level(0).deserialize(value).map_err(|error| error.to_string())
}

/// The depth of the value that is being read, as the number of tables and lists around it.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.0 < MAX_DEPTH { Ok(Self(self.0 + 1)) } else { Err(E::custom(too_deep())) }
    }
}

fn bare(value: Value<'static>) -> Node<'static> {
    Node { value, span: None }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Node<'static>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Node<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(bare(Value::Null))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(bare(Value::Bool(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(bare(Value::Integer(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(bare(Value::Integer(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(bare(Value::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(bare(Value::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let level = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(level)? {
            array.push(item);
        }
        Ok(bare(Value::Array(array)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Self::Value, A::Error> {
        let level = self.deeper()?;
        let mut entries: Vec<NodeEntry<'static>> = Vec::new();
        while let Some(key) = keys.next_key::<String>()? {
            let node = keys.next_value_seed(level)?;
            entries.push(NodeEntry { key: Cow::Owned(key), key_span: None, node });
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        let twice = entries.iter().zip(entries.iter().skip(1)).find(|(a, b)| a.key == b.key);
        match twice {
            Some((entry, _)) => Err(A::Error::custom(format!(
                "key {} is given twice, wanted once",
                quoted(&as_name(&entry.key))
            ))),
            None => Ok(bare(Value::Table(entries))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn sixty_four_levels_are_taken_and_one_more_is_not() {
        assert!(from_text(&nested(64)).is_ok());
        for deep in [65, 10_000] {
            assert!(from_text(&nested(deep)).unwrap_err().contains("deeper than 64"), "{deep}");
        }
    }

    #[test]
    fn a_key_given_twice_is_refused_at_any_depth() {
        for text in [r#"{"a": 1, "a": 2}"#, r#"{"b": [{"a": 1, "c": 0, "a": 2}]}"#] {
            assert_eq!(from_text(text).unwrap_err(), r#"key "a" is given twice, wanted once"#);
        }
    }

    #[test]
    fn a_text_and_its_value_make_the_same_tree() {
        let text = r#"{"b": [1, -2, 1.5, true, null, "x"], "a": {"c": 18446744073709551615}}"#;
        assert_eq!(
            from_text(text).unwrap(),
            from_value(&serde_json::from_str(text).unwrap()).unwrap()
        );
    }
}
