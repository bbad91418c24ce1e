//! The variables and the directory with which a job's process starts.
//!
//! Invariant: no variable of the daemon is inherited. The `SCHEDD_*` variables always have the
//! values that schedd sets, whatever the job sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::account::Account;
use schedd::attempts::Attempt;
use schedd_keeper::Variables;
use schedd_schedule::chain::chain_end::ParentEnd;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Account {
    /// Returns all variables of a process of `attempt`. `own` are the variables of the job itself,
    /// and `result` is the path of the attempt's result file.
    pub(super) fn variables(
        &self,
        attempt: &Attempt,
        own: BTreeMap<String, String>,
        result: Option<&Path>,
    ) -> Variables {
        let due = attempt.run.due();
        let basis = [
            ("PATH", PATH.to_owned()),
            ("HOME", self.home.clone()),
            ("USER", self.user.clone()),
            ("SHELL", self.shell(attempt)),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", attempt.zone.to_string()),
        ];
        // Programs that run as another user expect LOGNAME.
        let login = attempt.process.user.as_ref().map(|_| ("LOGNAME", self.user.clone()));
        // The standard name: https://opentelemetry.io/docs/specs/otel/context/env-carriers/
        let trace = attempt.trace.map(|trace| ("TRACEPARENT", trace.to_string()));
        let facts = [
            ("SCHEDD_JOB", attempt.run.job().to_string()),
            ("SCHEDD_RUN_ID", attempt.run.to_string()),
            ("SCHEDD_DUE", due.to_string()),
            ("SCHEDD_DUE_MS", due.as_i64().to_string()),
            ("SCHEDD_ATTEMPT", attempt.number.to_string()),
            ("SCHEDD_FENCE", attempt.fence.to_string()),
            ("SCHEDD_NODE", attempt.node.to_string()),
        ];
        let result = result.map(|path| ("SCHEDD_RESULT", path.to_string_lossy().into_owned()));
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        Variables(
            basis
                .into_iter()
                .chain(login)
                .chain(trace)
                .map(named)
                .chain(own)
                .chain(attempt.notice_facts.variables.clone())
                .chain(parent_variables(&attempt.parents).into_iter().flatten().map(named))
                .chain(facts.into_iter().chain(result).map(named))
                .collect(),
        )
    }

    /// Returns the value of the variable `SHELL`: the job's shell, or else the login shell of the
    /// user that the job names. Returns `/bin/sh` if the job names no user, or the user cannot log
    /// in.
    fn shell(&self, attempt: &Attempt) -> String {
        let own = self.shell.as_ref().filter(|shell| {
            !shell.is_empty() && !shell.ends_with("/nologin") && !shell.ends_with("/false")
        });
        match (&attempt.process.shell_program, own) {
            (None, Some(own)) => own.clone(),
            _ => attempt.process.shell().into_owned(),
        }
    }

    /// Returns the directory in which a process of `attempt` starts, and an alternative. If the job
    /// names no directory, these are the home directory and `/`, in case the home directory is
    /// missing.
    ///
    /// The process itself finds out whether the directory exists, because a file system may be slow
    /// to answer.
    pub(super) fn directory(&self, attempt: &Attempt) -> (PathBuf, Option<PathBuf>) {
        match &attempt.cwd {
            Some(directory) => (directory.clone(), None),
            None => (PathBuf::from(&self.home), Some(PathBuf::from("/"))),
        }
    }
}

/// Returns the variables with the ends of the parents: as JSON, and as words for a shell. Returns
/// none for a run that no parent started.
fn parent_variables(ends: &[ParentEnd]) -> Option<[(&'static str, String); 2]> {
    let json: serde_json::Value = ends.iter().map(ParentEnd::to_json).collect();
    let variables = [
        ("SCHEDD_PARENTS", json.to_string()),
        ("SCHEDD_PARENT_STATES", ParentEnd::states_of(ends)),
    ];
    Some(variables).filter(|_| !ends.is_empty())
}
