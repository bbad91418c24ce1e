//! Entries that cannot be understood: moved aside, told of, never run and never deleted.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::polling::RipeEntry;
use super::scripts::{self, Invocation};
use crate::domain::ids::QueueName;

impl Store {
    /// Moves an entry of a queue's due set aside. Whether it was still there.
    pub async fn quarantine_run(&self, queue: &QueueName, entry: &RipeEntry, why: &str) -> Result<bool, StoreError> {
        self.quarantine(&self.keys.due(queue), entry, why).await
    }

    /// Moves an entry of the leases aside. Whether it was still there.
    pub async fn quarantine_lease(&self, entry: &RipeEntry, why: &str) -> Result<bool, StoreError> {
        self.quarantine(&self.keys.leases(), entry, why).await
    }

    async fn quarantine(&self, set: &str, entry: &RipeEntry, why: &str) -> Result<bool, StoreError> {
        let call = Invocation::new(&scripts::QUARANTINE_RUN)
            .key("set", set)
            .key("quarantine", self.keys.quarantine())
            .arg("now", self.now_arg())
            .arg("member", member_bytes(&entry.member))
            .arg("score", &entry.score)
            .arg("why", why);
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "quarantined" => Ok(true),
            "gone" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }
}

/// A member as text that leads back to it: bytes that are no text, and backslashes, are written `\xNN`.
pub(super) fn shown_member(value: &Value) -> Option<String> {
    let Value::BulkString(bytes) = value else { return super::reply::text_of(value) };
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

/// The member [`shown_member`] wrote so.
fn member_bytes(shown: &str) -> Vec<u8> {
    let mut pieces = shown.split("\\x");
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.split_at_checked(2).and_then(|(hex, rest)| Some((u8::from_str_radix(hex, 16).ok()?, rest))) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            None => bytes.extend_from_slice(format!("\\x{piece}").as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_member_is_shown_as_text_that_leads_back_to_it() {
        for bytes in [&b"a@5"[..], b"", b"\xff\xfe", b"a\\x41", b"\\", b"\\\xff\n", "\u{e9}".as_bytes()] {
            let shown = shown_member(&Value::BulkString(bytes.to_vec())).unwrap();
            assert_eq!(member_bytes(&shown), bytes, "{shown}");
        }
        assert_eq!(shown_member(&Value::BulkString(b"a@5".to_vec())).unwrap(), "a@5");
    }
}
