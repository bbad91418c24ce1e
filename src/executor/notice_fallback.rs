//! The fallbacks of a notice whose user, directory, variables or secrets cannot be used. The notice
//! is delivered without the missing part and names that part.
//!
//! Without fallbacks, a missing directory or file of variables would make the run fail and also
//! suppress the notice about that failure.
//!
//! Invariant: only notices have fallbacks, and a job's own attempt has none. A notice of another
//! user never runs as root instead. A request that must be signed is never sent unsigned.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::account::MayRunAs;
use schedd::attempts::Attempt;
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_keeper::Wanting;

/// The variable, and the field of a JSON body, that name the parts that a notice lacks.
const VARIABLE: &str = "SCHEDD_ABOUT_WITHOUT";
const FIELD: &str = "without";
/// The directory used by a notice whose own directory cannot be used.
const DIRECTORY: &str = "/";

/// An attempt, and the reason for each part that it must do without. Only an attempt that delivers
/// a notice can do without its user, directory, shell or variables.
pub(super) struct NoticeFallback<'a> {
    attempt: Cow<'a, Attempt>,
    may_go_without: bool,
    /// For each missing part, the reason why that part could not be used.
    without: Vec<String>,
}

impl<'a> NoticeFallback<'a> {
    /// Creates the fallback of `attempt`, which still has all its parts.
    pub(super) fn of(attempt: &'a Attempt) -> Self {
        Self {
            attempt: Cow::Borrowed(attempt),
            may_go_without: is_notice(attempt),
            without: Vec::new(),
        }
    }

    /// Returns the attempt without the parts that were removed so far. Its variables name these
    /// parts.
    pub(super) fn attempt(&mut self) -> &Attempt {
        if !self.without.is_empty() {
            let missing = self.without.join("; ").replace('\0', "\u{fffd}");
            self.attempt.to_mut().notice_facts.variables.insert(VARIABLE.to_owned(), missing);
        }
        &self.attempt
    }

    /// Notes `faults`, the reasons why some variables of a notice are missing. If the notice has a
    /// user, also removes the variables `LD_*` from `own`, because they are not allowed with a
    /// user.
    ///
    /// For an attempt that delivers no notice, returns the first of `faults` as the error.
    pub(super) fn without_variables(
        &mut self,
        own: &mut BTreeMap<String, String>,
        faults: Vec<String>,
    ) -> Result<(), String> {
        if !self.may_go_without {
            return faults.into_iter().next().map_or(Ok(()), Err);
        }
        self.without.extend(faults);
        if self.attempt.process.user.is_some() {
            own.retain(|name, _| {
                let is_refused = name.starts_with("LD_");
                if is_refused {
                    self.without.push(format!("env {name} is not allowed together with user"));
                }
                !is_refused
            });
        }
        Ok(())
    }

    /// Removes the user from the attempt, because that user cannot be used for the reason `why`.
    /// The attempt then runs as the user of this process.
    ///
    /// Returns an error if the attempt delivers no notice, or if this process is root.
    pub(super) fn without_user(
        &mut self,
        why: String,
        may_run_as: &MayRunAs,
    ) -> Result<(), String> {
        if !self.may_go_without {
            return Err(why);
        }
        if may_run_as.is_root() {
            return Err(format!("{why}; the notice does not run as root instead"));
        }
        self.without.push(why);
        self.attempt.to_mut().process.user = None;
        Ok(())
    }

    /// Replaces the part of a notice that `wanting` names by a default, and returns true: the
    /// attempt must be started again. `outcome` has the reason why the part could not be used.
    /// Returns false if there is no default, or the attempt delivers no notice.
    pub(super) fn start_without(
        &mut self,
        wanting: Option<Wanting>,
        outcome: &AttemptOutcome,
    ) -> bool {
        let Some(wanting) = wanting.filter(|_| self.may_go_without) else { return false };
        match wanting {
            Wanting::Directory if self.attempt.cwd.as_deref() != Some(Path::new(DIRECTORY)) => {
                self.attempt.to_mut().cwd = Some(PathBuf::from(DIRECTORY));
            }
            Wanting::Program
                if matches!(self.attempt.action, Action::Shell(_))
                    && self.attempt.process.shell_program.is_some() =>
            {
                self.attempt.to_mut().process.shell_program = None;
            }
            Wanting::Directory | Wanting::Program => return false,
        }
        let why = outcome.error.as_deref().unwrap_or("cannot start");
        self.without.push(why.strip_prefix("cannot start: ").unwrap_or(why).to_owned());
        true
    }

    /// Returns `outcome`, with a note of the parts that the attempt lacked.
    pub(super) fn note_in(self, mut outcome: AttemptOutcome) -> AttemptOutcome {
        if !self.without.is_empty() {
            let without = self.without.join("; ");
            warn!(without, "The notice ran without some settings of its job.");
            if outcome.ending == Ending::Succeeded && outcome.error.is_none() {
                outcome.error =
                    Some(format!("the notice ran without some settings of its job: {without}"));
            }
        }
        outcome
    }
}

/// Checks that a notice may be signed by the `count` secrets that can be read; at least one is
/// needed. `faults` are the reasons why other secrets cannot be read. If `body` is the notice's own
/// payload, the faults are added to `body`.
///
/// The error is the reason why the request is not sent. A request that delivers no notice always
/// gets an error.
pub(super) fn sign_by_the_others(
    attempt: &Attempt,
    body: &mut String,
    count: usize,
    faults: &[String],
) -> Result<(), String> {
    let without = faults.join("; ");
    if !is_notice(attempt) {
        return Err(without);
    }
    if count == 0 {
        return Err(format!("{without}; a notice with a signing secret is not sent unsigned"));
    }
    warn!(without, "The notice ran without some settings of its job.");
    if *body == attempt.notice_facts.body
        && let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(body)
    {
        fields.insert(FIELD.to_owned(), without.into());
        *body = serde_json::Value::Object(fields).to_string();
    }
    Ok(())
}

fn is_notice(attempt: &Attempt) -> bool {
    attempt.is_notice()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use schedd::attempts::NoticeFacts;
    use schedd_core::domain::job::process_rules::ProcessRules;
    use schedd_core::host::boot_clock::BootInstant;
    use schedd_schedule::names::Fence;
    use schedd_schedule::time::unix_millis::UnixMillis;

    fn attempt(run: &str) -> Attempt {
        Attempt {
            run: run.parse().unwrap(),
            number: 1,
            fence: Fence::new(1).unwrap(),
            node: "n".parse().unwrap(),
            action: Action::Shell("true".to_owned()),
            zone: schedd_schedule::time::zone::Zone::utc().name().clone(),
            env: BTreeMap::new(),
            env_files: Vec::new(),
            notice_facts: NoticeFacts::default(),
            parents: Vec::new(),
            trace: None,
            webhook_secrets: Vec::new(),
            by_redis: (UnixMillis::EPOCH, BootInstant::now()),
            cwd: Some(PathBuf::from("/missing")),
            process: ProcessRules {
                user: Some("backup".parse().unwrap()),
                ..ProcessRules::default()
            },
            timeout: Duration::from_secs(1),
            kill_grace: Duration::ZERO,
            lease: Duration::from_secs(10),
            begins_once: false,
        }
    }

    fn map(pairs: &[&str]) -> BTreeMap<String, String> {
        pairs.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect()
    }

    #[test]
    fn a_notice_goes_without_what_cannot_be_had_but_never_as_root_instead_of_its_user() {
        let notice = attempt("a/on_failure@5~x");
        let mut fallback = NoticeFallback::of(&notice);
        let mut own = map(&["A", "LD_PRELOAD"]);
        fallback.without_variables(&mut own, vec!["env B: none".to_owned()]).unwrap();
        assert_eq!(own, map(&["A"]));
        let why = || "user backup: this host has no such user".to_owned();
        let refused = fallback.without_user(why(), &MayRunAs::of_uid(0)).unwrap_err();
        assert!(refused.starts_with(&why()) && refused.contains("as root"), "{refused}");
        assert!(fallback.attempt().process.user.is_some());
        fallback.without_user(why(), &MayRunAs::of_uid(999)).unwrap();
        let outcome = AttemptOutcome::failed("cannot start: directory /missing: no such file");
        assert!(fallback.start_without(Some(Wanting::Directory), &outcome));
        assert!(
            !fallback.start_without(Some(Wanting::Directory), &outcome),
            "it has none left to go without"
        );
        assert!(
            !fallback.start_without(Some(Wanting::Program), &outcome),
            "its shell is the usual one"
        );
        let made = fallback.attempt();
        assert_eq!((&made.process.user, made.cwd.as_deref()), (&None, Some(Path::new("/"))));
        let missing = "env B: none; env LD_PRELOAD is not allowed together with user; user backup: this host has no such user; directory /missing: no such file";
        assert_eq!(made.notice_facts.variables[VARIABLE], missing);
    }

    #[test]
    fn an_attempt_of_a_job_goes_without_nothing() {
        let job = attempt("a@5");
        let mut fallback = NoticeFallback::of(&job);
        let mut own = map(&["LD_PRELOAD"]);
        assert_eq!(
            fallback.without_variables(&mut own, vec!["env B: none".to_owned()]),
            Err("env B: none".to_owned())
        );
        assert!(fallback.without_user("no".to_owned(), &MayRunAs::of_uid(999)).is_err());
        assert!(!fallback.start_without(Some(Wanting::Directory), &AttemptOutcome::failed("x")));
        assert_eq!(
            (own, fallback.attempt().cwd.as_deref()),
            (map(&["LD_PRELOAD"]), Some(Path::new("/missing")))
        );
    }
}
