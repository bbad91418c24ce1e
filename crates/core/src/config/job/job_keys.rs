//! The declarations of the keys of a job.
//!
//! These lists are the only declaration of a key. Reading, merging with `[defaults]`, storing,
//! showing and comparing use the lists. The keys of a schedule and of an action are declared beside
//! their compilers, because several of these keys make one value. Checks of two keys together are
//! in `job_rules`.

use super::compile_done_check::{compile_done_check, write_done_check};
use super::compile_env::{
    compile_cwd, compile_env, compile_env_files, write_env_files, write_texts,
};
use super::compile_gates::{compile_not_while, compile_per_key, write_per_key};
use super::compile_lane::{
    compile_labels, compile_member_group, compile_on, compile_priority, compile_queue, read_tags,
    write_on,
};
use super::compile_notices::{
    WITHIN, compile_secrets, read_notice, read_ping_url, write_notice, write_secrets,
};
use super::compile_overlap::{compile_catch_up, compile_overlap, write_catch_up, write_overlap};
use super::compile_process::{
    compile_shell_program, compile_umask, compile_user, read_limits, write_limits,
};
use super::compile_retry::{compile_retry, write_retry};
use crate::config::key::key_kind::{
    Custom, FlagKind, InstantKind, IntegerKind, Maybe, WordKind, as_duration, as_list, as_path,
    as_text, parsed,
};
use crate::config::key::origin::{Origin, Reading};
use crate::config::key::table_key::{TableKey, given, key};
use crate::config::schedule::compile_clock_changes::{compile_clock_changes, write_clock_changes};
use crate::config::schedule::compile_shape::{LATE, compile_days, compile_only_on, shift};
use crate::config::syntax::reader::{DurationBounds, Spot};
use crate::domain::job::job_spec::{Delivery, JobSpec};
use crate::domain::job::notice::NoticeKind;
use crate::domain::queue::gate::{PerKey, SharedKey};
use crate::domain::run::trace_context::TraceContext;
use schedd_schedule::day_sets::DaySet;

const TIMEOUT: DurationBounds =
    DurationBounds::millis(100, 30 * 86_400_000, "100ms to 30 days", "30s");
const KILL_GRACE: DurationBounds = DurationBounds::secs(0, 3_600, "0s to 1 hour", "5s");
const NEXT_WITHIN: DurationBounds = DurationBounds::to_days(1, 365, "1s to 365 days", "1d");
const LATE_AFTER: DurationBounds = DurationBounds::to_days(1, 365, "1s to 365 days", "60s");

/// Declares the key of the notices of a kind. The value `false` removes the action that
/// `[defaults]` gives.
macro_rules! notice_key {
    ($name:literal, $kind:ident) => {
        TableKey::new(
            $name,
            |spot, reading, spec| read_notice(NoticeKind::$kind, spot, reading, spec),
            |spec, _| write_notice(NoticeKind::$kind, spec),
            |spec, other| {
                spec.notices.get(&NoticeKind::$kind) == other.notices.get(&NoticeKind::$kind)
            },
        )
    };
}

/// The keys of a job's schedule and of its trace, which `[defaults]` may not have.
pub(crate) const OWN: &[TableKey<JobSpec>] = &[
    given(key!("anchor", shape.anchor, Maybe(InstantKind))),
    given(key!("start", shape.start, Maybe(InstantKind))),
    given(key!("end", shape.end, Maybe(InstantKind))),
    given(key!("max_runs", shape.max_runs, Maybe(IntegerKind(1..=1_000_000)))),
    given(key!("traceparent", traceparent, Maybe(Custom(compile_traceparent, as_text)))),
];

/// Compiles the trace of an added job. A jobs file cannot have a trace, because no request adds its
/// jobs.
fn compile_traceparent(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<TraceContext> {
    if let Origin::File { .. } = reading.origin {
        let message = "traceparent is only for schedctl add, because it names the trace of the \
                       request that adds the job: remove the key";
        spot.fault(reading.problems, message);
        return None;
    }
    spot.parsed(TraceContext::EXAMPLE, reading.problems)
}

/// The keys of a job's rules, which are also the keys of `[defaults]`.
pub(crate) const RULES: &[TableKey<JobSpec>] = &[
    key!("tz", tz, Maybe(parsed("Europe/Berlin"))),
    key!("dst", dst, Custom(compile_clock_changes, |rule, form| write_clock_changes(*rule, form))),
    // The job's variables are added to the variables of `[defaults]`.
    TableKey::new(
        "env",
        |spot, reading, spec| {
            spec.env.extend(compile_env(spot, reading.problems)?);
            Some(())
        },
        |spec, _| write_texts(&spec.env),
        |spec, other| spec.env == other.env,
    ),
    key!(
        "env_file",
        env_files,
        Custom(compile_env_files, |files, form| write_env_files(files, form))
    ),
    key!("log_output", log_output, FlagKind),
    key!("cwd", cwd, Maybe(Custom(compile_cwd, as_path))),
    key!("user", process.user, Maybe(Custom(compile_user, as_text))),
    // The job's limits are added to the limits of `[defaults]`.
    TableKey::new(
        "limits",
        |spot, reading, spec| read_limits(spot, reading, &mut spec.process.limits),
        |spec, _| write_limits(&spec.process.limits),
        |spec, other| spec.process.limits == other.process.limits,
    ),
    key!(
        "umask",
        process.umask,
        Maybe(Custom(|spot, reading| compile_umask(spot, reading.problems), as_text))
    ),
    // An empty text removes the value that `[defaults]` gives.
    TableKey::new(
        "stdin",
        |spot, reading, spec| {
            spec.process.stdin = Some(spot.text("yes", reading.problems)?.to_owned())
                .filter(|text| !text.is_empty());
            Some(())
        },
        |spec, _| spec.process.stdin.clone().into(),
        |spec, other| spec.process.stdin == other.process.stdin,
    ),
    key!("shell_program", process.shell_program, Maybe(Custom(compile_shell_program, as_path))),
    key!("queue", queue, Custom(compile_queue, as_text)),
    key!(
        "priority",
        priority,
        Custom(
            |spot, reading| compile_priority(spot, reading.problems),
            |priority, _| priority.as_i8().into()
        )
    ),
    key!(
        "requires",
        requires,
        Custom(|spot, reading| compile_labels(spot, reading.problems), as_list)
    ),
    // The job's tags are added to the tags of `[defaults]`.
    TableKey::new(
        "tags",
        |spot, reading, spec| read_tags(spot, reading.problems, &mut spec.tags),
        |spec, _| write_texts(&spec.tags),
        |spec, other| spec.tags == other.tags,
    ),
    given(key!("on", on, Custom(compile_on, write_on))),
    given(key!("max_parallel", max_parallel, Maybe(IntegerKind(1..=PerKey::MOST)))),
    given(key!(
        "key",
        key,
        Maybe(Custom(
            |spot, reading| spot.parsed("customer-42", reading.problems),
            |key: &SharedKey, _| key.as_str().into()
        ))
    )),
    given(key!(
        "per_key",
        per_key,
        Custom(|spot, reading| compile_per_key(spot, reading.problems), write_per_key)
    )),
    given(key!(
        "not_while",
        not_while,
        Custom(|spot, reading| compile_not_while(spot, reading.problems), as_list)
    )),
    key!("group", group, Maybe(Custom(compile_member_group, as_text))),
    key!("timeout", timeout, TIMEOUT),
    key!("kill_grace", kill_grace, KILL_GRACE),
    given(key!("next_within", next_within, NEXT_WITHIN)),
    key!("retry", retry, Custom(compile_retry, write_retry)),
    key!(
        "overlap",
        overlap,
        Custom(
            |spot, reading| compile_overlap(spot, reading.problems),
            |overlap, _| write_overlap(*overlap)
        )
    ),
    key!("catch_up", catch_up, Custom(compile_catch_up, write_catch_up)),
    key!("late_after", late_after, LATE_AFTER),
    key!(
        "delivery",
        delivery,
        WordKind(&[
            ("at-least-once", Delivery::AtLeastOnce),
            ("at-most-once", Delivery::AtMostOnce)
        ])
    ),
    key!("done_check", done_check, Maybe(Custom(compile_done_check, write_done_check))),
    given(key!(
        "jitter",
        shape.jitter,
        Custom(|spot, reading| shift(spot, reading.problems), as_duration)
    )),
    given(key!(
        "splay",
        shape.splay,
        Custom(|spot, reading| shift(spot, reading.problems), as_duration)
    )),
    given(key!("exclude", shape.exclude, Custom(compile_days, |days, _| days.texts().into()))),
    // An empty list removes the days of `[defaults]`.
    given(TableKey::new(
        "only_on",
        |spot, reading, spec| {
            spec.shape.only_on =
                Some(compile_only_on(spot, reading)?).filter(|days| !days.is_empty());
            Some(())
        },
        |spec, _| spec.shape.only_on.as_ref().map(DaySet::texts).into(),
        |spec, other| spec.shape.only_on == other.shape.only_on,
    )),
    given(key!("skip_if_late", shape.skip_if_late, Maybe(LATE))),
    notice_key!("on_failure", Failure),
    notice_key!("on_success", Success),
    notice_key!("on_late", Late),
    notice_key!("on_recovered", Recovered),
    key!("must_start_within", must_start_within, Maybe(WITHIN)),
    key!("must_finish_within", must_finish_within, Maybe(WITHIN)),
    TableKey::new(
        "ping_url",
        |spot, reading, spec| read_ping_url(spot, reading.problems, &mut spec.ping_url),
        |spec, _| spec.ping_url.clone().into(),
        |spec, other| spec.ping_url == other.ping_url,
    ),
    key!(
        "webhook_secret",
        webhook_secrets,
        Custom(
            |spot, reading| compile_secrets(spot, reading.problems),
            |secrets, form| write_secrets(secrets, form)
        )
    ),
];
