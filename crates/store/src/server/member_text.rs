//! The display form of set members, because Redis may have members that are not UTF-8.

use redis::Value;

use super::reply::text_of;
pub(crate) use schedd_core::domain::consistency::member_bytes;

/// Returns the text of a set member, from which its bytes can be restored. Bytes that are not text,
/// and backslashes, are written `\xNN`. Returns None if `value` has no bytes.
pub(crate) fn shown_member(value: &Value) -> Option<String> {
    let Value::BulkString(bytes) = value else { return text_of(value) };
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('\\')
    {
        return Some(text.to_owned());
    }
    let show = |byte: &u8| match byte {
        b' '..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    Some(bytes.iter().map(show).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_member_is_shown_as_text_that_leads_back_to_it() {
        for bytes in
            [&b"a@5"[..], b"", b"\xff\xfe", b"a\\x41", b"\\", b"\\\xff\n", "\u{e9}".as_bytes()]
        {
            let shown = shown_member(&Value::BulkString(bytes.to_vec())).unwrap();
            assert_eq!(member_bytes(&shown), bytes, "{shown}");
        }
        assert_eq!(shown_member(&Value::BulkString(b"a@5".to_vec())).unwrap(), "a@5");
    }
}
