//! Replies of Redis, read item by item: first the status word of a script, then texts and numbers.

use std::borrow::Cow;

use redis::Value;

use super::scripts::Script;
use super::store_error::StoreError;
use schedd_schedule::names::Fence;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The reply of a script: its status word, then items that are read in order.
#[derive(Debug)]
pub(crate) struct Reply {
    script: &'static str,
    pub(crate) word: String,
    items: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(crate) fn read(script: &'static Script, value: Value) -> Result<Self, StoreError> {
        let mut reply = Self::nested(script.name, value)?;
        if reply.word == "wrong_type" {
            return Err(StoreError::WrongType {
                key: reply.text()?,
                found: reply.text()?,
                wanted: reply.text()?,
            });
        }
        Ok(reply)
    }

    fn nested(script: &'static str, value: Value) -> Result<Self, StoreError> {
        let Value::Array(items) = value else {
            return Err(corrupt_reply(script, format!("found {value:?}, wanted an array")));
        };
        let mut reply = Self { script, word: String::new(), items: items.into_iter() };
        reply.word = reply.text()?;
        Ok(reply)
    }

    /// Reads the next item as a nested reply, which begins with a status word like any reply.
    pub(crate) fn reply(&mut self) -> Result<Self, StoreError> {
        let value = self.value()?;
        Self::nested(self.script, value)
    }

    /// Reads the next item as a raw value.
    pub(crate) fn value(&mut self) -> Result<Value, StoreError> {
        self.items.next().ok_or_else(|| {
            corrupt_reply(self.script, format!("the reply {:?} is too short", self.word))
        })
    }

    /// Reads the next item as text.
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let value = self.value()?;
        text_of(&value)
            .ok_or_else(|| corrupt_reply(self.script, format!("found {value:?}, wanted a text")))
    }

    /// Reads the next item as a whole number, which Redis sent as an integer or as text.
    pub(crate) fn number(&mut self) -> Result<i64, StoreError> {
        let value = self.value()?;
        number_of(&value)
            .ok_or_else(|| corrupt_reply(self.script, format!("found {value:?}, wanted a number")))
    }

    /// Reads the next item as a Unix time in ms.
    pub(crate) fn instant(&mut self) -> Result<UnixMillis, StoreError> {
        let millis = self.number()?;
        UnixMillis::new(millis).ok_or_else(|| {
            corrupt_reply(self.script, format!("found {millis}, wanted a Unix time in ms"))
        })
    }

    /// Reads the next item as a count.
    pub(crate) fn count(&mut self) -> Result<u32, StoreError> {
        let number = self.number()?;
        u32::try_from(number)
            .map_err(|_| corrupt_reply(self.script, format!("found {number}, wanted a count")))
    }

    /// Reads the next item as a fence.
    pub(crate) fn fence(&mut self) -> Result<Fence, StoreError> {
        let number = self.number()?;
        u64::try_from(number).ok().and_then(Fence::new).ok_or_else(|| {
            let wanted = Fence::MAX;
            corrupt_reply(
                self.script,
                format!("found fence {number}, wanted a number from 0 to {wanted}"),
            )
        })
    }

    /// Returns the number of items not read yet.
    pub(crate) fn left(&self) -> usize {
        self.items.len()
    }

    /// Returns the error for a status word that the caller does not know.
    pub(crate) fn unknown(&self) -> StoreError {
        corrupt_reply(self.script, format!("the reply {:?} is unknown", self.word))
    }
}

/// Returns the error for an unexpected reply of the script `script`. `found` describes the reply.
fn corrupt_reply(script: &str, found: String) -> StoreError {
    StoreError::corrupt(format!("reply of script {script}"), found)
}

/// Returns the text of a Redis value; None for any other kind of value.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    str_of(value).map(Cow::into_owned)
}

/// Returns the text of a Redis value like [`text_of`], without a copy if the value is a text.
pub(crate) fn str_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes)),
        Value::SimpleString(text) => Some(Cow::Borrowed(text)),
        Value::Int(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// Returns the whole number in a Redis value: an integer, a float, or text such as a score. Returns
/// None for any other value.
pub(crate) fn number_of(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Double(number) => score_number(*number),
        other => {
            let text = str_of(other)?;
            text.parse().ok().or_else(|| score_number(text.parse().ok()?))
        }
    }
}

/// Returns a score as a whole number; None unless the score is within 2^53 of zero.
#[expect(clippy::cast_possible_truncation, reason = "within 2^53 a score is exact as an integer")]
fn score_number(score: f64) -> Option<i64> {
    (score.abs() < 9_007_199_254_740_992.0).then_some(score as i64)
}

/// Returns the time in an answer to the command `TIME`.
pub(crate) fn time_of_answer(answer: Option<&Value>) -> Result<UnixMillis, StoreError> {
    let parts: Option<Vec<i64>> = match answer {
        Some(Value::Array(parts)) => parts.iter().map(number_of).collect(),
        _ => None,
    };
    let millis = match parts.as_deref() {
        Some([seconds, micros]) => {
            seconds.checked_mul(1000).and_then(|ms| ms.checked_add(micros / 1000))
        }
        _ => None,
    };
    millis.and_then(UnixMillis::new).ok_or_else(|| {
        let found = format!("found {answer:?}, wanted a time before the year 2100");
        StoreError::corrupt("reply to the command TIME", found)
    })
}
