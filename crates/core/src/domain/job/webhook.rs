//! Secrets that sign the requests of a job, in the form of Standard Webhooks: `whsec_` and a key in
//! base64.
//!
//! Invariant: a key has 24 to 64 bytes. No message and no `Debug` text shows a secret.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::secret_reference;

/// The prefix of the text of every secret.
const PREFIX: &str = "whsec_";
/// The allowed length of a key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The maximum number of secrets that sign the same request. With several secrets, an operator can
/// replace a secret without a break.
pub const MOST_SECRETS: usize = 4;

/// A secret that signs requests, with its text and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret {
    text: String,
    key: Vec<u8>,
}

impl WebhookSecret {
    /// Returns the bytes of the signing key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the text of the secret. The text may be stored, but must never be shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(not shown)")
    }
}

/// The error for a text that is not a signing secret. The message does not show the text, because
/// it may be a misspelt secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value (not shown) is not a signing secret: wanted whsec_ followed by 24 to 64 bytes in base64 (as from echo whsec_$(openssl rand -base64 32)), or ${{credential:NAME}}"
)]
pub struct NotASecret;

impl FromStr for WebhookSecret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let key = STANDARD
            .decode(text.strip_prefix(PREFIX).ok_or(NotASecret)?)
            .map_err(|_| NotASecret)?;
        if KEY_BYTES.contains(&key.len()) {
            Ok(Self { text: text.to_owned(), key })
        } else {
            Err(NotASecret)
        }
    }
}

/// A signing secret in the definition of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningSecret {
    /// The definition contains the secret itself.
    Given(WebhookSecret),
    /// The definition contains a reference to a credential of the node.
    Referred(String),
}

impl SigningSecret {
    /// Returns the text of the secret or of the reference. The text may be stored, but must never
    /// be shown.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Given(secret) => secret.as_str(),
            Self::Referred(reference) => reference,
        }
    }

    /// Returns the text that may be shown: the reference, or a placeholder for the secret.
    pub fn shown(&self) -> &str {
        match self {
            Self::Given(_) => "whsec_***",
            Self::Referred(reference) => reference,
        }
    }
}

impl FromStr for SigningSecret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        if secret_reference::is_all_of(text) {
            Ok(Self::Referred(text.to_owned()))
        } else {
            text.parse().map(Self::Given)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_secret_has_a_long_key_and_is_never_shown() {
        let secret: WebhookSecret = ONE.parse().unwrap();
        assert_eq!((secret.key().len(), secret.as_str()), (24, ONE));
        assert!(!format!("{secret:?}").contains("MfKQ"));
        for bad in [
            "",
            "whsec_",
            &ONE[6..],
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
            "whsec_not base64!",
            &format!("{ONE}="),
        ] {
            let error = bad.parse::<WebhookSecret>().unwrap_err();
            assert!(!error.to_string().contains("MfKQ"), "{error}");
        }
    }

    #[test]
    fn a_reference_is_kept_and_shown_as_it_is() {
        let given: SigningSecret = ONE.parse().unwrap();
        let referred: SigningSecret = "${credential:hook}".parse().unwrap();
        assert_eq!((given.shown(), given.as_str()), ("whsec_***", ONE));
        assert_eq!(
            (referred.shown(), referred.as_str()),
            ("${credential:hook}", "${credential:hook}")
        );
        assert!("whsec_${credential:hook}".parse::<SigningSecret>().is_err());
    }
}
