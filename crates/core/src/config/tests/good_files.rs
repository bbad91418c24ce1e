use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{compile, good, job, queue, warnings};
use crate::config::canonical::canonical_job::{from_canonical, to_canonical};
use crate::config::{DaemonConfig, HistoryConfig, OutputConfig};
use crate::domain::job::job_spec::{Action, AskedOn, Delivery, Overlap, RetryRule};
use crate::domain::job::process_limits::Limits;
use crate::domain::queue::gate::{PerKey, SharedKey};
use crate::domain::queue::group_rules::{GroupSettings, TurnRules};
use crate::domain::queue::queue_rules::{QueueSettings, Share};
use crate::domain::queue::rate::Rate;
use schedd_schedule::lateness::{CatchUp, CatchUpMode};
use schedd_schedule::schedule_form::{CronExpr, Schedule};

const HOUR: u64 = 3_600;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_example_of_the_design_says_what_it_says() {
    let config = good(
        r#"
[redis]
url = "redis://127.0.0.1:6379/0"

[daemon]
tick = "100ms"
lease = "10s"
shutdown_grace = "30s"

[defaults]                               # any key of a job
timeout = "1h"
tz = "Europe/Berlin"

[queues.default]
concurrency = 32                         # per node

[jobs.backup]
cron = "30 2 * * *"
tz = "Europe/Berlin"
shell = "pg_dump app | gzip > /var/backups/app.sql.gz"    # /bin/sh -c
timeout = "2h"
retry = { limit = 3, delay = "1m", backoff = "exponential", max_delay = "1h", jitter = true }
overlap = "skip"
delivery = "at-least-once"
catch_up = { mode = "latest", max_age = "12h" }
queue = "default"

[jobs.report]
at = "2026-12-24T09:00:00+01:00"         # one-shot
command = ["/usr/local/bin/report", "--year", "2026"]     # argv, no shell
env = { LANG = "C.UTF-8" }
cwd = "/srv/report"

[jobs.ping]
every = "30s"
http = { method = "POST", url = "https://example.com/ping", headers = { X-From = "schedd" }, body = "{}", expect = [200, 204] }
"#,
    );
    assert_eq!(config.redis.url.as_deref(), Some("redis://127.0.0.1:6379/0"));
    assert_eq!(config.daemon, DaemonConfig::default());
    assert_eq!(config.queues[&queue("default")].concurrency, 32);

    let backup = job(&config, "backup");
    assert!(matches!(&backup.schedule, Schedule::Cron(list) if list[0].as_str() == "30 2 * * *"));
    assert_eq!(
        backup.action,
        Action::Shell("pg_dump app | gzip > /var/backups/app.sql.gz".to_owned())
    );
    assert_eq!(backup.timeout, secs(2 * HOUR));
    assert_eq!(
        backup.retry,
        RetryRule { limit: 3, delay: secs(60), max_delay: secs(HOUR), ..RetryRule::default() }
    );
    assert_eq!(backup.catch_up, CatchUp { max_age: Some(secs(12 * HOUR)), ..CatchUp::default() });

    let report = job(&config, "report");
    assert!(
        matches!(report.schedule, Schedule::At(at) if at.to_string() == "2026-12-24T08:00:00.000Z")
    );
    assert_eq!(report.tz.unwrap().as_str(), "Europe/Berlin");
    assert_eq!(report.cwd, Some(PathBuf::from("/srv/report")));
    assert_eq!(report.timeout, secs(HOUR));

    let ping = job(&config, "ping");
    assert_eq!(ping.schedule, Schedule::Every(secs(30)));
    let Action::Http(request) = ping.action else { panic!("{ping:?}") };
    assert_eq!((request.method.as_str(), request.body.as_str()), ("POST", "{}"));
    assert_eq!((request.headers["X-From"].as_str(), request.expect), ("schedd", vec![200, 204]));
}

#[test]
fn the_example_file_has_no_problems_and_no_warnings() {
    let config = good(include_str!("../../../../../jobs.toml"));
    assert_eq!(config.warnings, []);
    assert!(config.jobs.len() >= 5);
}

#[test]
fn what_jobs_share_is_read_as_it_is_written() {
    let config = good(
        "[queues.a]\nlimit = 5\nrate = '100/1m'\nweight = 3\npaused = true\n[queues.b]\nrate = '10/s'\nburst = 2\nstrict = true\n\
         [groups.x]\nmode = 'exclusive'\n[groups.y]\nmode = 'alternate'\norder = ['j', 'elsewhere']\ngap = '5s'\n\
         [jobs.j]\nshell = 'true'\ngroup = 'y'\nqueue = 'b'\n",
    );
    let plain = QueueSettings::default();
    let rate: Rate = "100/1m".parse().unwrap();
    let a = QueueSettings {
        limit: Some(5),
        rate: Some(rate),
        share: Share::Weight(3),
        is_paused: true,
        ..plain.clone()
    };
    let rate = "10/1s".parse::<Rate>().unwrap().with_burst(2);
    assert_eq!(config.queues[&queue("a")], a);
    assert_eq!(
        config.queues[&queue("b")],
        QueueSettings { rate: Some(rate), share: Share::Strict, ..plain }
    );
    let order = vec!["j".parse().unwrap(), "elsewhere".parse().unwrap()];
    let turns = GroupSettings::Alternate(TurnRules { order, gap: secs(5), turn_timeout: secs(60) });
    assert_eq!(config.groups.into_values().collect::<Vec<_>>(), [GroupSettings::Exclusive, turns]);
    assert_eq!(
        config.jobs.values().next().unwrap().spec().unwrap().group,
        Some("y".parse().unwrap())
    );
}

#[test]
fn limits_are_merged_one_by_one_with_those_of_defaults() {
    let config = good(
        "[defaults]\nlimits = { memory = '1G', nice = 5 }\numask = '077'\n\
         [jobs.a]\nshell = 'true'\nlimits = { memory = '512M', cpu = 0.5, pids = 100, files = 1024 }\n[jobs.b]\nshell = 'true'\n",
    );
    let (a, b) = (job(&config, "a").process, job(&config, "b").process);
    let all = Limits {
        memory: Some(512 << 20),
        cpu: Some(500),
        pids: Some(100),
        files: Some(1024),
        nice: Some(5),
    };
    assert_eq!((a.limits, a.umask.unwrap().bits()), (all, 0o77));
    assert_eq!(b.limits, Limits { memory: Some(1 << 30), nice: Some(5), ..Limits::default() });
}

#[test]
fn an_empty_file_has_no_jobs_and_declares_no_queue() {
    for text in ["", "\u{feff}", "\n# nothing\n"] {
        let config = good(text);
        assert!(config.jobs.is_empty());
        assert!(config.queues.is_empty() && config.groups.is_empty());
        assert_eq!((config.daemon, config.redis.url), (DaemonConfig::default(), None));
    }
}

#[test]
fn a_byte_order_mark_windows_line_ends_and_tabs_are_fine() {
    let config = good("\u{feff}[jobs.a]\r\n\tshell\t=\t\"true\"\r\n");
    assert_eq!(job(&config, "a").action, Action::Shell("true".to_owned()));
}

#[test]
fn a_job_without_a_schedule_is_manual() {
    assert_eq!(job(&good("[jobs.a]\nshell = 'true'"), "a").schedule, Schedule::Manual);
}

#[test]
fn every_short_form_means_its_long_form() {
    let text = |rules: &str| format!("[jobs.a]\nshell = 'true'\n{rules}");
    let short = "retry = 3\noverlap = 'queue'\ncatch_up = 'all'";
    let long = "retry = { limit = 3 }\noverlap = { mode = 'queue', max = 1 }\ncatch_up = { mode = 'all', max_count = 1000 }";
    let short = job(&good(&text(short)), "a");
    assert_eq!(short, job(&good(&text(long)), "a"));
    assert_eq!(
        (short.retry.limit, short.overlap, short.catch_up.mode),
        (3, Overlap::Queue { max: 1 }, CatchUpMode::All)
    );
    let http = |http: &str| job(&good(&format!("[jobs.a]\nhttp = {http}")), "a");
    assert_eq!(
        http("'http://example.com/'"),
        http("{ url = 'http://example.com/', method = 'GET', body = '' }")
    );
    assert_eq!(
        http("{ url = 'http://example.com/', body = 'x' }"),
        http("{ url = 'http://example.com/', body = 'x', method = 'POST' }")
    );
}

#[test]
fn several_crons_are_one_schedule() {
    let spec = job(&good("[jobs.a]\nshell = 'true'\ncron = ['0 8 * * *', '@daily']"), "a");
    let Schedule::Cron(list) = spec.schedule else { panic!("{spec:?}") };
    assert_eq!(list.iter().map(CronExpr::as_str).collect::<Vec<_>>(), ["0 8 * * *", "@daily"]);
}

#[test]
fn defaults_hold_where_a_job_is_silent_and_variables_are_merged() {
    let config = good(
        "[queues.slow]\n[defaults]\ntimeout = '20s'\nqueue = 'slow'\nretry = { limit = 5, delay = '7s' }\nenv = { A = '1', B = '1' }\n\
         [jobs.silent]\nshell = 'true'\n[jobs.own]\nshell = 'true'\ntimeout = '9s'\nqueue = 'default'\nretry = 1\nenv = { B = '2' }",
    );
    let (silent, own) = (job(&config, "silent"), job(&config, "own"));
    assert_eq!((silent.timeout, silent.queue, silent.retry.limit), (secs(20), queue("slow"), 5));
    assert_eq!((own.timeout, own.queue), (secs(9), queue("default")));
    assert_eq!(
        (own.retry.limit, own.retry.delay),
        (1, RetryRule::default().delay),
        "a job's retry is its own as a whole"
    );
    assert_eq!(
        own.env.into_iter().collect::<Vec<_>>(),
        [("A".into(), "1".into()), ("B".into(), "2".into())]
    );
}

#[test]
fn lists_of_codes_are_sets_and_may_come_from_the_defaults_of_every_kind_of_job() {
    let defaults = "[defaults]\nretry = { limit = 2, on = [503, 75, 75], never_on = [] }\n";
    let config = good(&format!(
        "{defaults}[jobs.a]\nshell = 'true'\n[jobs.b]\nhttp = 'http://h/'\nretry = {{ limit = 2, on = [503, 500, 503] }}\n\
         [jobs.c]\nhttp = 'http://h/'\n[jobs.d]\nshell = 'true'\nretry = {{ limit = 2, never_on = [255, 1] }}"
    ));
    let retry = |name| job(&config, name).retry;
    assert_eq!(retry("a"), RetryRule { limit: 2, on: [75, 503].into(), ..RetryRule::default() });
    assert_eq!((retry("b").on, retry("c")), ([500, 503].into(), retry("a")));
    assert_eq!(
        retry("d"),
        RetryRule { limit: 2, never_on: [1, 255].into(), ..RetryRule::default() }
    );
    let in_redis = to_canonical(&job(&config, "c"));
    assert_eq!(
        from_canonical(&in_redis).unwrap(),
        job(&config, "c"),
        "codes out of [defaults] read back for any kind of job"
    );
}

#[test]
fn a_question_before_an_attempt_has_one_of_the_actions_and_its_own_rules() {
    let check = |text: &str| {
        job(&good(&format!("[jobs.a]\nshell = 'true'\ndone_check = {text}")), "a")
            .done_check
            .unwrap()
    };
    let shell = check("{ shell = 'test -e x' }");
    assert_eq!(
        (shell.question, shell.on, shell.timeout),
        (Action::Shell("test -e x".into()), AskedOn::Retry, secs(60))
    );
    let command = check("{ command = ['test', '-e', 'x'], on = 'always', timeout = '100ms' }");
    assert!(matches!(&command.question, Action::Command(words) if words.len() == 3));
    assert_eq!((command.on, command.timeout), (AskedOn::Always, Duration::from_millis(100)));
    let http = check(
        "{ http = { url = 'http://h/', expect = [200, 404] }, on = 'retry', timeout = '1h' }",
    );
    assert!(matches!(http.question, Action::Http(request) if request.expect == [200, 404]));
    let config = good(
        "[defaults]\ndone_check = { shell = 'x' }\n[jobs.a]\nhttp = 'http://h/'\ndelivery = 'at-most-once'",
    );
    assert!(job(&config, "a").done_check.is_some());
}

#[test]
fn a_local_time_is_read_in_the_zone_of_the_job_the_defaults_or_the_host() {
    let at = |text: &str| match job(&good(text), "a").schedule {
        Schedule::At(at) => at.to_string(),
        other => panic!("{other:?}"),
    };
    let a = "[jobs.a]\nshell = 'true'\nat = '2026-12-24T09:00'\n";
    assert_eq!(at(a), "2026-12-24T14:00:00.000Z");
    assert_eq!(at(&format!("[defaults]\ntz = 'Europe/Berlin'\n{a}")), "2026-12-24T08:00:00.000Z");
    assert_eq!(
        at(&format!("[defaults]\ntz = 'Europe/Berlin'\n{a}tz = 'Asia/Tokyo'")),
        "2026-12-24T00:00:00.000Z"
    );
    let bare = "[jobs.a]\nshell = 'true'\nat = 2026-12-24T09:00:00+01:00";
    assert_eq!(at(bare), "2026-12-24T08:00:00.000Z", "TOML knows dates without quotes");
}

#[test]
fn a_job_with_no_time_zone_keeps_none() {
    assert_eq!(job(&good("[jobs.a]\nshell = 'true'\ncron = '0 9 * * *'"), "a").tz, None);
}

#[test]
fn the_ends_of_every_range_are_taken() {
    let config = good(
        "[daemon]\ntick = '1s'\nlease = '10s'\nshutdown_grace = '0s'\n[queues.a]\nconcurrency = 1\n[queues.b]\nconcurrency = 10000\n\
         [jobs.a]\nshell = 'true'\nevery = '1s'\nkill_grace = '0s'\nlate_after = '1s'\nretry = { limit = 1000, delay = '0s' }\n\
         catch_up = { max_age = '1s', max_count = 100000 }\n\
         [jobs.b]\nshell = 'true'\nevery = '315360000s'\ntimeout = '2592000s'\nkill_grace = '3600s'\nlate_after = '31536000s'",
    );
    assert_eq!(job(&config, "b").timeout, secs(30 * 24 * HOUR));
    assert_eq!(job(&config, "a").retry.max_delay, secs(HOUR));
}

#[test]
fn a_retry_that_waits_long_is_not_cut_by_the_default_of_its_longest_wait() {
    let spec = job(&good("[jobs.a]\nshell = 'true'\nretry = { limit = 1, delay = '7200s' }"), "a");
    assert_eq!(spec.retry.max_delay, secs(2 * HOUR));
}

#[test]
fn at_most_once_without_retries_is_taken_whatever_the_defaults_say() {
    let config = good(
        "[defaults]\nretry = 3\n[jobs.a]\nshell = 'true'\ndelivery = 'at-most-once'\nretry = 0",
    );
    assert_eq!(job(&config, "a").delivery, Delivery::AtMostOnce);
}

#[test]
fn what_is_doubtful_is_a_warning_with_its_place() {
    let text = "[jobs.a]\nshell = 'true'\ncwd = '/no/such/place'\ntimeout = '3s'\nkill_grace = '9s'\nretry = { delay = '1s' }";
    let found = warnings(text);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("jobs.a.cwd: directory \"/no/such/place\" does not exist"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("jobs.a.kill_grace: kill_grace is longer than timeout"),
        "{found:?}"
    );
    assert!(found[2].starts_with("jobs.a.retry: found no limit"), "{found:?}");
    assert_eq!(warnings("[jobs.a]\nshell = 'true'\ncwd = '/'"), [""; 0]);
}

#[test]
fn sentinels_and_a_cluster_become_one_url() {
    let url = |section: &str| good(&format!("[redis]\n{section}")).redis.url.unwrap();
    assert_eq!(
        url(
            "sentinels = ['a:1', 'b']\nmaster = 'm'\nurl_auth = 'rediss://u:${credential:pw}@/2'\nsentinel_password = 'p&q'"
        ),
        "rediss+sentinel://u:${credential:pw}@a:1,b/m/2?sentinel_password=p%26q"
    );
    assert_eq!(url("cluster = ['a:1', '[::1]:2']"), "redis+cluster://a:1,[::1]:2");
}

#[test]
fn the_address_of_redis_may_be_in_a_file_and_is_never_in_a_debug_print() {
    let config = good("[redis]\nurl_file = '/run/credentials/redis'");
    assert_eq!(config.redis.url_file, Some(PathBuf::from("/run/credentials/redis")));
    let message: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(
        message.len() == 1
            && message[0]
                .contains("redis.url_file: file \"/run/credentials/redis\" does not exist"),
        "{message:?}"
    );
    assert!(!format!("{:?}", good("[redis]\nurl = 'redis://u:hunter2@h/'")).contains("hunter2"));
}

#[test]
fn ten_times_the_jobs_take_about_ten_times_as_long() {
    // The processor time of this thread. The time of the wall clock would depend on how busy the
    // machine is.
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let cost = |count: usize| {
        let jobs = (0..count).map(|n| {
            format!("[jobs.job-{n}]\ncron = '30 2 * * *'\ntz = 'Europe/Berlin'\nshell = 'echo {n}'\nretry = {{ limit = 3 }}\ntimeout = '90s'\n\n")
        });
        let text: String = jobs.collect();
        let before = used();
        assert_eq!(compile(&text).unwrap().jobs.len(), count);
        used().saturating_sub(before)
    };
    let (few, many) = (cost(2_000), cost(20_000));
    assert!(many < few * 30, "2,000 jobs took {few:?}, 20,000 took {many:?}");
}

#[test]
fn what_is_kept_has_the_defaults_of_the_readme_and_can_be_set() {
    let plain = good("");
    assert_eq!((plain.history.keep_per_job, plain.history.keep), (1_000, 100_000));
    assert_eq!(
        (plain.output.head, plain.output.tail, plain.output.keep_bytes),
        (16 << 10, 48 << 10, 256 << 20)
    );
    assert!(!plain.redis.allow_eviction);
    assert_eq!(plain.redis.shards, None);
    let shards = |text: &str| good(&format!("[redis]\n{text}")).redis.shards.unwrap().to_string();
    assert_eq!(shards("cluster = ['h:1']\nshards = 8\n"), "count 8");
    assert_eq!(shards("url = 'rediss://u:p@h/2'\nshards = ['a:1', 'b']\n"), "servers a:1 b");
    let set = good(
        "[redis]\nallow_eviction = true\n[history]\nkeep_per_job = 10\nkeep = 50\nmax_age = '1w'\n\
         [output]\nhead = '0B'\ntail = '1MiB'\nkeep_bytes_per_job = '2MiB'\nkeep_bytes = '1GiB'\nmax_age = '1h'\n",
    );
    assert!(set.redis.allow_eviction);
    let week = std::time::Duration::from_secs(7 * 86_400);
    assert_eq!(set.history, HistoryConfig { keep_per_job: 10, keep: 50, max_age: week });
    let wanted = OutputConfig {
        head: 0,
        tail: 1 << 20,
        keep_bytes_per_job: 2 << 20,
        keep_bytes: 1 << 30,
        max_age: std::time::Duration::from_secs(3_600),
    };
    assert_eq!(set.output, wanted);
}

#[test]
fn what_a_run_has_to_pass_is_read_in_each_of_its_forms() {
    let spec = |lines: &str| job(&good(&format!("[jobs.a]\nshell = 'true'\n{lines}\n")), "a");
    let plain = spec("key = 'customer 42'");
    assert_eq!(
        (plain.key.as_ref().map(SharedKey::as_str), plain.per_key),
        (Some("customer 42"), PerKey { limit: Some(1), rate: None })
    );
    let rate: Rate = "10/1m".parse().unwrap();
    for (text, wanted) in [
        ("3", PerKey { limit: Some(3), rate: None }),
        ("{ rate = '10/1m' }", PerKey { limit: None, rate: Some(rate) }),
        (
            "{ limit = 2, rate = '10/1m', burst = 4 }",
            PerKey { limit: Some(2), rate: Some(rate.with_burst(4)) },
        ),
    ] {
        assert_eq!(spec(&format!("key = 'k'\nper_key = {text}")).per_key, wanted);
    }
    let names = |spec: &crate::domain::job::job_spec::JobSpec| {
        spec.not_while.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names(&spec("not_while = ['c', 'b']")), ["b", "c"]);
    assert_eq!(names(&spec("not_while = 'b'")), ["b"]);
    // A `per_key` in `[defaults]` is for jobs that have a key.
    let config = good(
        "[defaults]\nper_key = 5\n[jobs.a]\nshell = 'true'\n[jobs.b]\nkey = 'k'\nshell = 'true'\n",
    );
    assert_eq!(
        (job(&config, "a").per_key.limit, job(&config, "b").per_key.limit),
        (Some(1), Some(5))
    );
}
