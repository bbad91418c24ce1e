//! What a claim costs Redis with each thing a run may have to pass, and without: in microseconds of its CPU a run, the median of many
//! calls of 50. The calls of all forms are made in turn, so that whatever else the machine does falls upon all of them alike.

use std::fmt::Write as _;
use std::time::Duration;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::queue::gate::{Gate, PerKey};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_core::domain::queue::rate::Rate;
use schedd_schedule::names::QueueName;
use schedd_store::{
    Blocking, ClaimOrder, ClaimReply, Claimant, JobRecord, Section, SectionText, Successor,
};
use serde_json::json;

use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::{cpu_seconds, insist_on_lines, memory, percentile};

/// Jobs of each form, all recurring and due at once.
const JOBS: usize = 10_000;
/// Runs claimed in one call.
const BATCH: usize = 50;

/// What a run has to pass: the gates of the `n`-th job.
type Passed = fn(usize) -> Vec<String>;

/// One form, with a Redis of its own.
struct Form {
    what: &'static str,
    redis: TestRedis,
    eye: Eye,
    calls: Vec<Vec<ClaimOrder>>,
    micros: Vec<f64>,
}

/// Prints the cost of each form.
pub(crate) fn claim() {
    let rate: Option<Rate> = "1000000/1s".parse().ok();
    let plain: Passed = |_| Vec::new();
    let forms: [(&'static str, Option<u32>, Option<Rate>, Passed); 9] = [
        ("nothing to pass", None, None, plain),
        ("a queue with a limit", Some(1_000_000), None, plain),
        ("a queue with a rate", None, rate, plain),
        ("a queue with both", Some(1_000_000), rate, plain),
        ("a key of its own", None, None, |n| vec![format!("key:k{n}")]),
        ("a group of its own", None, None, |n| vec![format!("group:g{n}")]),
        ("a job of not_while", None, None, |n| vec![format!("job:b{n}")]),
        ("a group, a job and a key", None, None, |n| {
            vec![format!("group:g{n}"), format!("job:b{n}"), format!("key:k{n}")]
        }),
        ("a key that is taken: it waits", None, None, |_| vec!["key:one".to_owned()]),
    ];
    let mut forms: Vec<Form> = forms
        .into_iter()
        .map(|(what, limit, rate, passed)| {
            Form::new(what, &QueueSettings { limit, rate, ..QueueSettings::default() }, passed)
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    for number in 0..JOBS / BATCH {
        for form in &mut forms {
            form.call(number);
        }
    }
    let mut own = None;
    for form in &mut forms {
        form.micros.sort_by(f64::total_cmp);
        let (half, tenth, most) = (
            percentile(&form.micros, 0.5),
            percentile(&form.micros, 0.1),
            percentile(&form.micros, 0.9),
        );
        let plain = *own.get_or_insert(half);
        let (more, times) = (half - plain, half / plain);
        let bytes = memory(&mut form.redis.connection());
        println!(
            "{half:.1} us of Redis' CPU a run (p10 {tenth:.1}, p90 {most:.1}), {more:+.1}, {times:.2} times; {bytes} bytes of its memory in all: {}",
            form.what
        );
    }
}

impl Form {
    fn new(what: &'static str, settings: &QueueSettings, passed: Passed) -> Self {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let section = Section::Queue(QueueName::default_queue());
        let text = SectionText::Queue(settings.clone());
        eye.ask(eye.store().declare_section(&"n1".parse().unwrap(), &section, Some(&text)))
            .unwrap();
        let mut lines = String::new();
        for number in 0..JOBS {
            writeln!(
                lines,
                "{}",
                json!({"name": format!("n{number}"), "every": "1s", "shell": "true"})
            )
            .unwrap();
        }
        insist_on_lines(&redis, &lines);
        let names = eye.ask(eye.store().list_jobs(0, JOBS)).unwrap();
        let calls = names.chunks(BATCH).map(|names| {
            let jobs = eye.ask(eye.store().read_jobs(names)).unwrap();
            jobs.into_iter().map(|job| order(job.unwrap().unwrap(), passed)).collect()
        });
        let calls = calls.collect();
        Self { what, redis, eye, calls, micros: Vec::new() }
    }

    fn call(&mut self, number: usize) {
        let lease = Duration::from_secs(60);
        let claimant = Claimant {
            holder: "n1".to_owned(),
            incarnation: "i".to_owned(),
            lease,
            claim_note: None,
        };
        let (orders, token, lane) =
            (&self.calls[number], format!("t{number}"), Lane::default_lane());
        let mut connection = self.redis.connection();
        // Asking costs too: once in between, as between the two that are told apart.
        let first = cpu_seconds(&mut connection);
        let before = cpu_seconds(&mut connection);
        let replies = self
            .eye
            .ask(self.eye.store().claim_runs(usize::MAX, &claimant, &lane, &token, orders))
            .unwrap();
        let after = cpu_seconds(&mut connection);
        assert!(replies.iter().all(|reply| matches!(
            reply,
            ClaimReply::Claimed(_) | ClaimReply::Blocked(Blocking::AtGate)
        )));
        #[expect(clippy::cast_precision_loss, reason = "fifty")]
        self.micros.push((after - before - (before - first)) * 1e6 / BATCH as f64);
    }
}

fn order(job: JobRecord, passed: Passed) -> ClaimOrder {
    let run = job.pending.unwrap();
    let number = job.name.as_str()[1..].parse().unwrap();
    let successor =
        Some(Successor::on_time(&job.name, run.due().saturating_add(Duration::from_secs(60))));
    ClaimOrder {
        run,
        rev: job.rev,
        delivery: Delivery::AtLeastOnce,
        overlap: Overlap::Skip,
        max_caught_up: None,
        max_age: None,
        latest_start: None,
        max_runs: None,
        successor,
        job_lane: job.lane,
        gates: passed(number).iter().map(|name| Gate::from_name(name).unwrap()).collect(),
        known_places: Vec::new(),
        per_key: PerKey::default(),
    }
}
