//! The figures of this node as metrics. Sums over all nodes are meaningful.

use super::metric_family::MetricFamily;
use schedd::engine::{NodeFigures, QueueCounts};
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The value of the label `queue` for all queues without a value of their own. No queue has this
/// name.
pub(super) const OTHER_QUEUES: &str = "(other)";

/// Returns the figures of this node, which belongs to `namespace`, as metrics.
pub(super) fn node_families(figures: &NodeFigures, namespace: &str) -> Vec<MetricFamily> {
    let mut families = run_families(figures);
    families.extend(redis_families(figures));
    families.extend(state_families(figures, namespace));
    families
}

fn queue_of(counts: &QueueCounts) -> (&'static str, String) {
    let name = counts.queue.as_ref().map_or(OTHER_QUEUES, QueueName::as_str);
    ("queue", name.to_owned())
}

fn run_families(figures: &NodeFigures) -> Vec<MetricFamily> {
    let counts = &figures.counts;
    let ends = counts.queues.iter().flat_map(|queue| {
        queue.ends.iter().map(|(state, count)| {
            (vec![("state", state.as_str().to_owned()), queue_of(queue)], *count)
        })
    });
    let claims = counts.claims.iter();
    let slots = figures.slots.iter();
    vec![
        MetricFamily::counter("schedd_runs", "Runs whose end this node recorded.", ends),
        MetricFamily::histogram(
            "schedd_run_lateness_seconds",
            "Time from due to start of runs that started for the first time.",
            counts.queues.iter().map(|queue| (vec![queue_of(queue)], queue.lateness.clone())),
        ),
        MetricFamily::histogram(
            "schedd_run_duration_seconds",
            "Duration of attempts that succeeded or failed.",
            counts.queues.iter().map(|queue| (vec![queue_of(queue)], queue.durations.clone())),
        ),
        #[expect(clippy::cast_precision_loss, reason = "a node executes far fewer than 2^52 runs")]
        MetricFamily::value(
            "schedd_running",
            "Runs that this node executes.",
            Some(figures.running as f64),
        ),
        MetricFamily::gauge(
            "schedd_slots",
            "Runs of the queue that this node may execute at once.",
            slots.map(|(queue, slots)| {
                (vec![("queue", queue.as_str().to_owned())], f64::from(*slots))
            }),
        ),
        MetricFamily::counter(
            "schedd_claims",
            "Answers to the claims of this node, by outcome.",
            claims.map(|(outcome, count)| (vec![("outcome", (*outcome).to_owned())], *count)),
        ),
        MetricFamily::counter(
            "schedd_leases_lost",
            "Runs whose lease this node lost.",
            [(vec![], counts.leases_lost)],
        ),
        MetricFamily::counter(
            "schedd_recoveries",
            "Runs that this node took back from lost nodes.",
            [(vec![], counts.recoveries)],
        ),
    ]
}

fn redis_families(figures: &NodeFigures) -> Vec<MetricFamily> {
    let scripts = figures.scripts.iter();
    vec![
        MetricFamily::histogram(
            "schedd_redis_script_seconds",
            "Time from the call of a script to the answer of Redis.",
            scripts.map(|(script, times)| (vec![("script", (*script).to_owned())], times.clone())),
        ),
        MetricFamily::counter(
            "schedd_redis_reconnects",
            "Connections to Redis that replaced a lost connection.",
            [(vec![], figures.reconnects)],
        ),
        MetricFamily::value(
            "schedd_redis_up",
            "1 if Redis answered the last call of this node.",
            flag(Some(figures.is_redis_up)),
        ),
        #[expect(clippy::cast_precision_loss, reason = "a difference of clocks, for display")]
        MetricFamily::value(
            "schedd_clock_offset_seconds",
            "Time by which the clock of this host is ahead of the clock of Redis.",
            Some(figures.clock_offset_ms as f64 / 1_000.0),
        ),
    ]
}

fn state_families(figures: &NodeFigures, namespace: &str) -> Vec<MetricFamily> {
    let has_read = figures.is_file_refused || figures.file_applied_at.is_some();
    let build = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("node", figures.node.as_str().to_owned()),
        ("namespace", namespace.to_owned()),
    ];
    vec![
        MetricFamily::value(
            "schedd_keeper_up",
            "1 if the keeper of this node answers.",
            flag(Some(figures.is_keeper_up)),
        ),
        MetricFamily::value(
            "schedd_config_last_reload_success",
            "1 if this node accepted the present jobs file. Absent without a jobs file.",
            flag(has_read.then_some(!figures.is_file_refused)),
        ),
        MetricFamily::value(
            "schedd_config_last_reload_timestamp_seconds",
            "Time at which this node accepted a jobs file last.",
            figures.file_applied_at.map(UnixMillis::as_seconds),
        ),
        MetricFamily::gauge(
            "schedd_build_info",
            "Version of this schedd, name of the node and of its namespace.",
            [(build, 1.0)],
        ),
    ]
}

fn flag(value: Option<bool>) -> Option<f64> {
    value.map(|value| if value { 1.0 } else { 0.0 })
}
