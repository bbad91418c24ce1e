//! The canonical JSON of a definition: its hash, and the fields of a job's record that store the
//! text in pieces.

use std::collections::BTreeMap;

/// Returns the SHA-1 of the canonical text of a definition, in hexadecimal. The hash serves only to
/// compare definitions and gives no protection against forged texts.
pub fn definition_hash(canonical: &str) -> String {
    sha1_smol::Sha1::from(canonical).digest().to_string()
}

/// Returns the names of the fields that may contain a piece of the definition, in order.
/// `add_definition` in `lua/shared/job_records.lua` writes these fields.
pub fn definition_pieces() -> impl Iterator<Item = String> {
    let numbered = (1..=16).map(|number| format!("def{number}"));
    std::iter::once("def".to_owned()).chain(numbered)
}

/// Returns the definition that the fields of a job's record contain. Returns `None` if the record
/// has no definition.
pub fn joined_definition(fields: &BTreeMap<String, String>) -> Option<String> {
    let pieces: Vec<&str> =
        definition_pieces().map_while(|piece| fields.get(&piece).map(String::as_str)).collect();
    (!pieces.is_empty()).then(|| pieces.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_text() {
        assert_eq!(definition_hash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    #[test]
    fn pieces_are_joined_up_to_the_first_gap() {
        let fields = |names: &[&str]| {
            names.iter().map(|name| ((*name).to_owned(), format!("<{name}>"))).collect()
        };
        let joined = joined_definition(&fields(&["def2", "def", "def1", "def4"]));
        assert_eq!(joined.as_deref(), Some("<def><def1><def2>"));
        assert_eq!(joined_definition(&fields(&["def1"])), None);
    }
}
