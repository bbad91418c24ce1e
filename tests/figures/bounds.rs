//! What history and the ledger cost: bytes a run, microseconds of Redis a run, and how long a large trim takes.

use std::time::Instant;

use schedd_store::{ApplyOrder, DefinitionChange, Existing, SourceKind, Store, Successor};

use super::info;
use super::support::eye::Eye;
use super::support::redis::TestRedis;

/// Runs of one job in history.
const RUNS: i64 = 1_000_000;
const BATCH: i64 = 10_000;
const FIRST: i64 = 1_700_000_000_000;

/// One run's record as a node writes it: the fields of a claim and an end.
const FACTS: [(&str, &str); 24] = [
    ("job", "nightly-report"),
    ("due", "1700000000000"),
    ("queue", "default"),
    ("kind", "regular"),
    ("rev", "1790000000000000"),
    ("attempt", "1"),
    ("fence", "1790000000000000"),
    ("claim", "0123456789abcdef"),
    ("node", "web-1.example.org"),
    ("incarnation", "0123456789abcdef"),
    ("lease_ms", "10000"),
    ("lease_end", "1700000010000"),
    ("started_at", "1700000000003"),
    ("finished_at", "1700000000103"),
    ("claimed_before", "0"),
    ("verdict_fence", "1790000000000000"),
    ("verdict", "succeeded"),
    ("exit_code", "0"),
    ("signal", ""),
    ("http_status", ""),
    ("error", ""),
    ("left_processes", "0"),
    ("unclear", "0"),
    ("reason", ""),
];

/// Fills history with `runs` runs of one job that end as `state` says.
pub(crate) fn fill(redis: &TestRedis, runs: i64, state: impl Fn(i64) -> &'static str) {
    let mut connection = redis.connection();
    for from in (0..runs).step_by(usize::try_from(BATCH).unwrap()) {
        let mut pipeline = redis::pipe();
        for number in from..from + BATCH {
            let due = FIRST + number * 1_000;
            let id = format!("nightly-report@{due}");
            pipeline
                .cmd("HSET")
                .arg(format!("{{schedd}}:run:{id}"))
                .arg(&FACTS[..])
                .arg("state")
                .arg(state(number))
                .ignore();
            for index in ["history", "history:nightly-report"] {
                pipeline.cmd("ZADD").arg(format!("{{schedd}}:{index}")).arg(due).arg(&id).ignore();
            }
        }
        pipeline.exec(&mut connection).unwrap();
    }
}

async fn define(store: &Store) {
    let name: schedd_schedule::names::JobName = "nightly-report".parse().unwrap();
    let planted = Some(Successor::on_time(
        &name,
        schedd_schedule::time::unix_millis::UnixMillis::new(FIRST + RUNS * 2_000).unwrap(),
    ));
    let order = ApplyOrder {
        name,
        definition: "{}".to_owned(),
        read: None,
        kind: SourceKind::Api,
        source: "figures".to_owned(),
        token: "t".to_owned(),
        tz: "UTC".to_owned(),
        lane: schedd_core::domain::queue::lane::Lane::default_lane(),
        notify: String::new(),
        not_while: std::collections::BTreeSet::new(),
        after: String::new(),
        delay: None,
        max_runs: None,
        is_once: false,
        change: DefinitionChange::Schedule,
        planted,
        anchor: schedd_schedule::time::unix_millis::UnixMillis::EPOCH,
        existing: Existing::Edit,
        planned: None,
        passed: None,
        schedules: None,
        unique: None,
        old_key: None,
        old_gates: Vec::new(),
        gated: None,
    };
    store.apply_job(&order).await.unwrap();
}

/// What the script calls of so many microseconds and more cost: their number and microseconds in all, and the longest.
fn script_cost(connection: &mut redis::Connection) -> (u64, u64, u64) {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"))
        .unwrap_or_default()
        .to_owned();
    let field = |name: &str| {
        let value =
            line.split([':', ',']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let entries: Vec<Vec<redis::Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(-1).query(connection).unwrap();
    let micros = entries
        .iter()
        .filter_map(|entry| redis::from_redis_value::<u64>(entry.get(2)?.clone()).ok());
    (field("calls"), field("usec"), micros.max().unwrap_or(0))
}

/// What is measured: its name, whether the job is defined, and how its runs end.
type Case = (&'static str, bool, fn(i64) -> &'static str);

/// History of a million runs of one job, trimmed to 1,000: without a ledger (the job is gone), with one range, with the most.
pub(super) fn bounds() {
    let cases: [Case; 3] = [
        ("no ledger, its job is gone", false, |_| "succeeded"),
        ("all ended alike: one range", true, |_| "succeeded"),
        ("no two in a row ended alike: 1,000 ranges", true, |number| {
            if number % 2 == 0 { "succeeded" } else { "skipped" }
        }),
    ];
    for (what, is_defined, state) in cases {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let mut connection = redis.connection();
        if is_defined {
            eye.ask(define(eye.store()));
        }
        let empty = info(&mut connection, "used_memory:");
        fill(&redis, RUNS, state);
        let full = info(&mut connection, "used_memory:");
        for setting in [
            &["SET", "slowlog-log-slower-than", "200"][..],
            &["SET", "slowlog-max-len", "100000"],
            &["RESETSTAT"],
        ] {
            let () = redis::cmd("CONFIG").arg(setting).query(&mut connection).unwrap();
        }
        let () = redis::cmd("SLOWLOG").arg("RESET").query(&mut connection).unwrap();
        let job = "nightly-report".parse().unwrap();
        let started = Instant::now();
        let zero = schedd_schedule::time::unix_millis::UnixMillis::EPOCH;
        // On a busy machine an answer may come late; a step repeated does what is left.
        while eye
            .ask(eye.store().forget_runs(Some(&job), zero, 1_000))
            .map_or_else(|error| error.is_passing(), |left| left > 0)
        {}
        let took = started.elapsed();
        let (calls, micros, longest) = script_cost(&mut connection);
        let ledger: u64 = redis::cmd("MEMORY")
            .arg(&["USAGE", "{schedd}:ledger:nightly-report", "SAMPLES", "0"])
            .query(&mut connection)
            .unwrap_or(0);
        let ranges = eye.ask(eye.store().read_ledger(&job)).unwrap().ranges.len();
        println!("{what}");
        #[expect(clippy::cast_precision_loss, reason = "figures")]
        let (a_run, trimmed) = ((full - empty) as f64 / RUNS as f64, (RUNS - 1_000) as f64);
        #[expect(clippy::cast_precision_loss, reason = "figures")]
        let each = micros as f64 / trimmed;
        println!("  {a_run:.0} bytes of Redis memory a run in history");
        println!(
            "  {trimmed:.0} runs trimmed in {:.1} s: {calls} script calls, {each:.2} us of Redis a run, the longest call {:.2} ms",
            took.as_secs_f64(),
            f64::from(u32::try_from(longest).unwrap_or(u32::MAX)) / 1_000.0
        );
        println!("  ledger: {ranges} ranges, {ledger} bytes");
    }
}
