//! The canonical JSON of a definition: its hash, and the fields of a job's record that store the
//! text in pieces.

/// Returns the SHA-1 of the canonical text of a definition, in hexadecimal. The hash serves only to
/// compare definitions and gives no protection against forged texts.
pub fn definition_hash(canonical: &str) -> String {
    sha1_smol::Sha1::from(canonical).digest().to_string()
}

/// The fields of a job's record that may contain a piece of the definition, in order.
/// `add_definition` in `lua/shared/job_records.lua` writes these fields.
pub const DEFINITION_PIECES: [&str; 17] = [
    "def", "def1", "def2", "def3", "def4", "def5", "def6", "def7", "def8", "def9", "def10",
    "def11", "def12", "def13", "def14", "def15", "def16",
];

/// Returns the definition that the fields of a job's record contain. `field` returns the value of a
/// field. Returns `None` if the record has no definition.
pub fn joined_definition<'r>(field: impl Fn(&str) -> Option<&'r str>) -> Option<String> {
    let pieces: Vec<&str> = DEFINITION_PIECES.into_iter().map_while(field).collect();
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
        let joined = |names: [&'static str; 4]| {
            joined_definition(|field| names.into_iter().find(|name| *name == field))
        };
        assert_eq!(joined(["def2", "def", "def1", "def4"]).as_deref(), Some("defdef1def2"));
        assert_eq!(joined(["def1", "def2", "def3", "def4"]), None);
    }
}
