//! The trace that a run belongs to, as W3C Trace Context writes it in `traceparent`
//! (<https://www.w3.org/TR/trace-context/>, version 00).
//!
//! Invariant: neither the trace nor its span is zero, because the standard forbids these ids.

use std::fmt;
use std::str::FromStr;

/// The maximum number of characters of a faulty text that a message shows.
const SHOWN: usize = 80;
/// The flag of a trace whose spans are recorded.
const SAMPLED: u8 = 1;

/// A span of a trace, which is the parent of the spans of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// The example of the standard, for messages.
    pub const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Returns the context of the span `span` in the trace `trace`, whose spans are recorded. An id
    /// of zero becomes 1.
    pub fn recorded(trace: u128, span: u64) -> Self {
        Self { trace: trace.max(1), span: span.max(1), flags: SAMPLED }
    }

    /// Returns the context of another span in the same trace. An id of zero becomes 1.
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        Self { span: span.max(1), ..self }
    }

    /// Returns the id of the trace.
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// Returns the id of the span.
    pub fn span(self) -> u64 {
        self.span
    }

    /// Returns true if the spans of the trace are recorded.
    pub fn is_recorded(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The error for a text that is not a `traceparent` of version 00.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, wanted {wanted} such as {:?}", TraceContext::EXAMPLE)]
pub struct TraceContextError {
    found: String,
    wanted: &'static str,
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        let refuse = |wanted| {
            // A message with a long text would be unreadable.
            let found: String = text.chars().take(SHOWN).collect();
            TraceContextError { found, wanted }
        };
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags] = parts[..] else {
            return Err(refuse("a W3C traceparent of 4 parts (version, trace, span, flags)"));
        };
        if version != "00" {
            return Err(refuse("a W3C traceparent of version 00"));
        }
        let is_hex = |part: &str, length: usize| {
            part.len() == length
                && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return Err(refuse(
                "a W3C traceparent with 32, 16 and 2 lower-case hexadecimal digits",
            ));
        }
        let context = u128::from_str_radix(trace, 16)
            .ok()
            .filter(|trace| *trace != 0)
            .zip(u64::from_str_radix(span, 16).ok().filter(|span| *span != 0));
        let ((trace, span), flags) = context
            .zip(u8::from_str_radix(flags, 16).ok())
            .ok_or_else(|| refuse("a W3C traceparent whose trace and span are not zero,"))?;
        Ok(Self { trace, span, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_unchanged() {
        for text in [
            TraceContext::EXAMPLE,
            "00-00000000000000000000000000000001-0000000000000001-00",
            "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff",
        ] {
            let context: TraceContext = text.parse().unwrap();
            assert_eq!(context.to_string(), text);
            assert_eq!(context.is_recorded(), !text.ends_with("00"));
        }
        let context: TraceContext = TraceContext::EXAMPLE.parse().unwrap();
        assert_eq!(
            context.with_span(0xab).to_string(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ab-01"
        );
    }

    #[test]
    fn every_other_text_is_refused_with_what_was_wanted() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zero = |length| "0".repeat(length);
        let cases = [
            (String::new(), "4 parts"),
            (format!("00-{trace}-{span}"), "4 parts"),
            (format!("00-{trace}-{span}-01-"), "4 parts"),
            (format!("00-{trace}-{span}-01-extra"), "4 parts"),
            (format!("01-{trace}-{span}-01"), "version 00"),
            (format!("ff-{trace}-{span}-01"), "version 00"),
            (format!(" 00-{trace}-{span}-01"), "version 00"),
            (format!("00-{trace}-{span}-1"), "lower-case"),
            (format!("00-{trace}-{span}-01 "), "lower-case"),
            (format!("00-{}-{span}-01", trace.to_uppercase()), "lower-case"),
            (format!("00-{trace}-{}-01", span.to_uppercase()), "lower-case"),
            (format!("00-{trace}-{span}-0A"), "lower-case"),
            (format!("00-+{}-{span}-01", &trace[1..]), "lower-case"),
            (format!("00-{}-{span}-01", &trace[1..]), "lower-case"),
            (format!("00-{}é-{span}-01", &trace[2..]), "lower-case"),
            (format!("00-{}-{span}-01", zero(32)), "not zero"),
            (format!("00-{trace}-{}-01", zero(16)), "not zero"),
        ];
        for (text, wanted) in cases {
            let error = text.parse::<TraceContext>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("found {text:?}, wanted a W3C trace")), "{error}");
            assert!(
                error.contains(wanted)
                    && error.ends_with(&format!("such as {:?}", TraceContext::EXAMPLE)),
                "{error}"
            );
        }
        let long = "7".repeat(1_000).parse::<TraceContext>().unwrap_err().to_string();
        assert!(long.len() < 250, "{long}");
    }
}
