//! The address of Redis: a URL that is checked before any connection, and the form of the URL
//! without secrets.
//!
//! Invariant: an address leads to one server for the life of a process. Each connection reads the
//! URL again from its source, but takes only the user and password from the URL. A node that moved
//! to another server would leave its jobs and runs behind.

use std::sync::Arc;

use redis::{ConnectionInfo, IntoConnectionInfo};

use schedd_core::domain::name::redis_url_text;

/// The address of Redis, as a URL that was checked.
#[derive(Clone)]
pub struct Address {
    info: ConnectionInfo,
    shown: String,
    /// The function that reads the URL again before each connection; None if the URL never changes.
    reread: Option<Reread>,
    eviction: Eviction,
}

/// A function that reads a URL from its source. It returns None if the URL cannot be read.
pub type Reread = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The rule for a server that evicts keys when its memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eviction {
    /// A server that evicts keys is refused.
    #[default]
    Refused,
    /// A server that evicts keys is used, with a warning.
    Allowed,
}

/// An invalid Redis URL. The error never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis URL {shown}is not valid: {why}; wanted redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH"
)]
pub struct AddressError {
    shown: String,
    why: String,
}

impl Address {
    /// Parses `url`. Fails unless its scheme is `redis:`, `rediss:`, `unix:` or `redis+unix:`.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let shown = without_password(url);
        let fail = |why: &str| AddressError {
            shown: format!("{:?} ", as_far_as_a_place(&shown)),
            why: why.to_owned(),
        };
        let Some((scheme, _)) = url.split_once("://") else {
            // The whole text may be a password that somebody stored in place of the URL.
            return Err(AddressError {
                shown: String::new(),
                why: "the URL has no \"://\"".to_owned(),
            });
        };
        if !["redis", "rediss", "unix", "redis+unix"].contains(&scheme) {
            return Err(fail(&format!("the scheme {scheme:?} is unknown")));
        }
        // The URL is printed, and a control character could change the terminal.
        if url.contains(char::is_control) {
            return Err(fail("the URL has a control character"));
        }
        if let Some(why) = redis_url_text::fault_of(url) {
            return Err(fail(why));
        }
        let info = url
            .into_connection_info()
            .map_err(|error| fail(error.detail().unwrap_or("the URL cannot be parsed")))?;
        // TCP_NODELAY sends small commands at once. The user timeout detects a peer that vanished.
        let tcp = redis::io::tcp::TcpSettings::default()
            .set_nodelay(true)
            .set_user_timeout(std::time::Duration::from_secs(5));
        Ok(Self {
            info: info.set_tcp_settings(tcp),
            shown,
            reread: None,
            eviction: Eviction::Refused,
        })
    }

    /// Returns the same address with a function that reads the URL again before each connection.
    /// Only the user and password of that URL are used. The function runs on a thread that may
    /// block.
    #[must_use]
    pub fn read_anew_by(self, reread: Reread) -> Self {
        Self { reread: Some(reread), ..self }
    }

    /// Returns the same address with this rule for servers that evict keys.
    #[must_use]
    pub fn with_eviction(self, eviction: Eviction) -> Self {
        Self { eviction, ..self }
    }

    pub(crate) fn eviction(&self) -> Eviction {
        self.eviction
    }

    /// Returns the connection settings of the URL that was parsed first.
    pub(crate) fn given(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns the connection settings with the user and password that the URL has now. If the URL
    /// cannot be read or names another server, returns the settings of the first URL: a file with
    /// the URL may be half written.
    pub(crate) async fn info(&self) -> ConnectionInfo {
        let Some(reread) = self.reread.clone() else { return self.info.clone() };
        let text =
            tokio::task::spawn_blocking(move || reread()).await.ok().flatten().unwrap_or_default();
        let kept = Self::parse(text.trim()).map(|kept| kept.info).ok();
        let leads_here = |kept: &ConnectionInfo| {
            kept.addr() == self.info.addr()
                && kept.redis_settings().db() == self.info.redis_settings().db()
        };
        kept.filter(leads_here).unwrap_or_else(|| self.info.clone())
    }

    /// Returns the URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// Prints the URL without its password, so that no log or panic contains a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Returns the URL without any part that may belong to a password. A password may contain the
/// separators of a URL.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    // A unix URL may carry its password as a parameter. The other forms have it before the last
    // `@`.
    let (before, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let place = if scheme.ends_with("unix") {
        before
    } else if parameters.contains('@') {
        "..."
    } else {
        before.rsplit_once('@').map_or(before, |(_, place)| place)
    };
    format!("{scheme}://{place}").chars().take(200).collect()
}

/// Returns the part of an invalid URL that looks like a host or path. The rest of the URL, such as
/// a second line, may contain a password.
fn as_far_as_a_place(shown: &str) -> &str {
    let place = shown.find("://").map_or(0, |at| at + 3);
    let ends = |c: char| c.is_control() || c.is_whitespace() || c == ':';
    let end =
        shown.get(place..).and_then(|rest| rest.find(ends)).map_or(shown.len(), |at| place + at);
    shown.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "redis://u:secret@h:1/0",
            "redis://:secret@h/",
            "unix:///p.sock?pass=secret",
            "rediss://:se@cret@h",
        ] {
            let address = Address::parse(url);
            let text = format!("{address:?}");
            assert!(!text.contains("secret") && !text.contains("cret@"), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_may_be_a_password_and_is_not_shown_either() {
        for text in [
            "secret",
            "secret:secret",
            "redis://:secret/secret@h",
            "redis://:secret?secret@h",
            "http://:secret/a@secret@h/",
            "redis://h:1/0\nsecret",
            "redis://:secret",
            "redis://h:1/0 secret",
            "redis://u:x@h:1/0\rredis://:secret@h/",
        ] {
            let message = Address::parse(text)
                .map_or_else(|error| error.to_string(), |address| address.shown().to_owned());
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[tokio::test]
    async fn of_a_file_the_password_is_read_again_and_another_server_is_not_followed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let reread: Reread = Arc::new(move || std::fs::read_to_string(&path).ok());
        let address = Address::parse("redis://:old@h:1/2").unwrap().read_anew_by(reread);
        let password = async |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            address.info().await.redis_settings().password().map(str::to_owned)
        };
        assert_eq!(password("redis://u:new@h:1/2\n").await.as_deref(), Some("new"));
        for other in ["", "redis://:new@other:1/2", "redis://:new@h:1/3", "no address"] {
            assert_eq!(password(other).await.as_deref(), Some("old"), "{other:?}");
        }
    }

    #[test]
    fn another_scheme_or_a_control_character_is_refused_with_what_is_wanted() {
        for url in ["http://h", "", "localhost:6379", "file:///x", "unix:/\u{1b}/run/redis.sock"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("redis://HOST:PORT/DB"), "{error}");
        }
    }
}
