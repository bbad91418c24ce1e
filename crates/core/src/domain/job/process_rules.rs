//! The rules for starting a job's process: its user, limits, umask, input and shell.
//!
//! Invariant: the values are well formed. A host may still lack the user or be unable to enforce a
//! limit. The node checks this when it starts a process.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::action::{Action, DoneCheck};
use super::process_limits::Limits;

/// The rules for starting a job's process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessRules {
    /// The user of the process. `None` means the user of schedd on the node.
    pub user: Option<RunAs>,
    /// The umask of the process. `None` means the umask of the keeper, 0022.
    pub umask: Option<Umask>,
    /// The text on the standard input of the process. `None` means no input (`/dev/null`). The
    /// text has no NUL.
    pub stdin: Option<String>,
    /// The resource limits of the process.
    pub limits: Limits,
    /// The program that runs a `shell` line by `-c`, as an absolute path. `None` means `/bin/sh`.
    pub shell_program: Option<PathBuf>,
}

impl ProcessRules {
    /// Returns the program that runs a `shell` line.
    pub fn shell(&self) -> Cow<'_, str> {
        self.shell_program
            .as_ref()
            .map_or(Cow::Borrowed("/bin/sh"), |program| program.to_string_lossy())
    }
}

/// The parts of a job that start processes. Process rules have an effect only on processes, not on
/// HTTP requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The attempts of the job start processes.
    Work,
    /// The job makes HTTP requests, and only its `done_check` starts a process. That process gets
    /// no input.
    Question,
    /// The job makes HTTP requests, and only its notices start processes. Those processes get no
    /// input and have no resource limits.
    Notice,
    /// No part of the job starts a process.
    Nothing,
}

impl Started {
    /// Returns which parts of a job start processes. `work` is its action, `check` its
    /// `done_check`, and `notices` the actions of its notices.
    pub fn of<'a>(
        work: &Action,
        check: Option<&DoneCheck>,
        notices: impl IntoIterator<Item = &'a Action>,
    ) -> Self {
        if work.starts_process() {
            Self::Work
        } else if check.is_some_and(|check| check.question.starts_process()) {
            Self::Question
        } else if notices.into_iter().any(Action::starts_process) {
            Self::Notice
        } else {
            Self::Nothing
        }
    }

    /// Returns the keys of the process rules that have no effect on a job in which only these parts
    /// start processes.
    pub fn idle_keys(self) -> &'static [&'static str] {
        match self {
            Self::Work => &[],
            Self::Question => &["stdin"],
            Self::Notice => &["limits", "stdin"],
            Self::Nothing => &["user", "limits", "umask", "stdin", "shell_program"],
        }
    }
}

impl ProcessRules {
    /// Returns these rules, with the default in place of each rule that has no effect on the job.
    /// `started` are the parts of the job that start processes.
    #[must_use]
    pub fn obeyed_by(self, started: Started) -> Self {
        match started {
            Started::Work => self,
            Started::Question => Self { stdin: None, ..self },
            Started::Notice => Self { stdin: None, limits: Limits::default(), ..self },
            Started::Nothing => Self::default(),
        }
    }
}

/// The user and the optional group of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    user: String,
    group: Option<String>,
}

/// The error for a text that is not the name of a user or of a user and a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "user {found:?} is not valid: wanted the name of a user, or of a user and a group as in \"backup:adm\""
)]
pub struct RunAsError {
    found: String,
}

/// The maximum length of an account name, in bytes.
const MAX_ACCOUNT_LEN: usize = 256;

/// Returns true if the text can be the name of a user or a group. A number is refused, because a
/// number may have no account and no home directory.
pub fn is_account_name(text: &str) -> bool {
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '/' | ',' | '"');
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    !text.is_empty()
        && text.len() <= MAX_ACCOUNT_LEN
        && !text.starts_with(['-', '+'])
        && !is_number
        && text.chars().all(is_plain)
}

impl RunAs {
    /// Returns the name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the name of the group. `None` means the user's own group.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }
}

impl FromStr for RunAs {
    type Err = RunAsError;

    fn from_str(text: &str) -> Result<Self, RunAsError> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        if is_account_name(user) && group.is_none_or(is_account_name) {
            Ok(Self { user: user.to_owned(), group: group.map(str::to_owned) })
        } else {
            Err(RunAsError { found: text.chars().take(80).collect() })
        }
    }
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            Some(group) => write!(f, "{}:{group}", self.user),
            None => f.write_str(&self.user),
        }
    }
}

/// The umask: the permissions that new files do not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Umask(u16);

/// The error for a text that is not a umask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("umask {found:?} is not valid: wanted 3 or 4 octal digits up to 0777, as in \"0027\"")]
pub struct UmaskError {
    found: String,
}

impl Umask {
    /// Returns the bits of the umask.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl FromStr for Umask {
    type Err = UmaskError;

    fn from_str(text: &str) -> Result<Self, UmaskError> {
        let is_octal =
            matches!(text.len(), 3 | 4) && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let bits = u16::from_str_radix(text, 8).ok().filter(|bits| is_octal && *bits <= 0o777);
        bits.map(Self).ok_or_else(|| UmaskError { found: text.chars().take(40).collect() })
    }
}

impl fmt::Display for Umask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_name_with_an_optional_group() {
        for text in ["backup", "www-data", "backup:adm", "jo.doe@example", "svc$", "_x"] {
            assert_eq!(text.parse::<RunAs>().unwrap().to_string(), text);
        }
        for text in ["", ":", "a:", ":a", "a:b:c", "1000", "a b", "-x", "a/b", "a\nb", "a:7"] {
            assert!(text.parse::<RunAs>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_umask_is_octal_and_reads_back() {
        for (text, shown, bits) in
            [("0027", "0027", 0o27), ("077", "0077", 0o77), ("0777", "0777", 0o777)]
        {
            let umask: Umask = text.parse().unwrap();
            assert_eq!((umask.bits(), umask.to_string()), (bits, shown.to_owned()));
        }
        for text in ["", "27", "0028", "1777", "00027", "+027", "0o27", "u=rwx"] {
            assert!(text.parse::<Umask>().is_err(), "{text}");
        }
    }
}
