//! References to secrets in the texts of a job: `${credential:NAME}`. The node replaces the
//! reference with the secret when it uses the text. `$${` means a literal `${`. `$NAME` and
//! `$(...)` stay as they are.
//!
//! Invariant: Redis and messages contain only the reference, never the secret. An error names a
//! position in the text and never shows the text.

/// The start of a reference to a secret.
const OPEN: &str = "${";
/// The text that stands for a literal `${`.
const LITERAL: &str = "$${";
const CREDENTIAL: &str = "credential:";
/// The maximum length of a credential name, in bytes. Each credential is a file, and this is the
/// maximum length of a file name.
const LONGEST_NAME: usize = 255;

/// The error for a text with an invalid reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text has a `${` without `credential:` after it.
    #[error(
        "the text has ${{ without credential: after it, wanted ${{credential:NAME}} (write $${{ for a literal ${{)"
    )]
    Unknown {
        /// The byte offset at which the faulty reference begins.
        offset: usize,
    },
    /// The text has a `${credential:` without a valid name or without `}`.
    #[error(
        "the text has a malformed reference, wanted ${{credential:NAME}} with 1 to 255 of the characters A-Z a-z 0-9 . _ - as NAME, without . as the first character"
    )]
    Name {
        /// The byte offset at which the faulty reference begins.
        offset: usize,
    },
}

impl ReferenceError {
    /// Returns the byte offset at which the invalid reference begins.
    pub fn offset(&self) -> usize {
        match self {
            Self::Unknown { offset } | Self::Name { offset } => *offset,
        }
    }
}

/// Returns true if `name` can be the name of a credential: a file name without `/` and without a
/// leading `.`.
pub fn is_credential_name(name: &str) -> bool {
    let is_known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.bytes().all(is_known)
}

/// Checks all references in `text`. Fails with the first invalid reference.
pub fn check(text: &str) -> Result<(), ReferenceError> {
    let mut offset = 0;
    for piece in Pieces(text) {
        match piece {
            Piece::Other(_) => return Err(ReferenceError::Unknown { offset }),
            Piece::Faulty(_) => return Err(ReferenceError::Name { offset }),
            Piece::Plain(_) | Piece::Open | Piece::Credential(_) => offset += piece.length(),
        }
    }
    Ok(())
}

/// Returns true if the text contains a reference, a faulty reference or a literal `$${`. [`fill`]
/// leaves any other text as it is.
pub fn is_in(text: &str) -> bool {
    Pieces(text).any(|piece| !matches!(piece, Piece::Plain(_) | Piece::Other(_)))
}

/// Returns true if the whole text is a single reference.
pub fn is_all_of(text: &str) -> bool {
    let mut pieces = Pieces(text);
    matches!((pieces.next(), pieces.next()), (Some(Piece::Credential(_)), None))
}

/// Returns `text` with each reference replaced by the secret that `value_of` returns. A `${`
/// without `credential:` stays, because an old definition may contain it. Fails for an invalid
/// name, or if `value_of` fails.
pub fn fill<E: From<ReferenceError>>(
    text: &str,
    mut value_of: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, E> {
    let (mut filled, mut offset) = (String::with_capacity(text.len()), 0);
    for piece in Pieces(text) {
        match piece {
            Piece::Plain(plain) | Piece::Other(plain) => filled.push_str(plain),
            Piece::Open => filled.push_str(OPEN),
            Piece::Credential(name) => filled.push_str(&value_of(name)?),
            Piece::Faulty(_) => return Err(ReferenceError::Name { offset }.into()),
        }
        offset += piece.length();
    }
    Ok(filled)
}

/// A piece of a text: a reference, the literal `$${`, or the text between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'t> {
    Plain(&'t str),
    /// The literal `$${`.
    Open,
    /// A reference `${credential:NAME}`. The value is the name.
    Credential(&'t str),
    /// A `${` without `credential:` after it.
    Other(&'t str),
    /// The `${` at the start of a `${credential:` without a valid name or without `}`.
    Faulty(&'t str),
}

impl Piece<'_> {
    fn length(self) -> usize {
        match self {
            Self::Plain(text) | Self::Other(text) | Self::Faulty(text) => text.len(),
            Self::Open => LITERAL.len(),
            Self::Credential(name) => OPEN.len() + CREDENTIAL.len() + name.len() + 1,
        }
    }
}

struct Pieces<'t>(&'t str);

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let text = self.0;
        if text.is_empty() {
            return None;
        }
        let piece = match text.find(OPEN) {
            None => Piece::Plain(text),
            Some(0) => reference(text),
            Some(1) if text.starts_with(LITERAL) => Piece::Open,
            // A `$` directly before the `${` is part of the literal `$${`.
            Some(at) => {
                let end = if text.get(..at).is_some_and(|before| before.ends_with('$')) {
                    at - 1
                } else {
                    at
                };
                Piece::Plain(text.get(..end).unwrap_or(text))
            }
        };
        self.0 = text.get(piece.length()..).unwrap_or_default();
        Some(piece)
    }
}

/// Returns the piece that begins at the start of `text`. `text` begins with `${`.
fn reference(text: &str) -> Piece<'_> {
    let open = text.get(..OPEN.len()).unwrap_or(text);
    let Some(name) = text.strip_prefix(OPEN).and_then(|inside| inside.strip_prefix(CREDENTIAL))
    else {
        return Piece::Other(open);
    };
    match name.split_once('}') {
        Some((name, _)) if is_credential_name(name) => Piece::Credential(name),
        _ => Piece::Faulty(open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, ReferenceError> {
        fill(text, |name| Ok(format!("<{name}>")))
    }

    #[test]
    fn references_are_filled_in_and_everything_else_stays() {
        for (text, wanted) in [
            ("", ""),
            ("plain $HOME $(rm -rf /) `x` $", "plain $HOME $(rm -rf /) `x` $"),
            ("${credential:a}", "<a>"),
            ("Bearer ${credential:api.token-1}!", "Bearer <api.token-1>!"),
            ("é${credential:a}é${credential:b}", "é<a>é<b>"),
            ("$${credential:a} $${HOME}", "${credential:a} ${HOME}"),
            ("$$${x}$", "$${x}$"),
            ("{${credential:a}}", "{<a>}"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(wanted), "{text}");
            assert_eq!(check(text), Ok(()), "{text}");
            assert_eq!(is_in(text), text != wanted, "{text}");
        }
        assert!(
            is_all_of("${credential:a}")
                && !is_all_of("x${credential:a}")
                && !is_all_of("$${a}")
                && !is_all_of("")
        );
    }

    #[test]
    fn another_form_is_refused_by_the_check_and_left_by_fill() {
        for (text, offset) in [
            ("${UNSET}", 0),
            ("a ${", 2),
            ("${}", 0),
            ("${credential}", 0),
            ("é${credential:a}${env:X}", 17),
        ] {
            assert_eq!(check(text), Err(ReferenceError::Unknown { offset }), "{text}");
        }
        assert_eq!(filled("${HOME}/x").as_deref(), Ok("${HOME}/x"));
    }

    #[test]
    fn a_credential_with_an_invalid_name_is_refused_and_never_filled_in() {
        let long = format!("${{credential:{}}}", "a".repeat(256));
        for text in [
            "${credential:}",
            "${credential:../x}",
            "${credential:a/b}",
            "${credential:a",
            "${credential:a b}",
            &long,
        ] {
            let wanted = ReferenceError::Name { offset: 0 };
            assert_eq!(
                (check(text), filled(text)),
                (Err(wanted.clone()), Err(wanted.clone())),
                "{text}"
            );
            assert!(!wanted.to_string().contains("a/b"));
        }
    }

    #[test]
    fn the_pieces_of_any_text_are_the_text() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let parts = ["$", "{", "}", "credential:", "a", "é", " ", "${credential:x}"];
            let text: String =
                (0..random.usize(0..9)).map(|_| *random.choice(&parts).unwrap()).collect();
            assert_eq!(Pieces(&text).map(Piece::length).sum::<usize>(), text.len(), "{text}");
            assert_eq!(
                check(&text).is_ok(),
                Pieces(&text).all(|piece| !matches!(piece, Piece::Other(_) | Piece::Faulty(_)))
            );
        }
    }
}
