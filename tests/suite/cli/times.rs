//! Times as the verbs print them: in the zone of the host, with its name, and read back as they are printed.

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;
use crate::cli::runs::played::Facts;
use crate::support::ctl::Schedctl;

/// Returns the times in an output, such as `Mon 2026-11-23 02:30:00 EST`, with the zone after them if it is named.
fn times_in(output: &str) -> Vec<String> {
    let words: Vec<&str> = output
        .split_whitespace()
        .map(|word| word.trim_matches(['(', ')', '.', ',', ';']))
        .collect();
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let is_time = |at: usize| {
        let length = |after: usize| words.get(at + after).map_or(0, |word| word.len());
        days.contains(&words[at]) && length(1) == 10 && length(2) == 8 && length(3) > 0
    };
    let is_zoned = |at: usize| {
        words.get(at + 4) == Some(&"in") && words.get(at + 5).is_some_and(|zone| zone.contains('/'))
    };
    let time = |at: usize| words[at..at + if is_zoned(at) { 6 } else { 4 }].join(" ");
    (0..words.len()).filter(|at| is_time(*at)).map(time).collect()
}

#[test]
fn a_time_copied_from_any_output_means_the_same_as_input() {
    let bench = Bench::start();
    let ctl = Schedctl::on(&bench.redis).env("TZ", "America/New_York");
    let add = |words: &[&str]| ctl.run(&[&["add"], words].concat()).good();
    add(&["--name", "j", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--shell", "true"]);
    add(&["--name", "paused", "--every", "1h", "--shell", "true"]);
    ctl.run(&["pause", "paused"]).good();
    add(&["--name", "done", "--in", "0s", "--shell", "true"]);
    let claim = bench.node.claim("done");
    bench.node.finish(&claim, RunState::Failed, Facts::default());
    bench.node.beat("");
    let run = ctl.run(&["history", "done", "--json"]).good().json()[0]["run_id"].clone();
    let run = run.as_str().unwrap();
    // Each of these shows at least one time.
    for verb in [
        &["list", "--all"][..],
        &["history", "done"],
        &["show", "j"],
        &["show", "paused"],
        &["show", run],
        &["next", "j", "-n", "400"],
        &["next", "0 12 * * *"],
        &["explain", "j"],
        &["explain", run],
        &["nodes"],
        &["pause", "j"],
        &["explain", "j"],
        &["resume", "j"],
        &["backfill", "j", "--from", "2d", "--dry-run"],
    ] {
        let finished = ctl.run(verb).good();
        let mut times = times_in(&finished.stdout);
        times.extend(times_in(&finished.stderr));
        assert!(!times.is_empty() || verb[0] == "pause", "{verb:?}: {finished:?}");
        times.sort();
        times.dedup();
        // A year of times has summer and winter time, and needs only some of its times.
        for time in times.iter().step_by(1 + times.len() / 12) {
            let words: Vec<&str> = time.split(' ').collect();
            let zone = words.get(5).copied().unwrap_or("America/New_York");
            let read = ctl.run(&["explain", "j", "--at", time, "--tz", zone]).good().stderr;
            let offset = match (words[3], zone) {
                ("EST", "America/New_York") => "-05:00",
                ("EDT", "America/New_York") => "-04:00",
                ("CET", "Europe/Berlin") => "+01:00",
                ("CEST", "Europe/Berlin") => "+02:00",
                other => panic!("{verb:?} shows a time of {other:?}: {time}"),
            };
            let wanted = format!("at {}T{}.000{offset} ({zone})\n", words[1], words[2]);
            let plain = ctl.run(&["explain", "j", "--at", time, "--json"]).good().json();
            let other = ctl.run(&["explain", "j", "--at", time, "--tz", zone, "--json"]).good();
            assert_eq!(plain["at"], other.json()["at"], "{verb:?}: {time}");
            assert!(read.starts_with(&wanted), "{verb:?} shows {time}, read as {read}");
        }
    }
    let now = times_in(&ctl.run(&["history", "done"]).good().stdout).remove(0);
    let later = ctl.run(&["history", "--since", &now, "--json"]).good().json();
    assert_eq!(later[0]["run_id"], run);
    assert!(ctl.run(&["history", "--until", &now, "--json"]).good().json()[0].is_null());
    let next = ctl.run(&["next", "@hourly", "--from", &now]).good();
    assert!(next.stderr.contains("(America/New_York)"), "{next:?}");
}

#[test]
fn a_job_of_another_zone_is_shown_by_both_clocks_and_a_given_zone_reads_both() {
    let bench = Bench::start();
    bench.add(&["--name", "j", "--cron", "30 2 * * *", "--tz", "Asia/Tokyo", "--shell", "true"]);
    let tokyo = "02:30:00 JST in Asia/Tokyo";
    for verb in [&["next", "j"][..], &["show", "j"], &["explain", "j"]] {
        let shown = bench.ctl.run(verb).good().stdout;
        assert!(shown.contains("17:30:00 UTC") && shown.contains(tokyo), "{verb:?}: {shown}");
    }
    let asked = bench.ctl.run(&["explain", "j", "--at", "2030-01-02 17:30"]).good();
    assert!(asked.stderr.starts_with("at 2030-01-02T17:30:00.000Z (UTC)"), "{asked:?}");
    let both = format!("j at Wed 2030-01-02 17:30:00 UTC (Thu 2030-01-03 {tokyo})");
    assert!(asked.stdout.contains(&both), "{asked:?}");
    let asked =
        bench.ctl.run(&["explain", "j", "--at", "2030-01-03 02:30", "--tz", "Asia/Tokyo"]).good();
    assert!(asked.stdout.contains("j at Thu 2030-01-03 02:30:00 JST\n"), "{asked:?}");
    bench.ctl.run(&["explain", "j", "--tz", "Mars"]).refused(2, &["--tz", "Mars"]);
    let text = bench.ctl.run(&["next", "j", "--no-headers"]).good().stdout;
    assert!(text.lines().all(|line| line.contains(" JST in Asia/Tokyo  in ")), "{text}");
}
