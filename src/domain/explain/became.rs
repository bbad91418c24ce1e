//! What may have become of an occurrence: how it ran, why it did not, or what it waits for.

use super::facts::AttemptFacts;
use super::sentences::{by_words, findings};
use crate::domain::group::Shut;
use crate::domain::rate::Rate;
use crate::domain::time::UnixMillis;
use crate::domain::wording::{shown, span};
use crate::domain::zone::Zone;

findings! {
    /// What became of an occurrence.
    Became {
        /// One attempt.
        "attempt" Attempt {
            /// It.
            attempt: AttemptFacts,
        },
        /// A node gave the run back unexecuted.
        "handed_back" HandedBack {
            /// Why.
            why: String,
        },
        /// A person had it tried again.
        "retried" Retried {
            /// Who.
            by: Option<String>,
            /// When.
            at: UnixMillis,
        },
        /// It did what was wanted.
        "succeeded" Succeeded {
            /// When.
            at: Option<UnixMillis>,
        },
        /// Its check said that the work was done already.
        "already_done" AlreadyDone,
        /// It failed.
        "failed" Failed {
            /// Why, if the attempts do not say it.
            reason: Option<String>,
        },
        /// It took too long.
        "timed_out" TimedOut,
        /// Nobody knows whether it did its work.
        "lost" Lost {
            /// Why.
            reason: Option<String>,
        },
        /// Its check never gave a clear answer.
        "asked_in_vain" AskedInVain {
            /// What it answered.
            why: String,
        },
        /// A person cancelled it.
        "cancelled" Cancelled {
            /// Who.
            by: Option<String>,
            /// When.
            at: Option<UnixMillis>,
        },
        /// A newer run took its place.
        "replaced" Replaced,
        /// It ended with its job.
        "removed_with_job" RemovedWithJob {
            /// Who.
            by: Option<String>,
        },
        /// Its job was removed or over, and a later job has the name.
        "of_earlier_job" OfEarlierJob,
        /// An earlier run was still open.
        "skipped_overlap" SkippedOverlap {
            /// That one.
            behind: Option<String>,
        },
        /// It could not be started in time.
        "skipped_missed" SkippedMissed,
        /// It was past when work began again after a loss of data, whatever became of it before.
        "skipped_after_loss" SkippedAfterLoss,
        /// As many runs of its job had begun as may.
        "skipped_used_up" SkippedUsedUp,
        /// Its job was paused.
        "skipped_paused" SkippedPaused {
            /// Who.
            by: Option<String>,
            /// When.
            at: Option<UnixMillis>,
        },
        /// It was skipped for a reason of a newer schedd.
        "skipped" Skipped {
            /// The reason.
            reason: String,
        },
        /// It is one of a stretch with one record.
        "in_stretch" InStretch {
            /// The first.
            first: UnixMillis,
            /// The last.
            last: UnixMillis,
            /// How many.
            count: u64,
        },
        /// It executes now.
        "running" Running {
            /// Where.
            node: Option<String>,
            /// Since when.
            since: Option<UnixMillis>,
        },
        /// It was when its node was last seen, which is a while ago.
        "running_unseen" RunningUnseen {
            /// Where.
            node: String,
            /// When that was.
            seen: UnixMillis,
        },
        /// It is asked to stop.
        "asked_to_stop" AskedToStop {
            /// By whom.
            by: Option<String>,
        },
        /// It waits for another run to end.
        "waits" Waits {
            /// That one.
            behind: Option<String>,
        },
        /// It waits at a gate.
        "waits_at" WaitsAt {
            /// The gate.
            gate: String,
            /// A run that had a place there when it came.
            behind: Option<String>,
            /// One that has a place there now and has begun.
            holder: Option<String>,
            /// One that was let in there and has not begun.
            let_in: Option<String>,
            /// One of its lane that did not begin when it was let in, and when the next of that lane is tried.
            stuck: Option<(String, UnixMillis)>,
            /// Why the one that was let in, or that one, does not begin, if that is known.
            hindrance: Option<String>,
            /// The rate of its job there, and when that lets one more begin.
            rate: Option<(Rate, UnixMillis)>,
            /// Whose turn it is.
            turn: Option<String>,
            /// Until when time alone keeps it shut, if it is a group's.
            shut: Shut,
            /// Its own lane, if no node serves that, and why.
            unserved: Option<String>,
            /// Lanes that no node serves and of which runs stand before it there.
            passed_over: Vec<String>,
        },
        /// It was let in at a gate and has not begun.
        "let_in" LetIn {
            /// The gate.
            gate: String,
            /// Since when it has its place there.
            since: UnixMillis,
        },
        /// It was let in at a gate, did not begin in a moment, and gave its place up.
        "gave_up_place" GaveUpPlace {
            /// The gate.
            gate: String,
            /// One that has a place there now and has begun.
            holder: Option<String>,
            /// One that was let in there and has not begun.
            let_in: Option<String>,
            /// Since when it is due.
            since: UnixMillis,
            /// Its lane, if no node serves that.
            unserved: Option<String>,
        },
        /// It is tried again later.
        "retry_at" RetryAt {
            /// From when.
            at: UnixMillis,
        },
        /// Its check is asked again later.
        "ask_at" AskAt {
            /// From when.
            at: UnixMillis,
            /// What it answered.
            why: String,
        },
        /// It was missed and was given a time of its own.
        "spread_to" SpreadTo {
            /// It.
            at: UnixMillis,
        },
        /// It was taken out by a pause.
        "held" Held,
        /// It waits to be made up for.
        "to_make_up" ToMakeUp,
        /// A run of its own made up for it, or does.
        "made_up_by" MadeUpBy {
            /// That run.
            run: String,
            /// Its state, in words.
            state: String,
        },
        /// It waited to be made up for, and that was given up.
        "made_up_dropped" MadeUpDropped {
            /// By whom.
            by: Option<String>,
            /// When.
            at: UnixMillis,
        },
        /// Its time has not come.
        "to_come" ToCome {
            /// It.
            at: UnixMillis,
        },
        /// It is ready, and no node has claimed it.
        "owed" Owed {
            /// Since when.
            since: UnixMillis,
        },
        /// An earlier occurrence is still owed, so this one has not been dealt with.
        "behind_owed" BehindOwed {
            /// That one's due time.
            due: UnixMillis,
        },
        /// Its record was folded.
        "trimmed" Trimmed {
            /// How the runs of the range ended, with the reason.
            state: String,
            /// The first of the range.
            first: UnixMillis,
            /// The last.
            last: UnixMillis,
            /// How many.
            count: u64,
        },
        /// A range holds its time, which may not have been due.
        "perhaps_trimmed" PerhapsTrimmed {
            /// How the runs of the range ended, with the reason.
            state: String,
            /// The first of the range.
            first: UnixMillis,
            /// The last.
            last: UnixMillis,
            /// How many.
            count: u64,
        },
        /// Only counts are left.
        "counted" Counted {
            /// How many ended in which state.
            counts: Vec<(String, u64)>,
            /// The last due time counted.
            until: UnixMillis,
        },
        /// Nothing is kept of it.
        "unrecorded" Unrecorded,
        /// Nothing of its job was due any more.
        "over" Over {
            /// Why.
            why: String,
        },
        /// Nothing is kept of it since Redis lost data.
        "gone_with_data" GoneWithData,
        /// Nothing was ever due.
        "never" Never,
        /// A run of the job that has not ended.
        "open" Open {
            /// Its id.
            run: String,
            /// What is to be said of it.
            what: Box<Became>,
        },
        /// There are more such runs than are told of.
        "more_open" MoreOpen {
            /// How many.
            count: u64,
        },
        /// The run that ended last.
        "last" Last {
            /// Its id.
            run: String,
            /// How it ended, with the reason.
            state: String,
            /// When.
            at: Option<UnixMillis>,
        },
    }
}

impl Became {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        let on = |at: &Option<UnixMillis>| at.map_or_else(String::new, |at| format!(" on {}", shown(at, zone)));
        match self {
            Self::Attempt { attempt } => attempt_sentence(attempt, zone),
            Self::HandedBack { why } => format!("A node had claimed it and handed it back unexecuted: {why}."),
            Self::Retried { by, at } => format!("It was tried again{} on {}.", by_words(by.as_ref()), shown(*at, zone)),
            Self::Succeeded { at } => format!("It succeeded{}.", on(at)),
            Self::AlreadyDone => "It succeeded: its done_check said that the work was already done.".to_owned(),
            Self::Failed { reason: Some(reason) } => format!("It failed: {reason}."),
            Self::Failed { reason: None } => "It failed.".to_owned(),
            Self::TimedOut => "It took longer than its timeout and was stopped.".to_owned(),
            Self::Lost { reason: Some(reason) } => format!("It is lost, for it may or may not have done its work: {reason}."),
            Self::Lost { reason: None } => "It is lost: it may or may not have done its work.".to_owned(),
            Self::AskedInVain { why } => {
                format!("It is lost, and this time nothing was started: {why}; whether its work is done is not known.")
            }
            Self::Cancelled { by: None, at } => format!("It was cancelled{}; by whom is not known.", on(at)),
            Self::Cancelled { by: Some(by), at } => format!("It was cancelled by {by}{}.", on(at)),
            Self::Replaced => "It was stopped because the next run of its job took its place.".to_owned(),
            Self::RemovedWithJob { by } => format!("It ended because its job was removed{}.", by_words(by.as_ref())),
            Self::OfEarlierJob => "It was cancelled because it belongs to an earlier job of this name.".to_owned(),
            Self::SkippedOverlap { behind: Some(run) } => format!("It was skipped because the run {run} was still open."),
            Self::SkippedOverlap { behind: None } => "It was skipped because an earlier run was still open.".to_owned(),
            Self::SkippedMissed => "It was skipped because it was missed: it could not be started in time.".to_owned(),
            Self::SkippedAfterLoss => {
                "It was skipped when work began again after Redis had lost data: by then it counted as missed.".to_owned()
            }
            Self::SkippedUsedUp => "It was skipped because as many runs had begun as max_runs lets.".to_owned(),
            Self::SkippedPaused { by: None, at: None } => "It was skipped because its job was paused.".to_owned(),
            Self::SkippedPaused { by, at } => {
                format!("It was skipped because its job was paused{}{}.", by_words(by.as_ref()), on(at))
            }
            Self::Skipped { reason } => format!("It was skipped: {reason}."),
            Self::Running { node, since } => {
                let place = node.as_ref().map_or_else(String::new, |node| format!(" on {node}"));
                let since = since.map_or_else(String::new, |at| format!(" since {}", shown(at, zone)));
                format!("It is running{place}{since}.")
            }
            Self::RunningUnseen { node, seen } => format!(
                "It was running on {node}, which was last seen on {}; it is taken back when its lease is over.",
                shown(*seen, zone)
            ),
            Self::AskedToStop { by } => format!("It is asked to stop{}.", by_words(by.as_ref())),
            Self::Waits { behind: Some(run) } => format!("It waits for the run {run} to end."),
            Self::Waits { behind: None } => "It waits for an open run of its job to end.".to_owned(),
            Self::WaitsAt { .. } | Self::LetIn { .. } | Self::GaveUpPlace { .. } => self.at_gate(zone),
            Self::RetryAt { at } => format!("It is tried again on {}.", shown(*at, zone)),
            Self::AskAt { at, why } => {
                format!("Nothing was started, {why}; it is asked again on {}.", shown(*at, zone))
            }
            Self::SpreadTo { at } => {
                format!("It was missed, and is to start on {} so that not all start at once.", shown(*at, zone))
            }
            Self::Held => "The pause of its job holds it.".to_owned(),
            Self::ToMakeUp | Self::MadeUpBy { .. } | Self::MadeUpDropped { .. } => self.making_up(zone),
            Self::ToCome { at } => format!("It is still to come, on {}.", shown(*at, zone)),
            Self::Owed { since } => format!("It is owed: ready since {}, and no node has claimed it yet.", shown(*since, zone)),
            Self::BehindOwed { due } => {
                format!("It has not been dealt with yet: the run due {} is still owed.", shown(*due, zone))
            }
            Self::InStretch { .. } | Self::Trimmed { .. } | Self::PerhapsTrimmed { .. } => self.among_others(zone),
            Self::Counted { counts, until } => {
                let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
                format!(
                    "It is older than what is kept; of the runs due up to {} only counts are left: {}.",
                    shown(*until, zone),
                    counts.join(", ")
                )
            }
            Self::Unrecorded => {
                "Nothing of it is kept: it was purged, is past the bounds of history, or was before the job was added.".to_owned()
            }
            Self::Over { why } => format!("It was not due any more: {why}."),
            Self::GoneWithData => "Nothing of it is kept since Redis lost data.".to_owned(),
            Self::Never => "It has had no occurrence yet.".to_owned(),
            Self::Open { run, what } => format!("Run {run}: {}", what.sentence(zone)),
            Self::MoreOpen { count: 1 } => "And 1 more run of it has not ended.".to_owned(),
            Self::MoreOpen { count } => format!("And {count} more runs of it have not ended."),
            Self::Last { run, state, at } => format!("The last to end was {run}: {state}{}.", on(at)),
        }
    }
}

fn attempt_sentence(attempt: &AttemptFacts, zone: &Zone) -> String {
    let AttemptFacts { number, node, started_at, finished_at, end, is_end_known } = attempt;
    let place = node.as_ref().map_or_else(String::new, |node| format!(" on {node}"));
    let start = started_at.map_or_else(String::new, |at| format!(" started {}", shown(at, zone)));
    let took = started_at.zip(*finished_at).map_or_else(String::new, |(from, to)| format!(" after {}", span(to.since(from))));
    match end {
        Some(why) if !is_end_known => format!("Attempt {number}{place}{start}; how it ended is not known: {why}."),
        Some(end) => format!("Attempt {number}{place}{start}, ended{took}: {end}."),
        None => format!("Attempt {number}{place}{start} and is running."),
    }
}
