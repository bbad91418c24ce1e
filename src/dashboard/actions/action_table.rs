//! The actions: one row for each.

use super::action_field::ActionField;
use super::action_field::ActionFieldKind::{Setting, Switch, Text, Window};
use crate::cli::embedded::CliFailure;
use crate::dashboard::page_link::{job_path, run_path};
use schedd_schedule::names::{JobName, QueueName, RunId};

/// An action on jobs, runs or queues.
#[derive(Debug)]
pub(super) struct OperatorAction {
    /// The word in the address of the action.
    pub(super) word: &'static str,
    /// The word of its button.
    pub(super) label: &'static str,
    /// The words of the verb.
    pub(super) verb: &'static [&'static str],
    pub(super) subject: ActionSubject,
    /// True if one call of the verb takes several names.
    pub(super) takes_many: bool,
    /// Sentences about what the action does.
    pub(super) effect: &'static str,
    pub(super) fields: &'static [ActionField],
}

/// The kind of the things on which an action acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionSubject {
    Job,
    Run,
    Queue,
}

const NOTE: ActionField =
    ActionField::new(Text, "note", "Note", "why, for the audit log; at most 200 characters");

macro_rules! action {
    ($word:literal $label:literal $verb:expr, $subject:ident $takes_many:literal, [$($field:expr),*], $effect:literal) => {
        OperatorAction {
            word: $word,
            label: $label,
            verb: &$verb,
            subject: ActionSubject::$subject,
            takes_many: $takes_many,
            effect: $effect,
            fields: &[$($field),*],
        }
    };
}

/// All actions.
static ACTIONS: &[OperatorAction] = &[
    action!("run" "Run" ["run"], Job false, [NOTE],
        "A run starts now. The schedule does not change."),
    action!("pause" "Pause" ["pause"], Job true, [],
        "No planned run starts. Retries and runs by hand still do. Occurrences until the job is resumed are skipped."),
    action!("resume" "Resume" ["resume"], Job true, [],
        "The next run is that of the first occurrence from now on. A job with a single time that has passed runs now."),
    action!("stop-runs" "Stop runs" ["cancel", "--run"], Job true, [],
        "The running runs end as cancelled. The job stays, and its next run is as planned."),
    action!("cancel-backfill" "Cancel backfill" ["cancel", "--backfill"], Job true, [],
        "The backfill runs that have not ended are cancelled. The job stays."),
    action!("cancel" "Cancel" ["cancel"], Job true, [
        ActionField::new(Switch, "stop", "Also stop its running runs", "else a run of a job that recurs goes on")
    ], "The job is removed with its planned run. History stays. A job that a jobs file declares is not removed: edit the file."),
    action!("backfill" "Backfill" ["backfill"], Job false, [
        ActionField::new(Window, "from", "From", "a time, or 3d for three days ago"),
        ActionField::new(Window, "to", "Before", "a time; now, if empty"),
        ActionField::new(Window, "max", "At most", "1000 runs, if empty"),
        ActionField::new(Switch, "yes", "Also times before the job was added", "without it such times are refused")
    ], "Each past occurrence that did not succeed gets a run of its own. These runs start one after the other, the oldest first."),
    action!("cancel-run" "Cancel" ["cancel"], Run true, [],
        "A run that has not started ends as cancelled. A running run is asked to stop. The job goes on."),
    action!("retry" "Retry" ["retry"], Run true, [],
        "The run is ready at once under its own id, with all its retries again. Only a run that failed, timed out or was lost is retried."),
    action!("rerun" "Rerun" ["rerun"], Run false, [NOTE],
        "A new run repeats the work now, with the due time of this run and the present definition of the job."),
    action!("purge" "Purge" ["purge"], Run true, [],
        "The record of the run is deleted for good. Only a run that failed, timed out or was lost is purged."),
    action!("pause-queue" "Pause" ["queue", "pause"], Queue true, [],
        "No run of the queue starts. Running runs go on. Runs that become due wait until the queue is resumed."),
    action!("resume-queue" "Resume" ["queue", "resume"], Queue true, [],
        "The waiting runs start, as far as the limits of the queue let them."),
    action!("set-queue" "Set" ["queue", "set"], Queue false, [
        ActionField::new(Setting, "concurrency", "Concurrency", "running runs on each node"),
        ActionField::new(Setting, "limit", "Limit", "running runs on all nodes together"),
        ActionField::new(Setting, "rate", "Rate", "runs that may start in a time, such as 100/1m"),
        ActionField::new(Setting, "burst", "Burst", "runs that may start at once under a rate"),
        ActionField::new(Setting, "weight", "Weight", "share of a node, against other queues"),
        ActionField::new(Setting, "strict", "Strict", "true: before all queues with a weight"),
        ActionField::new(Setting, "warn_depth", "Warn depth", "due runs from which there is a backlog"),
        ActionField::new(Setting, "warn_oldest", "Warn oldest", "age of a due run from which there is a backlog"),
        ActionField::new(Setting, "on_backlog", "On backlog", "the job that runs when a backlog begins")
    ], "An empty field changes nothing, and none removes a setting. The change applies at once, until the queue is edited in a jobs file."),
];

impl OperatorAction {
    /// Returns the action with this word in its address. Fails if there is none.
    pub(super) fn named(word: &str) -> Result<&'static Self, CliFailure> {
        ACTIONS.iter().find(|action| action.word == word).ok_or_else(|| {
            let known: Vec<&str> = ACTIONS.iter().map(|action| action.word).collect();
            let known = known.join(", ");
            CliFailure::NotFound(format!("no action {word:?}, wanted one of {known}"))
        })
    }

    /// Returns true if a page shows what the action would do before it asks.
    pub(super) fn has_preview(&self) -> bool {
        self.fields.iter().any(ActionField::is_of_preview)
    }

    /// Returns true if only runs that have not ended are of use to the action.
    pub(super) fn is_for_open_runs(&self) -> bool {
        self.word == "cancel-run"
    }

    /// Returns true if only dead letters are of use to the action.
    pub(super) fn is_for_dead_letters(&self) -> bool {
        matches!(self.word, "retry" | "purge")
    }

    /// Returns the label with what the action acts on, such as `Pause 3 jobs`.
    pub(super) fn labelled(&self, names: &[String]) -> String {
        match names {
            [one] => format!("{} {} {one}", self.label, self.subject.singular()),
            _ => format!("{} {} {}", self.label, names.len(), self.subject.plural()),
        }
    }
}

impl ActionSubject {
    /// Returns the word for a thing of this kind.
    fn singular(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Run => "run",
            Self::Queue => "queue",
        }
    }

    /// Returns the word for several things of this kind.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::Run => "runs",
            Self::Queue => "queues",
        }
    }

    /// Returns the path of the section to which the pages of the action belong.
    pub(super) fn section(self) -> &'static str {
        self.plural()
    }

    /// Returns the path of the page of a thing, without the path before all routes.
    pub(super) fn path(self, name: &str) -> String {
        match self {
            Self::Job => job_path(name),
            Self::Run => run_path(name),
            Self::Queue => "/queues".to_owned(),
        }
    }

    /// Fails unless `name` is a whole name of a thing of this kind.
    pub(super) fn check(self, name: &str) -> Result<(), CliFailure> {
        let checked = match self {
            Self::Job => name.parse::<JobName>().map(drop),
            Self::Run => name.parse::<RunId>().map(drop),
            Self::Queue => name.parse::<QueueName>().map(drop),
        };
        checked.map_err(|error| CliFailure::Invalid(format!("name: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::embedded::verb_call::parse_verb;

    #[test]
    fn each_action_is_a_verb_of_schedctl() {
        for action in ACTIONS {
            let name = if action.subject == ActionSubject::Run { "a@1" } else { "a" };
            let from = action.has_preview().then_some("--from=1h");
            let settings = action.fields.iter().filter(|field| field.kind == Setting);
            let settings: Vec<String> = settings.map(|field| format!("{}=1", field.name)).collect();
            let names = if action.takes_many { vec![name, name] } else { vec![name] };
            let words = action.verb.iter().copied().chain(from).chain(["--"]).chain(names);
            let words = words.map(str::to_owned).chain(settings).collect::<Vec<_>>();
            assert!(parse_verb(&words).is_ok(), "{words:?}: {:?}", parse_verb(&words).err());
        }
    }

    #[test]
    fn an_action_is_found_by_its_word_and_named_with_what_it_acts_on() {
        let pause = OperatorAction::named("pause").unwrap();
        assert_eq!(pause.labelled(&["a".to_owned()]), "Pause job a");
        assert_eq!(pause.labelled(&["a".to_owned(), "b".to_owned()]), "Pause 2 jobs");
        assert_eq!(OperatorAction::named("odd").unwrap_err().code(), 3);
    }

    #[test]
    fn only_whole_names_of_its_kind_are_taken() {
        for (subject, good, bad) in [
            (ActionSubject::Job, "a/on_failure", "a@1"),
            (ActionSubject::Run, "a@1~x", "a"),
            (ActionSubject::Queue, "mail", "<b>"),
        ] {
            assert!(subject.check(good).is_ok(), "{good}");
            assert_eq!(subject.check(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
