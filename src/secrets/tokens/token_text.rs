//! The text of a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The first characters of each token, by which secret scanners know tokens of schedd.
const PREFIX: &str = "schedd_";
const RANDOM_BYTES: usize = 32;
/// The bytes of the checksum, which lets a mistyped token be refused without a look at the file.
const CHECK_BYTES: usize = 3;

/// The text of a token, which is printed once and never stored.
pub struct TokenText(String);

impl TokenText {
    /// Returns a new random token. Fails if the system gives no random bytes.
    pub fn random() -> anyhow::Result<Self> {
        let mut bytes = [0; RANDOM_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
        let mut all = bytes.to_vec();
        all.extend(&digest(&SHA256, &bytes).as_ref()[..CHECK_BYTES]);
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(all))))
    }

    /// Returns the token that `text` is. Returns `None` if `text` has another form or a wrong
    /// checksum.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let (random, check) = bytes.split_at_checked(RANDOM_BYTES)?;
        let is_right = check == &digest(&SHA256, random).as_ref()[..CHECK_BYTES];
        is_right.then(|| Self(text.to_owned()))
    }

    /// Returns the text, for its user.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the SHA-256 of `text` as lowercase hexadecimal digits.
pub fn sha256(text: &str) -> String {
    use std::fmt::Write as _;
    digest(&SHA256, text.as_bytes()).as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_a_mistyped_one_is_refused() {
        let token = TokenText::random().unwrap();
        assert!(TokenText::parse(token.as_str()).is_some());
        let mut wrong = token.as_str().to_owned();
        let last = wrong.pop().unwrap();
        wrong.push(if last == 'A' { 'B' } else { 'A' });
        for bad in [&wrong, "schedd_", "", "schedd_AAAA", &token.as_str()["schedd_".len()..]] {
            assert!(TokenText::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(
            sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
