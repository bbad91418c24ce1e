use super::{compile, fault, faults};
use crate::config::Rendering;

#[test]
fn all_problems_of_a_file_are_reported_at_once_in_the_order_of_the_text() {
    let text = "\
[daemon]
tick = 5
[jobs.b]
shell = ''
timeout = 30
[jobs.a]
comand = ['true']
every = '1s'
cron = '* * * * *'
";
    let faults = faults(text);
    let begins = [
        "jobs.toml:2:8: daemon.tick: found integer 5, wanted a duration such as \"100ms\": write \"5s\"",
        "jobs.toml:4:9: jobs.b.shell: found string \"\", wanted",
        "jobs.toml:5:11: jobs.b.timeout: found integer 30, wanted a duration such as \"30s\": write \"30s\"",
        "jobs.toml:7:1: jobs.a.comand: unknown key, did you mean \"command\"?",
        "jobs.toml:8:9: jobs.a.every: found cron and every together, wanted at most one schedule",
    ];
    assert_eq!(faults.len(), begins.len(), "{faults:#?}");
    for (fault, begin) in faults.iter().zip(begins) {
        assert!(fault.starts_with(begin), "{fault}\n{begin}");
    }
}

#[test]
fn columns_are_counted_in_characters_and_a_mark_at_the_start_is_none() {
    assert!(
        fault("\u{feff}[jobs.a]\nshell = 'true'\nenv = { A = 'äöü€', B = 1 }")
            .starts_with("jobs.toml:3:25: jobs.a.env.B: ")
    );
    assert!(
        fault("\u{feff}reddis = 1")
            .starts_with("jobs.toml:1:1: reddis: unknown key, did you mean \"redis\"?")
    );
    assert!(fault("[jobs.a]\r\nshell = 'true'\r\n\ttimeout = 1").starts_with("jobs.toml:3:12: "));
}

#[test]
fn on_a_terminal_the_line_is_shown_with_a_caret() {
    let error = compile("[jobs.a]\n\tshell = 'ä'\n\ttimeout = 30\n").unwrap_err();
    let rendered = error.rendered(Rendering::Carets);
    assert_eq!(
        rendered.lines().collect::<Vec<_>>()[1..],
        ["3 |  timeout = 30", "  |            ^^"],
        "{rendered}"
    );
    let long = compile(&format!(
        "[jobs.a]\nshell = '{}'\nenv = {{ A = '{}', B = 1 }}",
        "x",
        "y".repeat(500)
    ))
    .unwrap_err();
    let rendered = long.rendered(Rendering::Carets);
    let lines: Vec<&str> = rendered.lines().collect();
    assert!(lines.iter().skip(1).all(|line| line.len() < 140), "{rendered}");
    assert_eq!(lines[1].as_bytes()[lines[2].find('^').unwrap()], b'1', "{rendered}");
}

#[test]
fn a_fault_of_the_syntax_is_reported_with_its_place() {
    for (text, place) in [
        ("[jobs.a\nshell = 'true'", "jobs.toml:1:8: not valid TOML: "),
        ("[jobs.a]\nshell = \"true", "jobs.toml:2:"),
        ("[jobs.a]\nshell = \n", "jobs.toml:2:"),
        ("[jobs.a]\nshell = 'true' x", "jobs.toml:2:16: "),
        ("a = \u{1}", "jobs.toml:1:5: "),
    ] {
        let faults = faults(text);
        assert!(
            faults[0].starts_with(place) && faults[0].contains("not valid TOML"),
            "{text:?}: {faults:?}"
        );
    }
    assert_eq!(faults("[jobs.a]\nx = \ny = \n").len(), 2, "not only the first one");
}

#[test]
fn a_job_or_a_key_given_twice_is_refused_beside_the_other_problems() {
    let faults = faults(
        "[jobs.a]\nshell = 'true'\nshell = 'false'\n[jobs.b]\nshell = 'true'\ntimeout = 3\n[jobs.b]\n",
    );
    let begins = [
        "jobs.toml:3:1: key \"shell\" is given twice, wanted once",
        "jobs.toml:6:11: jobs.b.timeout: found integer 3",
        "jobs.toml:7:7: key \"b\" is given twice, wanted once",
    ];
    assert_eq!(faults.len(), begins.len(), "{faults:#?}");
    assert!(
        faults.iter().zip(begins).all(|(fault, begin)| fault.starts_with(begin)),
        "{faults:#?}"
    );
    assert!(
        fault("[jobs.a]\nshell = 'true'\nenv = { A = '1', A = '2' }")
            .contains("\"A\" is given twice")
    );
}

#[test]
fn an_unknown_section_or_one_of_the_wrong_form_is_refused() {
    for (text, wanted) in [
        ("[job.a]\nshell = 'true'", "1:2: job: unknown key, did you mean \"jobs\"?"),
        (
            "[zebra]",
            "1:2: zebra: unknown key, wanted redis, daemon, api, metrics, history, output, defaults, queues, groups, calendars or jobs",
        ),
        ("[limits.a]", "1:2: limits: key not supported by this version"),
        ("jobs = 3", "1:8: jobs: found integer (not shown), wanted a table: [jobs.NAME]"),
        ("[[jobs]]\nname = 'a'", "1:1: jobs: found an array, wanted a table: [jobs.NAME]"),
        (
            "[jobs]\nbackup = 'true'",
            "2:10: jobs.backup: found string (not shown), wanted a table: [jobs.NAME]",
        ),
        ("queues = 1", "queues: found integer 1, wanted a table"),
        ("daemon = 'x'", "daemon: found string \"x\", wanted a table: [daemon]"),
    ] {
        let fault = fault(text);
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn the_name_of_a_job_or_queue_is_checked_where_it_stands() {
    let long = "x".repeat(300);
    for name in [
        "Backup",
        "a/b/c",
        "-rf",
        "../../etc/x",
        "{x}",
        "a b",
        "é",
        "",
        "a\\u202eb",
        "a\\u0000",
        "a\\nb",
        "\\u001b[31m",
        &long,
    ] {
        let fault = fault(&format!("\n[jobs.\"{name}\"]\nshell = 'true'"));
        assert!(
            fault.starts_with("jobs.toml:2:7: jobs.")
                && fault.contains("is not valid: wanted 1 to 63 of the characters a-z"),
            "{fault}"
        );
        assert!(!fault.contains(['\0', '\u{1b}', '\u{202e}']) && fault.len() < 400, "{fault}");
    }
    // The instance of a job on a node has such a name, so no user may define it.
    assert!(fault("[jobs.\"a/b\"]\nshell = 'true'").contains("job name \"a/b\" is not valid"));
    assert!(
        fault("[queues.Fast]")
            .starts_with("jobs.toml:1:9: queues.Fast: queue name \"Fast\" is not valid")
    );
}

#[test]
fn the_daemon_s_times_are_held_to_their_bounds_and_to_each_other() {
    for (text, wanted) in [
        ("tick = '0s'", "daemon.tick: found \"0s\", wanted 10ms to 10s"),
        ("tick = '11s'", "daemon.tick: found \"11s\", wanted 10ms to 10s"),
        ("lease = '0s'", "daemon.lease: found \"0s\", wanted 1s to 10 minutes"),
        ("lease = '601s'", "daemon.lease: found \"601s\", wanted 1s to 10 minutes"),
        ("shutdown_grace = '3601s'", "daemon.shutdown_grace: found \"3601s\", wanted 0s to 1 hour"),
        ("shutdown_grace = true", "found true, wanted a duration such as \"30s\""),
        (
            "tick = '2s'",
            "2:8: daemon.tick: found a lease of 10s with a tick of 2s, wanted a lease of at least 10 ticks (20s): ",
        ),
        (
            "tick = '1s'\nlease = '9s'",
            "3:9: daemon.lease: found a lease of 9s with a tick of 1s, wanted",
        ),
        ("lease_time = '9s'", "unknown key"),
    ] {
        let fault = fault(&format!("[daemon]\n{text}"));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn a_group_says_how_it_is_shared_and_who_has_turns() {
    let members = "[jobs.a]\nshell = 'true'\ngroup = 'g'\n[jobs.b]\nshell = 'true'\ngroup = 'g'\n";
    for (text, wanted) in [
        (
            "order = ['a', 'b']",
            "1:1: groups.g: found no mode, wanted mode = \"exclusive\" or mode = \"alternate\"",
        ),
        ("mode = 'alternat'", "did you mean \"alternate\"?"),
        (
            "mode = 'alternate'",
            "groups.g: found no order, wanted the jobs in the order of their turns, such as order = [\"a\", \"b\"]",
        ),
        (
            "mode = 'alternate'\norder = ['a']",
            "groups.g.order: the number of members is 1, wanted 2 to 100",
        ),
        (
            "mode = 'alternate'\norder = ['a', 'b', 'a']",
            "groups.g.order[2]: found job \"a\" twice, wanted each member once",
        ),
        (
            "mode = 'alternate'\norder = ['a', 'b', 'c d']",
            "groups.g.order[2]: job name \"c d\" is not valid",
        ),
        (
            "mode = 'alternate'\norder = ['a', 'b']\ngap = '2d'",
            "groups.g.gap: found \"2d\", wanted 0s to 1 day",
        ),
        (
            "mode = 'exclusive'\ngap = '5s'",
            "groups.g.gap: gap applies only to mode = \"alternate\"",
        ),
        (
            "mode = 'alternate'\norder = ['a', 'x']",
            "jobs.b.group: job b has no turn in group g: add \"b\" to order in [groups.g]",
        ),
        (
            "mode = 'exclusive'\nsize = 3",
            "groups.g.size: unknown key, wanted mode, order, gap or turn_timeout",
        ),
    ] {
        let fault = fault(&format!("[groups.g]\n{text}\n{members}"));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
    let stranger = fault(&format!(
        "[groups.g]\nmode = 'alternate'\norder = ['a', 'b', 'c']\n{members}[jobs.c]\nshell = 'true'"
    ));
    assert!(
        stranger.contains("3:9: groups.g.order: job c is in this order but not in group g, wanted"),
        "{stranger}"
    );
    let unknown =
        fault("[groups.night]\nmode = 'exclusive'\n[jobs.a]\nshell = 'true'\ngroup = 'nigt'");
    assert!(
        unknown.contains("group \"nigt\" is not declared: did you mean \"night\"?"),
        "{unknown}"
    );
}

#[test]
fn a_queue_is_held_to_its_bounds_and_its_later_keys_are_named_as_such() {
    for (text, wanted) in [
        (
            "concurrency = 0",
            "queues.a.concurrency: found integer 0, wanted an integer from 1 to 10000",
        ),
        ("concurrency = 10001", "wanted an integer from 1 to 10000"),
        ("concurrency = '3'", "found string \"3\", wanted an integer"),
        ("concurency = 3", "did you mean \"concurrency\"?"),
        ("per_key = 1", "queues.a.per_key: key not supported by this version of schedd"),
        ("limit = 0", "queues.a.limit: found integer 0, wanted an integer from 1 to 1000000"),
        ("limit = -1", "queues.a.limit: found integer -1, wanted an integer from 1 to 1000000"),
        (
            "rate = '0/1m'",
            "2:8: queues.a.rate: rate \"0/1m\" has no number from 1 to 1000000 before the /, wanted RUNS/DURATION",
        ),
        ("rate = 100", "queues.a.rate: found integer 100, wanted a string such as \"100/1m\""),
        ("rate = '1/2d'", "rate \"1/2d\" has a period outside 1ms to 1d"),
        (
            "burst = 5",
            "queues.a.burst: burst has no effect without a rate: add a rate such as rate =",
        ),
        (
            "rate = '1/s'\nburst = 0",
            "queues.a.burst: found integer 0, wanted an integer from 1 to 1000000",
        ),
        ("weight = 0", "queues.a.weight: found integer 0, wanted an integer from 1 to 1000"),
        (
            "weight = 2\nstrict = true",
            "queues.a.weight: a strict queue is served before all other queues and has no weight",
        ),
        ("paused = 'yes'", "queues.a.paused: found string \"yes\", wanted true or false"),
    ] {
        let fault = fault(&format!("[queues.a]\n{text}"));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn each_fault_of_an_address_with_several_hosts_is_reported() {
    let hosts = "sentinels = ['a:1', 'b']\n";
    for (section, words) in [
        (hosts.to_owned(), "found sentinels without master"),
        (format!("{hosts}master = 'a b'"), "redis.master: "),
        (format!("{hosts}master = 'm'\ncluster = ['c']"), "found sentinels and cluster together"),
        (
            format!("{hosts}master = 'm'\nurl_auth = 'redis://u:p@h/0'"),
            "not an address without host",
        ),
        (format!("{hosts}master = 'm'\nca_file = '/'"), "wanted url_auth = \"rediss://...\""),
        ("sentinels = []\nmaster = 'm'".to_owned(), "wanted a list of addresses"),
        ("cluster = ['a b']".to_owned(), "wanted HOST:PORT"),
        ("cluster = ['a']\nurl_auth = 'redis://@/1'".to_owned(), "only the database 0"),
        ("cluster = ['a']\nmaster = 'm'".to_owned(), "found master without sentinels"),
        ("url = 'redis://h'\nurl_auth = 'redis://'".to_owned(), "found url_auth without"),
        ("url = 'rediss://h'\nkey_file = '/'".to_owned(), "found key_file without cert_file"),
        ("url = 'redis://h'\ndurability = 'disk'".to_owned(), "\"none\" or \"replicated\""),
        ("url = 'redis://h'\nreplicas = 1".to_owned(), "found replicas without durability"),
        (
            "cluster = ['a']\ndurability = 'replicated'\nreplicas = 0".to_owned(),
            "an integer from 1 to 9",
        ),
        ("durability = 'replicated'".to_owned(), "without the address of a Redis server"),
    ] {
        let found = fault(&format!("[redis]\n{section}"));
        assert!(found.contains(words) && !found.contains("u:p"), "{section}: {found}");
    }
}

#[test]
fn redis_has_one_address_and_a_bad_one_is_not_repeated() {
    assert!(
        fault("[redis]\nurl = 'redis://h'\nurl_file = '/x'")
            .contains("3:12: redis.url_file: found url and url_file together")
    );
    let bad = fault("[redis]\nurl = 'http://u:hunter2@h'");
    assert!(bad.contains("redis.url: not a Redis address") && !bad.contains("hunter2"), "{bad}");
    assert!(fault("[redis]\nurl_file = 'x'").contains("wanted an absolute path"));
}

#[test]
fn a_fault_in_the_defaults_is_reported_once() {
    let jobs = "[jobs.a]\nshell = 'true'\n[jobs.b]\nshell = 'true'";
    for (text, wanted) in [
        ("timeout = '0s'", "2:11: defaults.timeout: found \"0s\", wanted"),
        ("queue = 'fast'", "2:9: defaults.queue: queue \"fast\" is not declared"),
        (
            "delivery = 'at-most-once'\nretry = 2",
            "2:12: defaults.delivery: delivery \"at-most-once\" contradicts retry.limit 2: ",
        ),
        (
            "shell = 'true'",
            "2:1: defaults.shell: shell cannot have a default: write shell in [jobs.NAME]",
        ),
        ("every = '5s'", "2:1: defaults.every: every cannot have a default"),
        ("time_out = '5s'", "did you mean \"timeout\"?"),
    ] {
        let fault = fault(&format!("[defaults]\n{text}\n{jobs}"));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn a_job_of_at_most_once_is_reported_that_its_retries_come_from_the_defaults() {
    let fault = fault("[defaults]\nretry = 2\n[jobs.a]\nshell = 'true'\ndelivery = 'at-most-once'");
    assert!(
        fault.contains("5:12: jobs.a.delivery: ")
            && fault.contains("retry.limit 2 (from [defaults])"),
        "{fault}"
    );
}

#[test]
fn an_undeclared_queue_is_refused_with_the_nearest() {
    let text =
        |queue: &str| format!("[queues.reports]\n[jobs.a]\nshell = 'true'\nqueue = '{queue}'");
    assert!(fault(&text("report")).contains(
        "4:9: jobs.a.queue: queue \"report\" is not declared, did you mean \"reports\"?"
    ));
    assert!(
        fault(&text("zebra"))
            .contains("wanted default or reports (or declare the queue by [queues.zebra])")
    );
    let both =
        faults("[queues.reports]\nconcurrency = 0\n[jobs.a]\nshell = 'true'\nqueue = 'reports'");
    assert_eq!(both.len(), 1, "a queue with a fault is declared all the same: {both:?}");
}

#[test]
fn a_thousand_bad_jobs_give_a_thousand_problems() {
    let text: String =
        (0..1000).map(|n| format!("[jobs.j{n}]\nshell = 1\n")).collect::<Vec<_>>().concat();
    let faults = faults(&text);
    assert_eq!(faults.len(), 1000);
    assert!(
        faults[999]
            .starts_with("jobs.toml:2000:9: jobs.j999.shell: found integer (not shown), wanted"),
        "{}",
        faults[999]
    );
}

#[test]
fn what_is_to_be_kept_is_held_to_its_bounds() {
    for (text, words) in [
        (
            "[history]\nkeep_per_job = 0",
            "history.keep_per_job: found integer 0, wanted an integer from 1 to 100000",
        ),
        ("[history]\nkeep = '5'", "history.keep: found string"),
        ("[history]\nmax_age = '30s'", "1 minute to 3650 days"),
        ("[history]\nkep = 5", "did you mean \"keep\"?"),
        ("[output]\nhead = '2MiB'", "output.head: found string \"2MiB\", wanted at most 1MiB"),
        ("[output]\ntail = 16", "output.tail: found integer 16, wanted a size such as \"256MiB\""),
        (
            "[output]\nkeep_bytes = '1GB'",
            "wanted a whole number with the unit B, KiB (K), MiB (M) or GiB (G)",
        ),
        ("[output]\nmax_age = 7", "a duration such as \"30d\""),
        (
            "[redis]\nallow_eviction = 'yes'",
            "redis.allow_eviction: found string \"yes\", wanted true or false",
        ),
        ("[redis]\nshards = 0", "redis.shards: found integer 0, wanted an integer from 1 to 1000"),
        (
            "[redis]\nshards = ['a:1']",
            "found a list of servers, wanted a number of shards, or also the TCP address",
        ),
        (
            "[redis]\ncluster = ['h:1']\nshards = ['a:1']",
            "found a list of servers, wanted a number of shards, or also the TCP address",
        ),
        ("[redis]\nurl = 'redis://h'\nshards = ['a:1', 'a:1']", "found a server twice"),
        ("[redis]\nurl = 'redis://h'\nshards = ['a b']", "wanted HOST:PORT"),
        ("[queues.a]\nspread = 1", "queues.a.spread: found integer 1, wanted true or false"),
        ("[queues.a]\nspread = true\nlimit = 3", "a spread queue has no limit"),
        ("[queues.a]\nspread = true\nrate = '1/1s'", "a spread queue has no rate"),
    ] {
        assert!(fault(text).contains(words), "{text}: {}", fault(text));
    }
}

#[test]
fn the_queue_of_a_host_is_nobodys_to_name() {
    let found = fault("[queues.\"@web\"]\nconcurrency = 1\n");
    assert!(found.contains("a name with @ belongs to the queue of a host"), "{found}");
    let found = fault("[jobs.a]\nshell = 'true'\nqueue = '@web'\n");
    assert!(found.contains("wanted a name without @"), "{found}");
}

#[test]
fn a_file_with_too_many_jobs_gets_one_fault() {
    let text: String = (0..=100_000).map(|n| ["[jobs.j", &n.to_string(), "]\n"].concat()).collect();
    let wanted = "jobs.toml: jobs: found 100001 jobs, wanted at most 100000 in one file";
    assert_eq!(faults(&text), [wanted]);
}
