//! Where Redis is: a URL checked before anything connects, and how it may be shown.

use redis::{ConnectionInfo, IntoConnectionInfo};

/// A Redis URL that can be connected to.
#[derive(Clone)]
pub struct Address {
    info: ConnectionInfo,
    shown: String,
}

/// A text that is no Redis URL. It never repeats a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Redis URL {shown:?} is not valid: {why}; wanted redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH")]
pub struct AddressError {
    shown: String,
    why: String,
}

impl Address {
    /// The address `url` means. Fails unless it is of one of the forms `redis:`, `rediss:`, `unix:` (or `redis+unix:`).
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let shown = without_password(url);
        let fail = |why: &str| AddressError { shown: shown.clone(), why: why.to_owned() };
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        if !["redis", "rediss", "unix", "redis+unix"].contains(&scheme) {
            return Err(fail(&format!("found scheme {scheme:?}")));
        }
        let info = url.into_connection_info().map_err(|error| fail(error.detail().unwrap_or("it cannot be read")))?;
        // Small commands must not wait for each other's acknowledgement, and a peer that vanished must be noticed.
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true).set_user_timeout(std::time::Duration::from_secs(5));
        Ok(Self { info: info.set_tcp_settings(tcp), shown })
    }

    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// The URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// Debug output is the shown form, so that no log or panic can hold a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.chars().take(200).collect() };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // A unix URL may carry its password as a parameter.
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    format!("{scheme}://{host}{path}").chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in ["redis://u:secret@h:1/0", "redis://:secret@h/", "unix:///p.sock?pass=secret", "rediss://:se@cret@h"] {
            let address = Address::parse(url);
            let text = format!("{address:?}");
            assert!(!text.contains("secret") && !text.contains("cret@"), "{text}");
        }
    }

    #[test]
    fn another_scheme_is_refused_with_what_is_wanted() {
        for url in ["http://h", "", "localhost:6379", "file:///x"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("redis://HOST:PORT/DB"), "{error}");
        }
    }
}
