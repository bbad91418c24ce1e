//! One entry of the file of tokens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use schedd_schedule::time::unix_millis::UnixMillis;

/// The rights of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenRole {
    /// Claims runs of its queues, and does nothing else.
    Worker,
    /// Reads everything but the values of secrets.
    Viewer,
    /// Also runs, stops and pauses what is defined.
    Operator,
    /// Also defines and changes jobs, if `[api] define` is on.
    Admin,
}

impl TokenRole {
    /// Returns the word for the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns true if this role may do what `needed` may do.
    pub const fn includes(self, needed: Self) -> bool {
        match needed {
            Self::Worker => matches!(self, Self::Worker | Self::Admin),
            Self::Viewer => !matches!(self, Self::Worker),
            Self::Operator => matches!(self, Self::Operator | Self::Admin),
            Self::Admin => matches!(self, Self::Admin),
        }
    }
}

impl fmt::Display for TokenRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenRole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Viewer, Self::Operator, Self::Admin, Self::Worker]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| format!("found role {text:?}, wanted viewer, operator, admin or worker"))
    }
}

/// One token, as the file has it. Times are in ms since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The name by which the token is listed, revoked, and recorded with each change.
    pub name: String,
    /// The rights of the token.
    pub role: TokenRole,
    /// The SHA-256 of the token.
    pub sha256: String,
    /// The time at which the token was made.
    pub created_ms: i64,
    /// The end of the token. `None` for a token that does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// The queues of a worker; empty for all queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The SHA-256 of the code of a link that signs a browser in once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_sha256: Option<String>,
    /// The end of that link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_expires_ms: Option<i64>,
}

impl TokenEntry {
    /// Returns true if the token ended before `now`.
    pub fn is_expired(&self, now: UnixMillis) -> bool {
        self.expires_ms.is_some_and(|end| end <= now.as_i64())
    }

    /// Returns true if the link of this entry has ended, or if the entry has no link.
    pub fn is_link_expired(&self, now: UnixMillis) -> bool {
        self.link_expires_ms.is_none_or(|end| end <= now.as_i64())
    }
}

#[cfg(test)]
mod tests {
    use super::TokenRole::{Admin, Operator, Viewer, Worker};

    #[test]
    fn each_role_includes_the_roles_below_it_and_only_admin_is_also_a_worker() {
        for (role, includes) in [
            (Worker, [true, false, false, false]),
            (Viewer, [false, true, false, false]),
            (Operator, [false, true, true, false]),
            (Admin, [true, true, true, true]),
        ] {
            assert_eq!(
                [Worker, Viewer, Operator, Admin].map(|needed| role.includes(needed)),
                includes,
                "{role}"
            );
            assert_eq!(role.as_str().parse(), Ok(role));
        }
    }
}
