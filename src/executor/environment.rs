//! The variables and the directory a job's process starts with.
//!
//! Invariant: nothing is taken over from the daemon's own environment; the `SCHEDD_*` variables are always the truth, whatever
//! the job sets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Attempt;
use super::account::Account;
use crate::keeper::Variables;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Account {
    /// All variables of a process of `attempt`, `own` being what it brings itself.
    pub(super) fn variables(&self, attempt: &Attempt, own: BTreeMap<String, String>) -> Variables {
        let due = attempt.run.due();
        let basis = [
            ("PATH", PATH.to_owned()),
            ("HOME", self.home.clone()),
            ("USER", self.user.clone()),
            ("SHELL", self.shell(attempt)),
            ("LANG", "C.UTF-8".to_owned()),
        ];
        // Who runs as another user looks for it.
        let login = attempt.process.user.as_ref().map(|_| ("LOGNAME", self.user.clone()));
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
                .chain(login)
                .map(named)
                .chain(own)
                .chain(attempt.tidings.variables.clone())
                .chain(facts.into_iter().map(named))
                .collect(),
        )
    }

    /// What `SHELL` says: that of the job, else the one another user logs in with, if one can.
    fn shell(&self, attempt: &Attempt) -> String {
        let own =
            self.shell.as_ref().filter(|shell| !shell.is_empty() && !shell.ends_with("/nologin") && !shell.ends_with("/false"));
        match (&attempt.process.shell_program, own) {
            (None, Some(own)) => own.clone(),
            _ => attempt.process.shell().into_owned(),
        }
    }

    /// Where a process of `attempt` starts, and where if that is not there: an account need not have a home. Whether it is there
    /// the process finds out, for a file system may take its time to say.
    pub(super) fn directory(&self, attempt: &Attempt) -> (PathBuf, Option<PathBuf>) {
        match &attempt.cwd {
            Some(directory) => (directory.clone(), None),
            None => (PathBuf::from(&self.home), Some(PathBuf::from("/"))),
        }
    }
}
