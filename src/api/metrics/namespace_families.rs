//! The figures of the whole namespace as metrics. All nodes report the same, so they are not summed.

use super::metric_family::MetricFamily;
use super::namespace_reader::NamespaceFigures;
use super::watched_jobs::JobFigures;
use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns the figures of the namespace as metrics. Without figures only `schedd_namespace_up` has a
/// sample.
pub(super) fn namespace_families(figures: Option<&NamespaceFigures>) -> Vec<MetricFamily> {
    let mut families = vec![MetricFamily::value(
        "schedd_namespace_up",
        "1 if this node could read the figures of the namespace from Redis.",
        Some(if figures.is_some() { 1.0 } else { 0.0 }),
    )];
    families.extend(queue_families(figures));
    families.extend(count_families(figures));
    families.extend(job_families(figures));
    families
}

fn queue_families(figures: Option<&NamespaceFigures>) -> Vec<MetricFamily> {
    let queues = || figures.iter().flat_map(|figures| &figures.queues);
    let label = |queue: &str| vec![("queue", queue.to_owned())];
    vec![
        MetricFamily::gauge(
            "schedd_namespace_queue_depth",
            "Ready runs of the queue.",
            queues().map(|(queue, load)| (label(queue), number(load.ready))),
        ),
        MetricFamily::gauge(
            "schedd_namespace_queue_oldest_seconds",
            "Time since the oldest ready run of the queue became ready. 0 without ready runs.",
            queues().map(|(queue, load)| (label(queue), load.oldest.as_secs_f64())),
        ),
        MetricFamily::gauge(
            "schedd_namespace_queue_running",
            "Runs of the queue that all nodes execute.",
            queues().map(|(queue, load)| (label(queue), number(load.running))),
        ),
    ]
}

fn count_families(figures: Option<&NamespaceFigures>) -> Vec<MetricFamily> {
    let value = |name, meaning, count: fn(&NamespaceFigures) -> u64| {
        MetricFamily::value(name, meaning, figures.map(|figures| number(count(figures))))
    };
    let findings = figures.iter().flat_map(|figures| &figures.findings);
    vec![
        value("schedd_namespace_jobs", "Live jobs.", |figures| figures.jobs),
        value(
            "schedd_namespace_dead_letters",
            "Runs that failed for good and are kept for a retry.",
            |figures| figures.dead_letters,
        ),
        value(
            "schedd_namespace_notices_waiting",
            "Notices that are not delivered yet.",
            |figures| figures.notices_waiting,
        ),
        MetricFamily::gauge(
            "schedd_namespace_findings",
            "Findings of the consistency check. Absent without findings.",
            findings.map(|(rule, count)| (vec![("rule", rule.clone())], number(*count))),
        ),
    ]
}

fn job_families(figures: Option<&NamespaceFigures>) -> Vec<MetricFamily> {
    let jobs = || figures.iter().flat_map(|figures| &figures.jobs_watched);
    let each = |name, meaning, value: fn(&JobFigures) -> Option<f64>| {
        let samples = jobs().filter_map(|job| {
            Some((vec![("job_name", job.name.as_str().to_owned())], value(job)?))
        });
        MetricFamily::gauge(name, meaning, samples)
    };
    vec![
        each(
            "schedd_job_last_success_timestamp_seconds",
            "Time at which a run of the job succeeded last. Absent if no such run is known.",
            |job| job.last_success.map(UnixMillis::as_seconds),
        ),
        each(
            "schedd_job_next_due_timestamp_seconds",
            "Time at which the job is due next. Absent if no run is planned.",
            |job| job.next_due.map(UnixMillis::as_seconds),
        ),
        each(
            "schedd_job_failing",
            "1 if the run of the job that ended last failed, timed out or was lost.",
            |job| Some(if job.is_failing { 1.0 } else { 0.0 }),
        ),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52, for display")]
fn number(count: u64) -> f64 {
    count as f64
}
