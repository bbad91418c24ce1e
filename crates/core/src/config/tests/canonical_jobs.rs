use std::time::Duration;

use proptest::prelude::*;

use super::{good, host, job};
use crate::config::canonical::canonical_job::{CanonicalError, from_canonical, to_canonical};
use crate::config::job::job_keys::{OWN, RULES};
use crate::config::job_from_json;
use crate::config::key::table_key::names;
use crate::domain::job::job_spec::{
    Action, AskedOn, Backoff, Delivery, DoneCheck, HttpRequest, JobSpec, Overlap, RetryRule,
};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::process_limits::Limits;
use crate::domain::job::process_rules::{ProcessRules, Started};
use crate::domain::job::unique_rule::{Second, Unique};
use crate::domain::queue::gate::PerKey;
use crate::domain::queue::lane::Priority;
use crate::domain::queue::rate::Rate;
use crate::domain::run::trace_context::TraceContext;
use schedd_schedule::chain::parents::{ParentRule, Parents};
use schedd_schedule::clock_changes::{ClockChanges, Fold, Gap};
use schedd_schedule::day_sets::{DayItem, DaySet};
use schedd_schedule::lateness::{CatchUp, CatchUpMode};
use schedd_schedule::schedule_form::{Recurrence, Schedule};
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::unix_millis::UnixMillis;

fn canonical_of_line(text: &str) -> String {
    to_canonical(&job_from_json(text, &host()).unwrap().spec)
}

#[test]
fn a_plain_job_is_a_short_text() {
    assert_eq!(
        canonical_of_line(r#"{"shell": "true", "every": "30s"}"#),
        r#"{"every":"30s","shell":"true"}"#
    );
    assert_eq!(canonical_of_line(r#"{"command": ["a", "b"]}"#), r#"{"command":["a","b"]}"#);
    assert_eq!(
        canonical_of_line(r#"{"http": "http://h/", "at": "2026-12-24T09:00:00+01:00"}"#),
        r#"{"at":"2026-12-24T08:00:00.000Z","http":{"url":"http://h/"}}"#
    );
    let call = r#"{"handler": "mail", "payload": {"to": "a", "n": [1, 2.5, null, true]}}"#;
    let stored = r#"{"handler":"mail","payload":{"n":[1,2.5,null,true],"to":"a"}}"#;
    assert_eq!(canonical_of_line(call), stored);
    assert_eq!(to_canonical(&from_canonical(stored).unwrap()), stored);
    assert_eq!(canonical_of_line(r#"{"handler": "mail"}"#), r#"{"handler":"mail"}"#);
}

#[test]
fn the_order_of_keys_defaults_written_out_and_short_forms_do_not_matter() {
    let short = r#"{"shell": "true", "cron": "0 9 * * *", "retry": 2, "overlap": "queue", "catch_up": "all"}"#;
    let long = r#"{"catch_up": {"max_count": 1000, "mode": "all"}, "overlap": {"max": 1, "mode": "queue"},
        "retry": {"jitter": true, "max_delay": "3600s", "backoff": "exponential", "delay": "10s", "limit": 2},
        "cron": ["0 9 * * *"], "shell": "true", "queue": "default", "timeout": "3600s", "kill_grace": "5s",
        "late_after": "60s", "delivery": "at-least-once", "env": {}, "priority": 0, "requires": []}"#;
    assert_eq!(canonical_of_line(short), canonical_of_line(long));
    let file = good(
        "[queues.default]\n[defaults]\nretry = 2\n[jobs.a]\ncatch_up = 'all'\noverlap = 'queue'\ncron = '0 9 * * *'\nshell = 'true'",
    );
    assert_eq!(
        canonical_of_line(short),
        to_canonical(&job(&file, "a")),
        "a file says the same as a line"
    );
    let http = |http: &str| canonical_of_line(&format!(r#"{{"http": {http}}}"#));
    assert_eq!(
        http(r#"{"url": "http://h/", "expect": [204, 200, 204], "method": "GET", "redirects": 0}"#),
        http(r#"{"expect": [200, 204], "url": "http://h/"}"#)
    );
    let rules = |rules: &str| canonical_of_line(&format!(r#"{{"shell": "true", {rules}}}"#));
    assert_eq!(
        rules(r#""retry": {"limit": 2, "on": [75, 3, 75], "never_on": []}"#),
        rules(r#""retry": {"limit": 2, "on": [3, 75]}"#)
    );
    assert_eq!(rules(r#""dst": {}"#), rules(r#""env": {}"#));
    assert_eq!(rules(r#""cron": "@every 90s""#), rules(r#""every": "90s""#));
    assert_eq!(
        rules(r#""done_check": {"timeout": "60s", "on": "retry", "shell": "x"}"#),
        rules(r#""done_check": {"shell": "x"}"#)
    );
}

#[test]
fn settings_an_older_version_kept_with_a_request_are_read_and_not_rewritten() {
    let rules = r#""limits":{"memory":"1GiB"},"shell_program":"/bin/bash","stdin":"x","umask":"0027","user":"backup""#;
    let message = r#""on_failure":{"shell":"mail"}"#;
    for (kept, wanted) in [
        (
            r#"{"http":{"url":"http://h/"},"#.to_owned() + rules + "}",
            r#"{"http":{"url":"http://h/"}}"#.to_owned(),
        ),
        (
            r#"{"http":{"url":"http://h/"},"#.to_owned() + message + "," + rules + "}",
            r#"{"http":{"url":"http://h/"},"#.to_owned()
                + message
                + r#","shell_program":"/bin/bash","umask":"0027","user":"backup"}"#,
        ),
    ] {
        assert_eq!(to_canonical(&from_canonical(&kept).unwrap()), wanted);
    }
}

#[test]
fn a_key_nobody_here_knows_was_written_by_a_newer_schedd() {
    for (text, key) in [
        (r#"{"shell":"true","colour":"red"}"#, "colour"),
        (r#"{"shell":"true","done_check":{"shell":"x","quorum":2}}"#, "done_check.quorum"),
        (r#"{"shell":"true","retry":{"limit":1,"budget":3}}"#, "retry.budget"),
        (r#"{"wasm":"x","every":3}"#, "wasm"),
    ] {
        assert_eq!(from_canonical(text), Err(CanonicalError::Newer { key: key.to_owned() }));
    }
}

#[test]
fn a_damaged_text_is_reported_as_such() {
    for text in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"shell":"true""#,
        r#"{"shell":""}"#,
        r#"{"shell":"true","every":"0s"}"#,
        r#"{"shell":"true","at":"2026-12-24T09:00"}"#,
        r#"{"shell":"true","shell":"false"}"#,
        r#"{"shell":"true","timeout":3}"#,
        r#"{"shell":"true","command":["true"]}"#,
        r#"{"shell":"true","delivery":"at-most-once","retry":{"limit":3}}"#,
    ] {
        let Err(CanonicalError::Corrupt { reason }) = from_canonical(text) else {
            panic!("{text}: {:?}", from_canonical(text))
        };
        assert!(!reason.is_empty() && reason.lines().count() == 1, "{text}: {reason}");
    }
}

fn secs(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_secs)
}

fn parents() -> impl Strategy<Value = Parents> {
    let rules: Vec<ParentRule> = ParentRule::ALL.into_iter().map(|(rule, _)| rule).collect();
    let jobs = prop::collection::btree_set("[a-z]{1,8}", 1..=Parents::MOST);
    (prop::sample::select(rules), jobs).prop_map(|(rule, jobs)| Parents {
        rule,
        jobs: jobs.iter().map(|job| job.parse().unwrap()).collect(),
    })
}

fn schedules() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        Just(Schedule::Manual),
        parents().prop_map(Schedule::After),
        (0..UnixMillis::END).prop_map(|at| Schedule::At(UnixMillis::new(at).unwrap())),
        secs(1..=315_360_000).prop_map(Schedule::Every),
        secs(1..=315_360_000).prop_map(Schedule::Delay),
        forms(),
        prop::collection::vec(forms(), 2..4).prop_map(Schedule::Several),
        prop::collection::vec(
            prop::sample::select(vec!["0 9 * * *", "@daily", "*/5 * * * MON-FRI"]),
            1..4
        )
        .prop_map(|list| Schedule::Cron(
            list.into_iter().map(|text| text.parse().unwrap()).collect()
        )),
    ]
}

/// Returns the schedules that may be combined with others.
fn forms() -> impl Strategy<Value = Schedule> {
    let texts = |list| prop::collection::vec(prop::sample::select(list), 1..4);
    let rules = ["FREQ=DAILY", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=HOURLY;INTERVAL=3"];
    prop_oneof![
        secs(1..=315_360_000).prop_map(Schedule::Every),
        prop::collection::btree_set(0..UnixMillis::END, 2..5).prop_map(|list| Schedule::Instants(
            list.into_iter().map(|at| UnixMillis::new(at).unwrap()).collect()
        )),
        texts(vec!["Mon..Fri 09:00", "*-*~1 02:30 Europe/Berlin", "weekly"]).prop_map(|list| {
            Schedule::Calendar(list.into_iter().map(|text| text.parse().unwrap()).collect())
        }),
        (texts(rules.to_vec()), 0..3_000_i64).prop_map(|(list, day)| {
            let start = jiff::civil::datetime(2020, 2, 29, 23, 59, 58, 0)
                .checked_add(jiff::Span::new().days(day))
                .unwrap();
            Schedule::Rules(
                list.into_iter().map(|text| Recurrence::new(text, start).unwrap()).collect(),
            )
        }),
    ]
}

fn days() -> impl Strategy<Value = DaySet> {
    let item = prop_oneof![
        (1..128_u8).prop_map(DayItem::Weekdays),
        (0..40_000_i64, 0..9_i64).prop_map(|(first, more)| DayItem::Dates(first, first + more)),
        (0..1_000_000_i64, 1..9_i64).prop_map(|(first, more)| {
            DayItem::Span(
                UnixMillis::new(first * 1_000).unwrap(),
                UnixMillis::new((first + more) * 1_000).unwrap(),
            )
        }),
    ];
    prop::collection::vec(item, 1..6).prop_map(DaySet::of)
}

prop_compose! {
    /// Generates the modifiers that may shape `schedule`.
    fn shapes(schedule: Schedule)(
        anchor in prop::option::of(0..UnixMillis::END),
        window in prop::option::of((0..UnixMillis::END / 2, UnixMillis::END / 2..UnixMillis::END)),
        max_runs in prop::option::of(1..=1_000_000_u32),
        jitter in prop_oneof![Just(Duration::ZERO), secs(1..=86_400)],
        splay in prop_oneof![Just(Duration::ZERO), secs(1..=86_400)],
        exclude in prop_oneof![Just(DaySet::default()), days()],
        only_on in prop::option::of(days()),
        skip_if_late in prop::option::of(secs(1..=86_400)),
    ) -> Shape {
        let at = |millis| UnixMillis::new(millis).unwrap();
        match &schedule {
            Schedule::Manual | Schedule::After(_) => Shape::default(),
            Schedule::Delay(_) => Shape { max_runs, skip_if_late, ..Shape::default() },
            other => Shape {
                anchor: anchor.filter(|_| matches!(other, Schedule::Every(_))).map(at),
                start: window.map(|(start, _)| at(start)),
                end: window.map(|(_, end)| at(end)),
                max_runs, jitter, splay, exclude: exclude.clone(), only_on: only_on.clone(), skip_if_late,
            },
        }
    }
}

fn requests() -> impl Strategy<Value = HttpRequest> {
    (
        prop::sample::select(vec!["GET", "POST", "DELETE"]),
        "[a-z0-9/?=%]{0,20}",
        prop::collection::btree_map("X-[a-z]{1,5}", "[ -~äß€]{0,10}", 0..4),
        "[^\0]{0,10}",
        prop::collection::btree_set(100..=599u16, 0..4),
        0..=10u8,
    )
        .prop_map(|(method, path, headers, body, expect, redirects)| HttpRequest {
            method: method.to_owned(),
            url: format!("https://example.com/{path}"),
            headers,
            body,
            expect: expect.into_iter().collect(),
            redirects,
        })
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![
        ("[a-z/]{1,9}", prop::collection::vec("[^\0]{0,9}", 0..4)).prop_map(
            |(program, mut words)| {
                words.insert(0, program);
                Action::Command(words)
            }
        ),
        "[a-z][^\0]{0,20}".prop_map(Action::Shell),
        requests().prop_map(Action::Http),
    ]
}

fn retries() -> impl Strategy<Value = RetryRule> {
    let backoffs =
        prop::sample::select(vec![Backoff::Fixed, Backoff::Linear, Backoff::Exponential]);
    // A code is in at most one of the lists `on` and `never_on`.
    let codes = prop::collection::btree_map(1..=599u16, any::<bool>(), 0..4);
    (0..=1_000u32, secs(0..=2_592_000), backoffs, secs(0..=2_592_000), any::<bool>(), codes)
        .prop_map(|(limit, delay, backoff, longest, jitter, codes)| {
            let listed = |wanted: bool| {
                codes.iter().filter(|(_, is_on)| **is_on == wanted).map(|(code, _)| *code).collect()
            };
            let (on, never_on) = (listed(true), listed(false));
            RetryRule { limit, delay, backoff, max_delay: longest.max(delay), jitter, on, never_on }
        })
}

prop_compose! {
    fn done_checks()(question in actions(), is_always in any::<bool>(), millis in 100..=3_600_000u64) -> DoneCheck {
        let on = if is_always { AskedOn::Always } else { AskedOn::Retry };
        DoneCheck { question, on, timeout: Duration::from_millis(millis) }
    }
}

prop_compose! {
    fn catch_ups()(
        mode in prop::sample::select(vec![CatchUpMode::Skip, CatchUpMode::Latest, CatchUpMode::All]),
        max_age in prop::option::of(secs(1..=315_360_000)),
        max_count in 1..=100_000u32,
        spread in prop::option::of(secs(1..=86_400)),
    ) -> CatchUp {
        CatchUp { mode, max_age, max_count, spread }
    }
}

prop_compose! {
    fn rates()(count in 1..=1_000_000u32, per in 1..=86_400_000u64, burst in 1..=1_000_000u32) -> Rate {
        Rate::new(count, Duration::from_millis(per)).unwrap().with_burst(burst)
    }
}

fn per_keys() -> impl Strategy<Value = PerKey> {
    prop_oneof![
        Just(PerKey::default()),
        (1..=1_000_000u32).prop_map(|limit| PerKey { limit: Some(limit), rate: None }),
        (prop::option::of(1..=1_000_000u32), rates())
            .prop_map(|(limit, rate)| PerKey { limit, rate: Some(rate) }),
    ]
}

prop_compose! {
    fn processes()(
        (memory, cpu, pids, files, nice) in (
            prop::option::of(Limits::MEMORY), prop::option::of(Limits::CPU), prop::option::of(Limits::PIDS),
            prop::option::of(Limits::FILES), prop::option::of(Limits::NICE),
        ),
        user in prop::option::of("[a-z][a-z0-9_-]{0,5}x(:[a-z]{1,5})?"),
        umask in prop::option::of("[0-7]{3}"),
        stdin in prop::option::of("[^\0]{1,9}"),
        shell_program in prop::option::of("/[^\0]{0,9}"),
    ) -> ProcessRules {
        let limits = Limits { memory, cpu, pids, files, nice };
        let umask = umask.map(|text| text.parse().unwrap());
        ProcessRules { user: user.map(|text| text.parse().unwrap()), limits, umask, stdin, shell_program: shell_program.map(Into::into) }
    }
}

prop_compose! {
    pub(super) fn specs()(
        (schedule, shape) in schedules().prop_flat_map(|schedule| (Just(schedule.clone()), shapes(schedule))),
        action in actions(),
        tz in prop::option::of(prop::sample::select(vec!["Europe/Berlin", "UTC", "America/New_York"])),
        (queue, priority, requires) in (
            "[a-z0-9][a-z0-9._-]{0,9}", -10..=10i8, prop::collection::btree_set("[a-z0-9][a-z0-9._-]{0,3}", 0..=8),
        ),
        (key, per_key, not_while) in (
            prop::option::of("[^\u{0}-\u{1f}\u{7f}-\u{9f}]{1,9}"), per_keys(),
            prop::collection::btree_set("[a-z0-9][a-z0-9._-]{0,9}", 0..4),
        ),
        timeout in secs(1..=2_592_000),
        kill_grace in secs(0..=3_600),
        retry in prop_oneof![Just(RetryRule::default()), retries()],
        overlap in prop_oneof![
            Just(Overlap::Skip), Just(Overlap::Replace), Just(Overlap::Allow),
            (1..=100u32).prop_map(|max| Overlap::Queue { max }),
        ],
        catch_up in prop_oneof![Just(CatchUp::default()), catch_ups()],
        late_after in secs(1..=31_536_000),
        (at_most_once, gap, fold, done_check, (env, env_files, log_output), cwd, process) in (
            any::<bool>(),
            prop::option::of(prop::sample::select(Gap::ALL.to_vec())),
            prop::option::of(prop::sample::select(Fold::ALL.to_vec())),
            prop::option::of((done_checks(), 100..=31_536_000_000u64)),
            (
                prop::collection::btree_map("[A-KM-Z_][A-Z0-9_]{0,5}", "[^\0]{0,9}", 0..4),
                prop::collection::vec("-?/[^\0]{1,9}", 0..3),
                any::<bool>(),
            ),
            prop::option::of("/[^\0]{0,9}"),
            processes(),
        ),
        notices in prop::collection::btree_map(prop::sample::select(NoticeKind::ASKED.to_vec()), actions(), 0..4),
    ) -> JobSpec {
        let unique = done_check.as_ref().map(|(_, millis)| {
            let window = Duration::from_millis(*millis);
            let second = match millis % 3 {
                0 => Second::Refused { window: Some(window) },
                1 => Second::Dropped { window },
                _ if matches!(schedule, Schedule::At(_)) => Second::Wins { max_wait: Some(Duration::from_millis(*millis)).filter(|_| millis % 2 == 0) },
                _ => Second::Refused { window: None },
            };
            Unique { key: format!("key {millis}").parse().unwrap(), second }
        });
        let done_check = done_check.map(|(check, _)| check);
        let is_watched = at_most_once && gap.is_some();
        let ping_url = is_watched.then(|| "https://hc-ping.com/{job}?create=1".to_owned());
        let must_start_within = is_watched.then_some(late_after);
        let must_finish_within = fold.map(|_| late_after);
        let secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "${credential:hook}"];
        let webhook_secrets = secrets.iter().take(notices.len()).map(|secret| secret.parse().unwrap()).collect();
        let delivery = if at_most_once && retry.limit == 0 { Delivery::AtMostOnce } else { Delivery::AtLeastOnce };
        let process = process.obeyed_by(Started::of(&action, done_check.as_ref(), notices.values()));
        let plain = JobSpec::with_defaults(Schedule::Manual, Action::Shell(String::new()));
        let spec = JobSpec {
            schedule, shape, action, tz: tz.map(|name| name.parse().unwrap()), dst: ClockChanges { gap, fold },
            group: at_most_once.then(|| "night".parse().unwrap()),
            queue: queue.parse().unwrap(), priority: Priority::new(priority).unwrap(),
            requires: requires.iter().map(|label| label.parse().unwrap()).collect(),
            per_key: key.as_ref().map_or_else(PerKey::default, |_| per_key), key: key.map(|key| key.parse().unwrap()),
            not_while: not_while.iter().map(|job| job.parse().unwrap()).collect(), timeout, kill_grace, retry, overlap, catch_up, late_after, delivery, done_check, notices, env, ping_url, must_start_within, must_finish_within, webhook_secrets,
            env_files: env_files.iter().map(|file| file.parse().unwrap()).collect(),
            log_output,
            cwd: cwd.map(Into::into), process, ..plain
        };
        let traceparent = fold.map(|_| TraceContext::recorded(late_after.as_nanos(), 1));
        JobSpec { unique, traceparent, ..spec }
    }
}

proptest! {
    #[test]
    fn a_job_reads_back_from_its_text_and_gives_the_same_text_again(spec in specs()) {
        let text = to_canonical(&spec);
        let back = from_canonical(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        prop_assert_eq!(&back, &spec);
        prop_assert_eq!(to_canonical(&back), text);
    }

    #[test]
    fn no_text_out_of_redis_is_a_crash(text in "[ -~é{}\":,\\[\\]]{0,80}") {
        let _ = from_canonical(&text);
    }
}

#[test]
fn a_key_of_defaults_is_a_key_of_a_job_and_is_declared_once() {
    let mut names = [names(RULES), names(OWN)].concat();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    // A value that no key can have is refused with the path of its key, by each reader of a key.
    for key in names {
        let text = format!("[jobs.a]\nshell = 'true'\nevery = '1h'\n{key} = [[1]]\n");
        let faults = super::faults(&text);
        assert!(
            faults.iter().any(|fault| fault.contains(&format!("jobs.a.{key}"))),
            "{key}: {faults:?}"
        );
        let stored = format!(r#"{{"every":"1h","shell":"true","{key}":[[1]]}}"#);
        assert!(matches!(from_canonical(&stored), Err(CanonicalError::Corrupt { .. })), "{key}");
    }
}
