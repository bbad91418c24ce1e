//! Tests that all problems are reported at once, but no problem that merely follows from another
//! problem.

use super::faults;

/// Checks that `text` has exactly these problems, in the order of the text. `wanted` has the place
/// and the beginning of each.
fn assert_faults(text: &str, wanted: &[&str]) {
    let faults = faults(text);
    assert_eq!(faults.len(), wanted.len(), "{text}\n{faults:#?}");
    for (fault, wanted) in faults.iter().zip(wanted) {
        assert!(fault.starts_with(wanted), "{fault}\nwanted {wanted}");
    }
}

#[test]
fn a_misspelt_schedule_does_not_hide_that_there_is_no_action() {
    let wanted = [
        "jobs.toml:1:1: jobs.a: found no action, wanted exactly one of",
        "jobs.toml:2:1: jobs.a.evry: unknown key, did you mean \"every\"?",
    ];
    assert_faults("[jobs.a]\nevry = '1h'\n", &wanted);
    assert_faults(
        "[jobs.a]\nzebra = 1\n",
        &[
            "jobs.toml:1:1: jobs.a: found no action",
            "jobs.toml:2:1: jobs.a.zebra: unknown key; docs/jobs-toml.md",
        ],
    );
}

#[test]
fn what_is_missing_by_a_slip_of_the_finger_is_not_reported_twice() {
    for (job, wanted) in [
        ("comand = ['true']", "jobs.a.comand: unknown key"),
        ("script = 'true'", "jobs.a.script: unknown key"),
        (
            "shell = 'true'\nevry = '1h'\nstart = '2026-01-01T00:00'\nmax_runs = 3",
            "jobs.a.evry: unknown key",
        ),
        (
            "shell = 'true'\nrule = 'FREQ=DAILY'\ndtstart = '2026-01-05T09:00'",
            "jobs.a.rule: unknown key",
        ),
        (
            "shell = 'true'\nrrule = 'FREQ=DAILY'\ndtstat = '2026-01-05T09:00'",
            "jobs.a.dtstat: unknown key",
        ),
        ("shell = 'true'\nkye = 'c'\nper_key = 2", "jobs.a.kye: unknown key"),
        ("shell = 'true'\nkey = 3\nper_key = 2", "jobs.a.key: found integer 3"),
        (
            "shell = 'true'\nmust_start_within = '1m'\non_lat = { shell = 'true' }",
            "jobs.a.on_lat: unknown key",
        ),
        (
            "shell = 'true'\nmust_start_within = '1m'\non_late = { shel = 'true' }",
            "jobs.a.on_late.shel: unknown key",
        ),
        (
            "shell = 'true'\nmust_start_within = '1m'\non_late = { shell = '' }",
            "jobs.a.on_late.shell: found string",
        ),
        ("http = { ulr = 'http://h/' }", "jobs.a.http.ulr: unknown key"),
        (
            "shell = 'true'\noverlap = { mdoe = 'queue', max = 3 }",
            "jobs.a.overlap.mdoe: unknown key",
        ),
        ("shell = 'true'\nkey = 'c'\nper_key = { limt = 3 }", "jobs.a.per_key.limt: unknown key"),
        (
            "shell = 'true'\nretry = { limit = 1, dealy = '2h', max_delay = '1s' }",
            "jobs.a.retry.dealy: unknown key",
        ),
        (
            "shell = 'true'\nschedules = [{ crn = '@daily' }, { cron = '@hourly' }]",
            "jobs.a.schedules[0].crn: unknown key",
        ),
    ] {
        let faults = faults(&format!("[jobs.a]\n{job}\n"));
        assert!(faults.len() == 1 && faults[0].contains(wanted), "{job}: {faults:#?}");
    }
    for (text, wanted) in [
        (
            "[queue.mail]\n[jobs.a]\nshell = 'true'\nqueue = 'mail'",
            "queue: unknown key, did you mean \"queues\"?",
        ),
        (
            "[group.g]\nmode = 'exclusive'\n[jobs.a]\nshell = 'true'\ngroup = 'g'",
            "group: unknown key, did you mean \"groups\"?",
        ),
        (
            "calendars = 1\n[jobs.a]\nevery = '1h'\nshell = 'true'\nexclude = 'calendar:x'",
            "calendars: found integer 1",
        ),
        ("[groups.g]\nmoed = 'alternate'\n", "groups.g.moed: unknown key"),
        ("[groups.g]\nmode = 'alternate'\nordr = ['a', 'b']", "groups.g.ordr: unknown key"),
        (
            "[defaults]\non_lat = { shell = 'true' }\n[jobs.a]\nshell = 'true'\nmust_start_within = '1m'",
            "defaults.on_lat: unknown",
        ),
        (
            "[defaults]\non_late = { shell = '' }\n[jobs.a]\nshell = 'true'\nmust_start_within = '1m'",
            "defaults.on_late.shell: ",
        ),
        ("[daemon]\ntick = '5s'\nleas = '1m'", "daemon.leas: unknown key"),
    ] {
        let faults = faults(text);
        assert!(faults.len() == 1 && faults[0].contains(wanted), "{text}: {faults:#?}");
    }
}

#[test]
fn one_faulty_key_hides_no_other_of_its_job() {
    assert_faults(
        "\
[jobs.a]
cron = '61 * * * *'
start = 'never'
end = 'ever'
max_runs = 0
shell = ''
dst = { gap = 'x' }
must_start_within = '1m'
not_while = ['a']
env = { A = '${HOME}' }
ping_url = 'ftp://h/'
",
        &[
            "jobs.toml:2:9: jobs.a.cron: ",
            "jobs.toml:3:9: jobs.a.start: ",
            "jobs.toml:4:7: jobs.a.end: ",
            "jobs.toml:5:12: jobs.a.max_runs: ",
            "jobs.toml:6:9: jobs.a.shell: ",
            "jobs.toml:7:15: jobs.a.dst.gap: ",
            "jobs.toml:8:21: jobs.a.must_start_within: nobody would be notified when a run passes its deadline",
            "jobs.toml:9:13: jobs.a.not_while: found the job's own name",
            "jobs.toml:10:14: jobs.a.env.A: the text has ${",
            "jobs.toml:11:12: jobs.a.ping_url: ",
        ],
    );
    assert_faults(
        "[jobs.a]\nhttp = { method = 'GTE', expect = 3 }\noverlap = { mode = 'qeue', max = 0 }\nretry = { on = 3, delay = '2h', max_delay = '1h' }\n",
        &[
            "jobs.toml:2:8: jobs.a.http: found no url",
            "jobs.toml:2:19: jobs.a.http.method: ",
            "jobs.toml:2:35: jobs.a.http.expect: ",
            "jobs.toml:3:20: jobs.a.overlap.mode: ",
            "jobs.toml:3:34: jobs.a.overlap.max: ",
            "jobs.toml:4:16: jobs.a.retry.on: ",
            "jobs.toml:4:45: jobs.a.retry.max_delay: ",
        ],
    );
}

#[test]
fn a_faulty_job_hides_no_problem_of_another_nor_of_its_group() {
    assert_faults(
        "\
[redis]
urll = 'redis://h/'
[groups.g]
mode = 'alternate'
order = ['x', 'y']
[jobs.a]
evry = '1h'
[jobs.b]
shell = 'true'
timeout = 3
group = 'g'
[jobs.c]
at = 'yesterdax'
command = []
",
        &[
            "jobs.toml:2:1: redis.urll: unknown key",
            "jobs.toml:6:1: jobs.a: found no action",
            "jobs.toml:7:1: jobs.a.evry: unknown key",
            "jobs.toml:10:11: jobs.b.timeout: ",
            "jobs.toml:11:9: jobs.b.group: job b has no turn in group g",
            "jobs.toml:13:6: jobs.c.at: ",
            "jobs.toml:14:11: jobs.c.command: found an empty list",
        ],
    );
}
