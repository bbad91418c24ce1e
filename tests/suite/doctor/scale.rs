//! Many findings at once: what they have in common is read by the page.

use schedd::engine::maintenance::full_check::examine;

use super::desk::{Desk, demand};

/// How often Redis was asked `command` since it last forgot.
fn calls(desk: &Desk, command: &str) -> u64 {
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut desk.redis.connection()).unwrap();
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn what_many_findings_have_in_common_is_read_once_a_page_of_them() {
    const JOBS: usize = 250;
    let desk = Desk::new();
    let mut runs = Vec::new();
    for at in 0..JOBS {
        runs.push(desk.minutely(&format!("j{at}")).await);
    }
    desk.break_by("DEL", "due:default", &[]);
    // Runs that wait for nothing: whether one asked for by hand is out is looked up in the whole due set.
    for run in &runs[..150] {
        desk.break_by(
            "ZADD",
            &format!("waiting:{}", run.job()),
            &["5", &format!("{}@5", run.job())],
        );
    }
    let store = desk.at(0);
    let exam = examine(&store).await.unwrap();
    demand(&exam.findings, "missing:due", "job j7");
    demand(&exam.findings, "extra:waiting", "job j7");
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut desk.redis.connection()).unwrap();
    let (mended, left) = exam.mend(&store).await.unwrap();
    assert!(mended.len() >= JOBS, "{}", mended.len());
    assert!(left.findings.is_empty(), "{:#?}", left.findings);
    for run in &runs {
        assert_eq!(desk.pending(run.job().as_str()).await, *run);
    }
    let (zscans, zranges) = (calls(&desk, "zscan"), calls(&desk, "zrange"));
    // Each consistency check scans each of the sets once; a job costs a few reads in its own script.
    assert!(zscans < 4 * JOBS as u64, "{zscans} scans of sets");
    assert!(zranges < 2 * JOBS as u64, "{zranges} reads of ranges");
}
