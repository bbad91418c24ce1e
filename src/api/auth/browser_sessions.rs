//! The browsers that signed in by a link of `schedctl dashboard`. A session is valid only while the
//! token of its link is valid, so revoking the token ends the session at its next request. A session
//! also ends with this process, and no other node knows it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};

use crate::secrets::tokens::{TokenText, sha256};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time after which a browser must sign in again.
pub(super) const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions. The oldest session makes room for a new session.
const MOST_SESSIONS: usize = 1_000;
/// The names of the cookie: over TLS, and over plain HTTP on the loopback interface.
pub(super) const COOKIES: [&str; 2] = ["__Host-schedd", "schedd_session"];

/// The signed-in browsers.
#[derive(Debug, Default)]
pub(in crate::api) struct BrowserSessions {
    table: Mutex<SessionTable>,
}

/// The sessions by the SHA-256 of their cookies: the SHA-256 of the token, and the end of the session.
type SessionTable = HashMap<String, (String, UnixMillis)>;

impl BrowserSessions {
    /// Begins a session for the token with this hash. Returns the text of its cookie.
    pub(super) fn begin(&self, token: &str, now: UnixMillis) -> anyhow::Result<String> {
        let cookie = TokenText::random()?.as_str().to_owned();
        let mut table = self.table();
        table.retain(|_, (_, end)| *end > now);
        if table.len() >= MOST_SESSIONS {
            let oldest = table.iter().min_by_key(|(_, (_, end))| *end);
            if let Some(oldest) = oldest.map(|(hash, _)| hash.clone()) {
                table.remove(&oldest);
            }
        }
        let end = now.saturating_add(SESSION_LIFE);
        table.insert(sha256(&cookie), (token.to_owned(), end));
        Ok(cookie)
    }

    /// Returns the SHA-256 of the token to whose session `cookie` belongs.
    pub(super) fn token_of(&self, cookie: &str, now: UnixMillis) -> Option<String> {
        let table = self.table();
        let (token, end) = table.get(&sha256(cookie))?;
        (*end > now).then(|| token.clone())
    }

    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the cookie of a session in the headers of a request.
pub(super) fn cookie_of(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs =
        all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| COOKIES.contains(name)).map(|(_, value)| value.to_owned())
}
