use super::{fault, faults};

/// Returns the problem of a job with these lines. The job must have only one problem.
pub(super) fn job_fault(lines: &str) -> String {
    fault(&format!("[jobs.a]\n{lines}\n"))
}

/// Returns the problem of `[defaults]` with these lines. There must be only one problem.
fn fault_in_defaults(lines: &str) -> String {
    fault(&format!("[defaults]\n{lines}\n[jobs.a]\nshell = 'true'\n"))
}

/// Checks that each line gives exactly one problem with the wanted text, in a job with a `shell`
/// line.
pub(super) fn each_is_refused(cases: &[(&str, &str)]) {
    for (line, wanted) in cases {
        let fault = job_fault(&format!("shell = 'true'\n{line}"));
        assert!(fault.starts_with("jobs.toml:3:"), "{fault}");
        assert!(fault.contains(wanted), "{line}: {fault}\nwanted {wanted}");
    }
}

#[test]
fn durations_are_refused_out_of_bounds_or_without_a_unit() {
    each_is_refused(&[
        ("every = '0s'", "jobs.a.every: found \"0s\", wanted 1s to 10 years"),
        ("every = '315360001s'", "wanted 1s to 10 years"),
        ("every = '-5s'", "jobs.a.every: "),
        ("every = ''", "jobs.a.every: "),
        ("every = 5", "write \"5s\""),
        ("timeout = '0s'", "wanted 100ms to 30 days"),
        ("timeout = '2592001s'", "wanted 100ms to 30 days"),
        ("timeout = '30'", "found string \"30\", wanted a duration such as \"30s\": write \"30s\""),
        ("timeout = 30", "found integer 30, wanted a duration such as \"30s\": write \"30s\""),
        ("timeout = 1.5", "found number 1.5, wanted a duration"),
        ("timeout = -1", "found integer -1, wanted a duration"),
        ("timeout = ['1s']", "found an array, wanted a duration"),
        ("kill_grace = '3601s'", "wanted 0s to 1 hour"),
        ("late_after = '0s'", "wanted 1s to 365 days"),
    ]);
}

#[test]
fn clock_changes_have_two_rules_of_their_words() {
    each_is_refused(&[
        (
            "dst = 'skip'",
            "jobs.a.dst: found string \"skip\", wanted a table such as { gap = \"skip\", fold = \"both\" }",
        ),
        (
            "dst = { gap = 'after' }",
            "jobs.a.dst.gap: found string \"after\", wanted \"run-after\" or \"skip\"",
        ),
        ("dst = { fold = 'frist' }", "jobs.a.dst.fold: "),
        ("dst = { folds = 'first' }", "jobs.a.dst.folds: unknown key, did you mean \"fold\"?"),
    ]);
}

#[test]
fn a_fault_of_an_expression_is_reported_at_its_character() {
    let place = |line: &str| {
        job_fault(&format!("shell = 'true'\n{line}")).split(": ").next().map(str::to_owned).unwrap()
    };
    assert_eq!(place("cron = '0 60 * * *'"), "jobs.toml:3:11");
    assert_eq!(place("cron = ['@daily', \"* * * * 9\"]"), "jobs.toml:3:28");
    assert_eq!(place("cron = '@every 1ms'"), "jobs.toml:3:16");
    // If the text contains escapes, the place is the whole value.
    assert_eq!(place("cron = \"0 60\\u0020* * *\""), "jobs.toml:3:8");
}

#[test]
fn how_a_process_starts_is_held_to_its_forms() {
    each_is_refused(&[
        ("user = 0", "jobs.a.user: found integer 0, wanted a string such as \"backup\""),
        ("user = '1000'", "jobs.a.user: user \"1000\" is not valid: wanted the name of a user"),
        ("user = 'root'", "jobs.a.user: found \"root\", wanted another user"),
        (
            "limits = 3",
            "jobs.a.limits: found integer 3, wanted a table such as { memory = \"512M\"",
        ),
        ("limits = { memory = '1K' }", "jobs.a.limits.memory: found string \"1K\", wanted 1MiB to"),
        ("limits = { memory = '1GB' }", "jobs.a.limits.memory: size \"1GB\" is not valid"),
        (
            "limits = { cpu = 0 }",
            "jobs.a.limits.cpu: found integer 0, wanted a number such as 0.5, more than 0",
        ),
        (
            "limits = { cpu = 0.001 }",
            "jobs.a.limits.cpu: found number 0.001, wanted a number of processors such as 0.5",
        ),
        (
            "limits = { pids = 0 }",
            "jobs.a.limits.pids: found integer 0, wanted an integer from 1 to 4194304",
        ),
        (
            "limits = { nice = -5 }",
            "jobs.a.limits.nice: found integer -5, wanted an integer from 0 to 19",
        ),
        ("limits = { mem = '1G' }", "jobs.a.limits.mem: unknown key"),
        (
            "umask = 27",
            "jobs.a.umask: found integer 27, wanted octal digits in quotes, such as \"0027\"",
        ),
        ("umask = '0o27'", "jobs.a.umask: umask \"0o27\" is not valid: wanted 3 or 4 octal digits"),
        ("stdin = ['a']", "jobs.a.stdin: found an array, wanted a string"),
        (
            "stdin = \"a\\u0000\"",
            "found string (not shown), wanted a string without the character NUL",
        ),
        (
            "shell_program = 'bash'",
            "jobs.a.shell_program: found string \"bash\", wanted the absolute path",
        ),
    ]);
    let loaded = job_fault("shell = 'true'\nuser = 'a'\nenv = { LD_PRELOAD = 'x' }");
    assert!(
        loaded.contains("jobs.toml:4:7: jobs.a.env: found LD_PRELOAD together with user"),
        "{loaded}"
    );
}

#[test]
fn retries_are_held_to_their_bounds() {
    each_is_refused(&[
        ("retry = -1", "jobs.a.retry: found integer -1, wanted an integer from 0 to 1000"),
        ("retry = 1000000000", "wanted an integer from 0 to 1000"),
        ("retry = '3'", "found string \"3\", wanted a number of retries, or a table such as"),
        ("retry = { limit = 1001 }", "jobs.a.retry.limit: found integer 1001"),
        ("retry = { limit = 1, delay = '2592001s' }", "wanted 0s to 30 days"),
        (
            "retry = { limit = 1, delay = '9s', max_delay = '3s' }",
            "jobs.a.retry.max_delay: found string \"3s\", wanted a max_delay not shorter",
        ),
        ("retry = { limit = 1, backoff = 'exponental' }", "did you mean \"exponential\"?"),
        ("retry = { limit = 1, jitter = 'yes' }", "found string \"yes\", wanted true or false"),
        (
            "retry = { limits = 1, limit = 1 }",
            "jobs.a.retry.limits: unknown key, did you mean \"limit\"?",
        ),
    ]);
}

#[test]
fn codes_that_contradict_each_other_or_that_no_attempt_can_have_are_refused() {
    each_is_refused(&[
        (
            "retry = { limit = 1, on = 75 }",
            "jobs.a.retry.on: found integer 75, wanted a list of exit codes or statuses",
        ),
        (
            "retry = { limit = 1, on = [] }",
            "jobs.a.retry.on: found an empty list, wanted the codes to retry on, or limit = 0",
        ),
        (
            "retry = { limit = 1, on = [0] }",
            "jobs.a.retry.on[0]: found integer 0, wanted an integer from 1 to 599",
        ),
        (
            "retry = { limit = 1, never_on = [3, 600] }",
            "jobs.a.retry.never_on[1]: found integer 600, wanted an integer from 1 to 599",
        ),
        (
            "retry = { limit = 1, on = ['75'] }",
            "jobs.a.retry.on[0]: found string \"75\", wanted an integer",
        ),
        (
            "retry = { limit = 1, on = [3, 75], never_on = [75] }",
            "jobs.a.retry.never_on: found code 75 in both on and never_on",
        ),
        (
            "retry = { limit = 1, on = [503] }",
            "retry.on[0]: found integer 503, wanted an exit code from 1 to 255: this job runs a",
        ),
        (
            "retry = { limit = 1, never_on = [1, 256] }",
            "jobs.a.retry.never_on[1]: found integer 256, wanted an exit code",
        ),
    ]);
    let fault = job_fault("http = 'http://h/'\nretry = { limit = 1, on = [503, 99] }");
    assert!(fault.contains("jobs.a.retry.on[1]: found integer 99, wanted a status from 100 to 599: this job makes an HTTP request"));
    let fault = fault_in_defaults("retry = { limit = 1, on = [75], never_on = [75] }");
    assert!(
        fault.contains("defaults.retry.never_on: found code 75 in both on and never_on"),
        "{fault}"
    );
}

#[test]
fn a_question_before_an_attempt_is_exactly_one_and_asked_at_a_known_time() {
    each_is_refused(&[
        (
            "done_check = 'test -e x'",
            "jobs.a.done_check: found string (not shown), wanted a table such as { shell = ",
        ),
        (
            "done_check = {}",
            "jobs.a.done_check: found no action, wanted exactly one of command, shell or http",
        ),
        (
            "done_check = { shell = 'x', command = ['x'] }",
            "found command and shell together, wanted exactly one action",
        ),
        (
            "done_check = { shel = 'x' }",
            "jobs.a.done_check.shel: unknown key, did you mean \"shell\"?",
        ),
        (
            "done_check = { shell = ' ' }",
            "jobs.a.done_check.shell: found string \" \", wanted a line for /bin/sh",
        ),
        ("done_check = { http = 'ftp://h/' }", "jobs.a.done_check.http: found the scheme \"ftp\""),
        (
            "done_check = { shell = 'x', on = 'rety' }",
            "wanted \"retry\" or \"always\": did you mean \"retry\"?",
        ),
        (
            "done_check = { shell = 'x', timeout = '99ms' }",
            "jobs.a.done_check.timeout: found \"99ms\", wanted 100ms to 1 hour",
        ),
        ("done_check = { shell = 'x', timeout = '3601s' }", "wanted 100ms to 1 hour"),
    ]);
    let long = format!("done_check = {{ shell = '{}' }}", "x".repeat(140_000));
    each_is_refused(&[(
        &long,
        "jobs.a.done_check.shell: found 140001 bytes, wanted at most 131072",
    )]);
}

#[test]
fn words_are_refused_with_the_nearest() {
    each_is_refused(&[
        (
            "overlap = 'skp'",
            "wanted \"skip\", \"queue\", \"replace\" or \"allow\": did you mean \"skip\"?",
        ),
        ("overlap = true", "found true, wanted \"skip\", "),
        ("overlap = { max = 3 }", "found no mode, wanted a mode such as"),
        ("overlap = { mode = 'queue', max = 0 }", "jobs.a.overlap.max: found integer 0"),
        ("overlap = { mode = 'skip', max = 3 }", "max applies only to mode = \"queue\""),
        ("catch_up = 'newest'", "wanted \"skip\", \"latest\" or \"all\""),
        ("catch_up = { mode = 'all', max_count = 0 }", "wanted an integer from 1 to 100000"),
        ("catch_up = { max_age = '0s' }", "wanted 1s to 10 years"),
        ("catch_up = { spread = '0s' }", "wanted more than 0s, up to 1 day"),
        ("catch_up = { spread = '25h' }", "wanted more than 0s, up to 1 day"),
        (
            "spread = '10m'",
            "jobs.a.spread: unknown key here, wanted catch_up = { spread = \"10m\" }",
        ),
        ("delivery = 'at_most_once'", "did you mean \"at-most-once\"?"),
        ("delivery = 'exactly-once'", "wanted \"at-least-once\" or \"at-most-once\""),
    ]);
}

#[test]
fn at_most_once_with_retries_is_a_contradiction_that_is_explained() {
    each_is_refused(&[(
        "delivery = 'at-most-once'\nretry = 2",
        "contradicts retry.limit 2: a retry is a second start; wanted retry = 0 or delivery = \"at-least-once\"",
    )]);
    let table =
        job_fault("shell = 'true'\nretry = { limit = 1, on = [75] }\ndelivery = 'at-most-once'");
    assert!(
        table.contains("jobs.a.delivery: ") && table.contains("contradicts retry.limit 1: a retry"),
        "{table}"
    );
    assert!(
        fault_in_defaults("retry = 1\ndelivery = 'at-most-once'")
            .contains("defaults.delivery: delivery \"at-most-once\" contra")
    );
    let delivery =
        fault("[defaults]\nretry = 1\n[jobs.a]\nshell = 'true'\ndelivery = 'at-most-once'");
    assert!(
        delivery.contains("jobs.a.delivery: ")
            && delivery.contains("retry.limit 1 (from [defaults])"),
        "{delivery}"
    );
    let retry = fault("[defaults]\ndelivery = 'at-most-once'\n[jobs.a]\nshell = 'true'\nretry = 1");
    assert!(
        retry.contains(
            "jobs.a.retry: delivery \"at-most-once\" (from [defaults]) contradicts retry.limit 1"
        ),
        "{retry}"
    );
}

#[test]
fn keys_of_later_versions_are_named_as_such() {
    for key in ["rate", "weight"] {
        let fault = job_fault(&format!("shell = 'true'\n{key} = 1"));
        assert!(
            fault.contains(&format!(
                "3:1: jobs.a.{key}: key not supported by this version of schedd"
            )),
            "{fault}"
        );
    }
}

#[test]
fn unknown_keys_are_refused_with_the_nearest() {
    for (line, wanted) in [
        ("time_out = '3s'", "did you mean \"timeout\"?"),
        ("kill-grace = '3s'", "did you mean \"kill_grace\"?"),
        ("TZ = 'UTC'", "did you mean \"tz\"?"),
        ("zebra = 3", "unknown key; docs/jobs-toml.md and man jobs.toml list all keys"),
        ("name = 'b'", "unknown key"),
    ] {
        let fault = job_fault(&format!("shell = 'true'\n{line}"));
        assert!(fault.contains("jobs.toml:3:1: ") && fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn a_schedule_is_one_of_its_forms_and_a_file_is_no_moment() {
    each_is_refused(&[
        (
            "in = '5s'",
            "jobs.a.in: a jobs file cannot have the key in, which counts from the time of schedctl add",
        ),
        ("cron = []", "found 0 expressions, wanted 1 to 32"),
        ("cron = 5", "found integer 5, wanted an expression such as \"30 2 * * *\""),
        ("cron = ['@daily', 5]", "jobs.a.cron[1]: found integer 5, wanted a string"),
        ("at = 5", "found integer 5, wanted a date and time"),
        ("at = 'soon'", "jobs.a.at: found \"soon\", wanted a fixed time: a date and time"),
        ("at = '9999-01-01T00:00:00Z'", "1970 to 2099"),
        ("at = 09:00:00", "a date and time"),
        ("tz = 'Europe/Munich'", "jobs.a.tz: "),
        ("tz = ''", "jobs.a.tz: "),
    ]);
    let many = format!("cron = [{}]", "'@daily',".repeat(33));
    each_is_refused(&[(&many, "found 33 expressions, wanted 1 to 32")]);
    assert!(
        job_fault("shell = 'true'\nat = '2026-12-24T09:00'\nevery = '5s'")
            .contains("found every and at together")
    );
}

#[test]
fn an_action_is_exactly_one() {
    let none = job_fault("every = '5s'");
    assert!(
        none.contains(
            "1:1: jobs.a: found no action, wanted exactly one of command, shell, http or handler"
        ),
        "{none}"
    );
    assert!(
        job_fault("shell = 'true'\ncommand = ['true']")
            .contains("found command and shell together, wanted exactly one action")
    );
    let misspelt = job_fault("comand = ['true']");
    assert!(
        misspelt.contains("did you mean \"command\"?"),
        "the missing action is not told on top: {misspelt}"
    );
}

#[test]
fn the_work_of_a_worker_has_no_keys_of_processes_and_nodes() {
    for (line, wanted) in [
        ("handler = 'a b'", "handler name \"a b\" is not valid"),
        ("payload = 1\nshell = 'true'", "found payload without handler"),
        ("handler = 'a'\nshell = 'true'", "found shell and handler together"),
        ("handler = 'a'\nenv = { A = 'b' }", "env has no effect, because a worker of handler a"),
        ("handler = 'a'\non = 'web1'", "on has no effect"),
        ("handler = 'a'\numask = '022'", "umask has no effect"),
        ("handler = 'a'\ndone_check = { shell = 'true' }", "done_check has no effect"),
        ("handler = 'a'\non = 'each-node'", "found handler with on = \"each-node\""),
        ("handler = 'a'\ncron = '@reboot'", "found @reboot with handler"),
        ("handler = 'a'\nretry = { limit = 1, on = [3] }", "a worker reports no code"),
        ("shell = 'true'\non_failure = { handler = 'a' }", "unknown key"),
        ("shell = 'true'\nrequires = ['handler:a']", "label name \"handler:a\" is not valid"),
    ] {
        let fault = job_fault(line);
        assert!(fault.contains(wanted), "{line}: {fault}\nwanted {wanted}");
    }
    let long = format!("handler = 'a'\npayload = '{}'", "x".repeat(256 * 1024 - 1));
    let fault = job_fault(&long);
    assert!(
        fault.contains("jobs.a.payload: found 262145 bytes of JSON, wanted at most 262144"),
        "{fault}"
    );
}

#[test]
fn a_command_is_words_the_kernel_will_take() {
    for (line, wanted) in [
        ("command = []", "found an empty list, wanted at least the program to run"),
        ("command = ['']", "found \"\" as the first word, wanted a program"),
        ("command = ['  ']", "found \"  \" as the first word, wanted a program"),
        ("command = 'ls -l'", "found string (not shown), wanted a list of words"),
        ("command = ['ls', 3]", "jobs.a.command[1]: found integer (not shown), wanted a string"),
        (
            "command = ['ls', \"a\\u0000b\"]",
            "jobs.a.command[1]: found string (not shown), wanted a string without the character NUL",
        ),
        ("shell = ' \\t '", "wanted a line for /bin/sh"),
        ("shell = \"a\\u0000b\"", "without the character NUL"),
        ("shell = ['ls']", "found an array, wanted a string"),
    ] {
        let fault = job_fault(&line.replace("\\t", " "));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
}

#[test]
fn what_is_too_long_for_the_kernel_or_for_us_is_refused_with_the_limit() {
    let word = |bytes: usize| "x".repeat(bytes);
    let fits = format!("[jobs.a]\ncommand = ['ls', '{}']", word(128 * 1024 - 1));
    assert!(super::compile(&fits).is_ok());
    let fault = job_fault(&format!("command = ['ls', '{}']", word(128 * 1024)));
    assert!(
        fault.contains(
            "2:11: jobs.a.command[1]: found 131073 bytes, wanted at most 131072 (128 KiB"
        ),
        "{fault}"
    );
    let fault = job_fault(&format!("shell = 'true'\nenv = {{ A = '{}' }}", word(128 * 1024 - 2)));
    assert!(fault.contains("3:7: jobs.a.env.A: found 131073 bytes"), "{fault}");
    let fault = job_fault(&format!("command = [{}]", format!("'{}',", word(100_000)).repeat(11)));
    assert!(
        fault.contains("jobs.a: found 1100011 bytes of arguments and env together, wanted at most 1048576 (1 MiB)"),
        "{fault}"
    );
    let fault = job_fault(&format!("command = [{}]", format!("'{}',", word(100_000)).repeat(4)));
    assert!(fault.contains("bytes, wanted at most 327680 (320 KiB)"), "{fault}");
}

#[test]
fn variables_have_names_and_texts() {
    each_is_refused(&[
        ("env = { 'A=B' = '1' }", "3:9: jobs.a.env.\"A…\": not a name for a variable"),
        ("env = { 1X = '1' }", "not a name for a variable"),
        ("env = { '' = '1' }", "not a name for a variable"),
        ("env = { A = 1 }", "jobs.a.env.A: found integer (not shown), wanted a string"),
        ("env = { A = \"x\\u0000\" }", "without the character NUL"),
        ("env = ['A=1']", "found an array, wanted a table"),
        ("cwd = 'srv'", "wanted an absolute path"),
        ("cwd = ''", "wanted an absolute path"),
    ]);
}

#[test]
fn a_url_is_absolute_http_and_without_a_password() {
    let long = format!("http://example.com/{}", "x".repeat(8 * 1024));
    for (url, wanted) in [
        ("file:///etc/passwd", "found the scheme \"file\", wanted http or https"),
        ("gopher://example.com", "found the scheme \"gopher\""),
        ("http://u:hunter2@example.com/", "wanted a header such as Authorization"),
        ("http://u@example.com/", "wanted a header such as Authorization"),
        ("http://", "found an invalid URL"),
        ("/ping", "found an invalid URL"),
        ("", "found an invalid URL"),
        ("http://exa mple.com/", "wanted this character percent-encoded"),
        ("http://example.com:99999/", "found an invalid URL"),
        (&long, "wanted at most 8192 (8 KiB)"),
    ] {
        for form in [format!("http = '{url}'"), format!("http = {{ url = '{url}' }}")] {
            let fault = job_fault(&form);
            assert!(fault.contains(wanted) && !fault.contains("hunter2"), "{fault}\n{wanted}");
        }
    }
    for url in ["http://127.0.0.1/", "http://[::1]:8080/x?y#z", "https://localhost"] {
        assert!(super::compile(&format!("[jobs.a]\nhttp = '{url}'")).is_ok(), "{url}");
    }
}

#[test]
fn a_request_cannot_be_bent_by_its_parts() {
    let long = format!("headers = {{ X = '{}' }}", "x".repeat(65 * 1024));
    for (part, wanted) in [
        ("method = 'get'", "jobs.a.http.method: found string \"get\", wanted \"GET\", "),
        ("method = 'TRACE'", "wanted \"GET\", "),
        ("method = \"GET / HTTP/1.1\\r\\n\"", "wanted \"GET\", "),
        ("headers = { 'A B' = 'x' }", "not a header name"),
        ("headers = { '' = 'x' }", "not a header name"),
        ("headers = { \"A\\r\\nB\" = 'x' }", "not a header name"),
        ("headers = { A = \"x\\r\\nB: y\" }", "wanted a value without line breaks"),
        ("headers = { A = \"x\\u0000\" }", "without the character NUL"),
        ("headers = { A = 1 }", "found integer (not shown), wanted a string"),
        (
            "headers = { hOST = 'x' }",
            "jobs.a.http.headers.hOST: header not allowed, because schedd sets it from the URL",
        ),
        ("headers = { Content-Length = '0' }", "not allowed"),
        ("headers = { Transfer-Encoding = 'chunked' }", "not allowed"),
        ("headers = { A = 'x', a = 'y' }", "found this header twice"),
        (&long, "wanted at most 65536 (64 KiB) in all"),
        ("body = 3", "found integer (not shown), wanted a string"),
        ("expect = 200", "wanted a list of statuses"),
        (
            "expect = [200, 99]",
            "jobs.a.http.expect[1]: found integer 99, wanted an integer from 100 to 599",
        ),
        ("expect = [600]", "wanted an integer from 100 to 599"),
        ("redirects = 11", "wanted an integer from 0 to 10"),
        ("redirects = 300", "wanted an integer from 0 to 10"),
        ("methd = 'GET'", "did you mean \"method\"?"),
    ] {
        let fault = job_fault(&format!("http = {{ url = 'http://example.com/', {part} }}"));
        assert!(fault.contains(wanted), "{fault}\n{wanted}");
    }
    assert!(job_fault("http = { method = 'GET' }").contains("found no url, wanted url ="));
    assert!(job_fault("http = 3").contains("wanted a URL or a table"));
}

#[test]
fn every_fault_of_one_request_is_reported() {
    let text = "[jobs.a]\nhttp = { url = 'ftp://h', method = 'X', headers = { Host = 'x', B = 1 }, expect = [1], redirects = 99 }";
    let faults = faults(text);
    assert_eq!(faults.len(), 6, "{faults:#?}");
}

#[test]
fn every_fault_of_one_rule_is_reported() {
    let found = faults(
        "[jobs.a]\nshell = 'true'\nretry = { limit = -1, delay = 'x', backoff = 'y', max_delay = 3, jitter = 4 }\n\
         catch_up = { mode = 'x', max_age = 3, max_count = 0 }\noverlap = { mode = 'x', max = 0 }",
    );
    assert_eq!(found.len(), 5 + 3 + 2, "{found:#?}");
}

#[test]
fn nodes_of_a_job_are_refused_if_no_node_can_be_meant() {
    each_is_refused(&[
        ("on = 'Web1'", "jobs.a.on: node name \"Web1\" is not valid"),
        ("on = 5", "jobs.a.on: found integer 5, wanted the name of a node, a list of names, or"),
        ("on = ['each-node', 'b']", "wanted names of nodes, or only \"each-node\""),
        ("on = ['a','b','c','d','e','f','g','h','i']", "found 9 nodes, wanted at most 8"),
        ("max_parallel = 2", "jobs.a.max_parallel: found max_parallel without on = \"each-node\""),
        (
            "max_parallel = 0\non = 'each-node'",
            "jobs.a.max_parallel: found integer 0, wanted an integer from 1 to",
        ),
        (
            "at = '2099-01-01T00:00:00Z'\non = 'each-node'",
            "jobs.a.at: found at with on = \"each-node\"",
        ),
        ("cron = '@reboot'\non = 'each-node'", "@reboot already runs on each host"),
        ("max_parallel = 2\non = 'each-node'\nkey = 'k'", "a job has one concurrency key"),
    ]);
}

#[test]
fn what_a_run_has_to_pass_is_refused_if_it_cannot_be_passed() {
    each_is_refused(&[
        ("key = ''", "jobs.a.key: key \"\" is not valid: wanted 1 to 256 characters"),
        ("key = \"a\\u0007\"", "without control characters"),
        ("key = 5", "jobs.a.key: found integer 5, wanted"),
        (
            "per_key = 2",
            "jobs.a.per_key: found per_key without key: add a key such as key = \"customer-42\"",
        ),
        ("not_while = ['a b']", "jobs.a.not_while[0]: job name \"a b\" is not valid"),
        ("not_while = ['b', 'b']", "jobs.a.not_while: found \"b\" twice, wanted each job once"),
        ("not_while = ['b', 'a']", "jobs.a.not_while: found the job's own name"),
        (
            "not_while = 5",
            "jobs.a.not_while: found integer 5, wanted names of jobs such as [\"backup\"]",
        ),
    ]);
    for (per_key, wanted) in [
        ("0", "jobs.a.per_key: found integer 0, wanted an integer from 1 to 1000000"),
        ("{}", "wanted limit, rate or both, such as { limit = 1, rate = \"10/1m\" }"),
        ("{ limit = 1, burst = 5 }", "burst"),
        ("{ rate = '10' }", "rate \"10\" has no /"),
        ("{ limits = 1 }", "unknown key, did you mean \"limit\"?"),
        ("'x'", "wanted a number of runs at once, or a table such as"),
    ] {
        let message =
            super::faults(&format!("[jobs.a]\nshell = 'true'\nkey = 'k'\nper_key = {per_key}\n"))
                .join("\n");
        assert!(message.contains(wanted), "{per_key}: {message}");
    }
    let many: Vec<String> = (0..17).map(|n| format!("'b{n}'")).collect();
    let message = job_fault(&format!("shell = 'true'\nnot_while = [{}]", many.join(", ")));
    assert!(message.contains("found 17 jobs, wanted at most 16"), "{message}");
}
