//! The figures of single jobs, which only `[metrics] jobs` switches on.

use super::{ApiNode, Scraped};
use crate::support::redis::TestRedis;

/// The names of the jobs that have figures of their own.
fn jobs_of(scraped: &Scraped) -> Vec<&str> {
    let failing = scraped.samples.keys().filter_map(|series| {
        series.strip_prefix("schedd_job_failing{job_name=\"")?.strip_suffix("\"}")
    });
    failing.collect()
}

fn jobs(allowed: &str, flag: &str) -> String {
    format!(
        "[metrics]\njobs = [{allowed}]\n\
         [jobs.backup]\ncron = \"0 0 1 1 *\"\nshell = \"test ! -e {flag}\"\n\
         [jobs.report-a]\nshell = \"false\"\n[jobs.report-b]\nshell = \"true\"\n\
         [jobs.other]\nshell = \"true\"\n"
    )
}

#[test]
fn only_the_jobs_that_the_file_names_have_figures_of_their_own() {
    let redis = TestRedis::start();
    let flags = tempfile::tempdir().unwrap();
    let flag = flags.path().join("flag");
    let flag_text = flag.display().to_string();
    let node = ApiNode::start(&redis, &jobs("\"backup\", \"report-*\", \"none\"", &flag_text));
    assert_eq!(node.run("backup"), 0);
    let succeeded = jiff::Timestamp::now().as_millisecond();
    std::fs::write(&flag, "").unwrap();
    assert_ne!(node.run("backup"), 0);
    assert_ne!(node.run("report-a"), 0);
    let scraped = node.scrape();
    assert_eq!(jobs_of(&scraped), ["backup", "report-a", "report-b"]);
    scraped.has(&[
        ("schedd_job_failing{job_name=\"backup\"}", 1.0),
        ("schedd_job_failing{job_name=\"report-a\"}", 1.0),
        ("schedd_job_failing{job_name=\"report-b\"}", 0.0),
    ]);
    let next = scraped.value("schedd_job_next_due_timestamp_seconds{job_name=\"backup\"}");
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let now = succeeded as f64 / 1_000.0;
    assert!(next > now && next < now + 367.0 * 86_400.0, "{next}");
    let last = scraped.value("schedd_job_last_success_timestamp_seconds{job_name=\"backup\"}");
    assert!(last > now - 60.0 && last < now + 1.0, "{last}, the success ended before {now}");
    assert!(!scraped.text.contains("_timestamp_seconds{job_name=\"report-"), "{}", scraped.text);
    assert!(!scraped.text.contains("\"other\""), "{}", scraped.text);

    // A reload changes the list at the next reading.
    node.reload(&jobs("\"other\"", &flag_text));
    let changed = node.scrape_until("schedd_job_failing{job_name=\"other\"}", 0.0);
    assert_eq!(jobs_of(&changed), ["other"]);
}
