//! The variables and the directory a job's process starts with.
//!
//! Invariant: nothing is taken over from the daemon's own environment but, where `/etc/passwd` says nothing, HOME and USER; the
//! `SCHEDD_*` variables are always the truth, whatever the job sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Attempt;
use crate::keeper::Variables;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Who the jobs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    user: String,
    home: String,
}

impl Account {
    /// The account of this process, by `/etc/passwd`, else by USER and HOME.
    pub(super) fn of_this_process() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        Self::in_passwd(&passwd, uid).unwrap_or_else(|| Self {
            user: variable("USER").unwrap_or_else(|| uid.to_string()),
            home: variable("HOME").unwrap_or_else(|| "/".to_owned()),
        })
    }

    fn in_passwd(passwd: &str, uid: u32) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.get(2)?.parse::<u32>() == Ok(uid))
                .then(|| Some(Self { user: (*fields.first()?).to_owned(), home: (*fields.get(5)?).to_owned() }))?
        })
    }

    /// All variables of a process of `attempt`, `own` being what it brings itself.
    pub(super) fn variables(&self, attempt: &Attempt, own: BTreeMap<String, String>) -> Variables {
        let due = attempt.run.due();
        let basis = [
            ("PATH", PATH.to_owned()),
            ("HOME", self.home.clone()),
            ("USER", self.user.clone()),
            ("SHELL", attempt.process.shell().into_owned()),
            ("LANG", "C.UTF-8".to_owned()),
        ];
        let facts = [
            ("SCHEDD_JOB", attempt.run.job().to_string()),
            ("SCHEDD_RUN_ID", attempt.run.to_string()),
            ("SCHEDD_DUE", due.to_string()),
            ("SCHEDD_DUE_MS", due.as_i64().to_string()),
            ("SCHEDD_ATTEMPT", attempt.number.to_string()),
            ("SCHEDD_FENCE", attempt.fence.to_string()),
            ("SCHEDD_NODE", attempt.node.to_string()),
        ];
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        Variables(
            basis
                .into_iter()
                .map(named)
                .chain(own)
                .chain(attempt.tidings.variables.clone())
                .chain(facts.into_iter().map(named))
                .collect(),
        )
    }

    /// Where a process of `attempt` starts.
    pub(super) fn directory(&self, attempt: &Attempt) -> PathBuf {
        match &attempt.cwd {
            Some(directory) => directory.clone(),
            None if Path::new(&self.home).is_dir() => PathBuf::from(&self.home),
            None => PathBuf::from("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_line_of_the_uid() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nsvc:x:1001:7::/srv/svc:/bin/false\n";
        let svc = Account { user: "svc".to_owned(), home: "/srv/svc".to_owned() };
        assert_eq!(Account::in_passwd(passwd, 1001), Some(svc));
        assert_eq!(Account::in_passwd(passwd, 5), None);
    }
}
