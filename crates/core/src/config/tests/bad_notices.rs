//! Tests of common mistakes in the notifications of a job and the start of its process. Each
//! mistake is reported at its place, with the wanted value.

use super::bad_jobs::each_is_refused;
use super::{compile, fault, faults, good, host, job};
use crate::config::job_from_json;
use crate::domain::job::process_limits::Limits;
use crate::domain::job::process_rules::ProcessRules;

#[test]
fn a_job_says_false_to_the_pings_of_the_defaults() {
    let text = "[defaults]\nping_url = 'https://h/{job}'\n[jobs.a]\nshell = 'x'\n[jobs.b]\nshell = 'x'\nping_url = false\n";
    let jobs = compile(text).unwrap().jobs;
    let pings: Vec<_> = jobs.values().map(|job| job.spec().unwrap().ping_url).collect();
    assert_eq!(pings, [Some("https://h/{job}".to_owned()), None]);
}

#[test]
fn a_notice_is_an_action_and_nothing_else() {
    const WANTED: &str = "wanted a table such as { shell = \"mail -s backup me\" }";
    for kind in ["on_failure", "on_success", "on_late", "on_recovered"] {
        let cases = [
            ("'mail me'", format!("jobs.a.{kind}: found string (not shown), {WANTED}")),
            ("true", format!("jobs.a.{kind}: found true, {WANTED}")),
            ("3", format!("jobs.a.{kind}: found integer (not shown), {WANTED}")),
            ("['mail', 'me']", format!("jobs.a.{kind}: found an array, {WANTED}")),
            (
                "{}",
                format!(
                    "jobs.a.{kind}: found no action, wanted exactly one of command, shell or http"
                ),
            ),
            (
                "{ shell = '' }",
                format!("jobs.a.{kind}.shell: found string \"\", wanted a line for /bin/sh"),
            ),
            ("{ shel = 'x' }", format!("jobs.a.{kind}.shel: unknown key, did you mean \"shell\"?")),
            (
                "{ email = 'me@h' }",
                format!("jobs.a.{kind}.email: unknown key, wanted command, shell or http"),
            ),
            (
                "{ command = 'mail me' }",
                format!("jobs.a.{kind}.command: found string (not shown), wanted a list of words"),
            ),
            ("{ command = [] }", format!("jobs.a.{kind}.command: found an empty list")),
            ("{ shell = 'x', timeout = '1m' }", format!("jobs.a.{kind}.timeout: unknown key")),
            (
                "{ shell = 'x', http = 'http://h/' }",
                format!("jobs.a.{kind}.http: found shell and http together"),
            ),
            ("{ http = 'example.com/alert' }", format!("jobs.a.{kind}.http: found an invalid URL")),
            (
                "{ http = { method = 'POST' } }",
                format!("jobs.a.{kind}.http: found no url, wanted url ="),
            ),
            (
                "{ http = { url = 'mailto:me@h' } }",
                format!("jobs.a.{kind}.http.url: found the scheme (not shown)"),
            ),
            (
                "{ http = { url = 'http://h/', headers = { A = '${env:X}' } } }",
                format!("jobs.a.{kind}.http.headers.A: the text has ${{"),
            ),
            (
                "{ shell = 'curl -H ${credential:t}' }",
                format!("jobs.a.{kind}.shell: found a credential in a command line"),
            ),
        ];
        for (value, wanted) in &cases {
            each_is_refused(&[(&format!("{kind} = {value}"), wanted)]);
        }
    }
    for (key, meant) in [
        ("on_fail", "on_failure"),
        ("onfailure", "on_failure"),
        ("on_sucess", "on_success"),
        ("on-late", "on_late"),
    ] {
        let wanted = format!("jobs.a.{key}: unknown key, did you mean \"{meant}\"?");
        each_is_refused(&[(&format!("{key} = {{ shell = 'x' }}"), &wanted)]);
    }
    assert!(
        fault("[defaults]\non_failure = 'x'\n[jobs.a]\nshell = 'true'")
            .starts_with("jobs.toml:2:14: defaults.on_failure: ")
    );
}

#[test]
fn a_time_to_start_or_end_in_is_bounded_and_somebody_is_reported_of_it() {
    for key in ["must_start_within", "must_finish_within"] {
        for (value, wanted) in [
            ("'0s'", "found \"0s\", wanted 1s to 365 days"),
            ("'366d'", "found \"366d\", wanted 1s to 365 days"),
            ("600", "found integer 600, wanted a duration such as \"10m\": write \"600s\""),
            ("'600'", "write \"600s\""),
            ("'soon'", "has \"soon\" in the place of a number"),
            ("'-5m'", "duration \"-5m\""),
            ("true", "found true, wanted a duration"),
        ] {
            let line = format!("{key} = {value}\non_late = {{ shell = 'x' }}");
            each_is_refused(&[(&line, &format!("jobs.a.{key}: ")), (&line, wanted)]);
        }
        each_is_refused(&[(
            &format!("{key} = '5m'"),
            "nobody would be notified when a run passes its deadline: add on_late = ",
        )]);
        each_is_refused(&[(
            &format!("{key} = '5m'\non_late = false"),
            "nobody would be notified when a run passes its deadline",
        )]);
        assert!(
            compile(&format!(
                "[defaults]\non_late = {{ shell = 'x' }}\n[jobs.a]\nshell = 'x'\n{key} = '5m'"
            ))
            .is_ok()
        );
    }
}

#[test]
fn what_watches_from_outside_is_pinged_at_a_url() {
    each_is_refused(&[
        (
            "ping_url = true",
            "jobs.a.ping_url: found true, wanted a URL such as \"https://hc-ping.com/UUID\", or false",
        ),
        ("ping_url = 'hc-ping.com/abc'", "jobs.a.ping_url: found an invalid URL"),
        ("ping_url = ''", "jobs.a.ping_url: found an invalid URL"),
        ("ping_url = 'https://hc-ping.com/a b'", "jobs.a.ping_url: found ' ' in a URL"),
        (
            "ping_url = ['https://hc-ping.com/a']",
            "jobs.a.ping_url: found an array, wanted a string",
        ),
        (
            "ping_url = { url = 'https://hc-ping.com/a' }",
            "jobs.a.ping_url: found a table, wanted a string",
        ),
        (
            "ping_url = 'https://hc-ping.com/${HC_ID}'",
            "jobs.a.ping_url: the text has ${ without credential:",
        ),
        ("ping = 'https://hc-ping.com/a'", "jobs.a.ping: unknown key"),
    ]);
    let fault = fault("[jobs.a]\nshell = 'x'\nping_url = 'https://u:hunter2@h/'");
    assert!(
        fault.contains("found a user or password in the URL") && !fault.contains("hunter2"),
        "{fault}"
    );
}

#[test]
fn a_secret_that_signs_is_none_or_whole_and_is_never_shown() {
    let short = "whsec_aHVudGVyMg==";
    for value in [
        "'hunter2'",
        "'whsec_hunter2'",
        &format!("'{short}'"),
        "''",
        "['hunter2']",
        "'${credential:}'",
    ] {
        let fault = fault(&format!("[jobs.a]\nshell = 'x'\nwebhook_secret = {value}"));
        assert!(
            fault.contains("jobs.a.webhook_secret")
                && fault.contains("is not a signing secret: wanted whsec_"),
            "{fault}"
        );
        assert!(!fault.contains("hunter2") && !fault.contains("aHVudGVyMg"), "{fault}");
    }
    let whole = "'${credential:hook}'";
    let many = [whole; 5].join(", ");
    each_is_refused(&[
        ("webhook_secret = []", "jobs.a.webhook_secret: found 0 secrets, wanted 1 to 4"),
        (
            &format!("webhook_secret = [{many}]"),
            "jobs.a.webhook_secret: found 5 secrets, wanted 1 to 4",
        ),
        ("webhook_secret = 3", "jobs.a.webhook_secret: found integer (not shown), wanted a string"),
    ]);
}

#[test]
fn users_limits_umasks_inputs_and_shells_are_refused_in_the_forms_people_try() {
    each_is_refused(&[
        ("user = ''", "jobs.a.user: user \"\" is not valid"),
        ("user = 'backup:'", "jobs.a.user: user \"backup:\" is not valid"),
        ("user = ':adm'", "jobs.a.user: user \":adm\" is not valid"),
        ("user = 'a b'", "jobs.a.user: user \"a b\" is not valid"),
        ("user = 'root:adm'", "jobs.a.user: found \"root\", wanted another user"),
        ("user = ['backup']", "jobs.a.user: found an array, wanted a string"),
        (
            "limits = '512M'",
            "jobs.a.limits: found string \"512M\", wanted a table such as { memory = \"512M\"",
        ),
        ("limits = { memory = 512 }", "jobs.a.limits.memory: found integer 512"),
        ("limits = { memory = '' }", "jobs.a.limits.memory: "),
        ("limits = { memory = '-1M' }", "jobs.a.limits.memory: size \"-1M\" is not valid"),
        ("limits = { memory = '50%' }", "jobs.a.limits.memory: size \"50%\" is not valid"),
        (
            "limits = { cpu = '50%' }",
            "jobs.a.limits.cpu: found string \"50%\", wanted a number such as 0.5",
        ),
        ("limits = { cpu = nan }", "jobs.a.limits.cpu: "),
        ("limits = { cpu = inf }", "jobs.a.limits.cpu: "),
        ("limits = { pids = 1.5 }", "jobs.a.limits.pids: found number 1.5, wanted an integer"),
        (
            "limits = { files = 3 }",
            "jobs.a.limits.files: found integer 3, wanted an integer from 16 to 1048576",
        ),
        (
            "limits = { nice = 20 }",
            "jobs.a.limits.nice: found integer 20, wanted an integer from 0 to 19",
        ),
        ("limits = { cpus = 2 }", "jobs.a.limits.cpus: unknown key, did you mean \"cpu\"?"),
        ("memory = '1G'", "jobs.a.memory: unknown key"),
        ("umask = 0o027", "jobs.a.umask: found integer 23, wanted octal digits in quotes"),
        ("umask = '27'", "jobs.a.umask: umask \"27\" is not valid: wanted 3 or 4 octal digits"),
        ("umask = '0888'", "jobs.a.umask: umask \"0888\" is not valid"),
        ("umask = 'u=rwx'", "jobs.a.umask: umask \"u=rwx\" is not valid"),
        ("stdin = 3", "jobs.a.stdin: found integer (not shown), wanted a string"),
        ("stdin = { file = '/x' }", "jobs.a.stdin: found a table, wanted a string"),
        ("shell_program = ''", "jobs.a.shell_program: found string \"\", wanted the absolute path"),
        (
            "shell_program = ['/bin/bash', '-l']",
            "jobs.a.shell_program: found an array, wanted a string",
        ),
    ]);
}

#[test]
fn what_is_about_a_process_is_refused_of_a_job_that_starts_none() {
    let named = [
        ("user", "user = 'nobody'"),
        ("limits", "limits = { files = 99 }"),
        ("umask", "umask = '0027'"),
        ("stdin", "stdin = 'x'"),
        ("shell_program", "shell_program = '/bin/sh'"),
    ];
    let fault_of = |key: &str| {
        format!(
            "jobs.a.{key}: {key} has no effect, because an HTTP request starts no process: remove {key}, or use a program, such as shell = \"curl ...\""
        )
    };
    for (key, line) in named {
        let text = format!("[jobs.a]\nhttp = 'http://h/'\n{line}\n");
        assert!(fault(&text).ends_with(&fault_of(key)), "{}", fault(&text));
        // A single problem points at its line.
        assert!(fault(&text).starts_with("jobs.toml:3:"), "{}", fault(&text));
    }
    let all = named.map(|(_, line)| line).join("\n");
    assert_eq!(faults(&format!("[jobs.a]\nhttp = 'http://h/'\n{all}\n")).len(), named.len());
    // Each rule has an effect if a notice or the `done_check` starts a process that obeys the rule.
    for (beside, idle) in [
        ("on_failure = { shell = 'mail' }", &["limits", "stdin"][..]),
        ("done_check = { command = ['test'] }", &["stdin"]),
        (
            "on_failure = { http = 'http://h/' }\ndone_check = { http = 'http://h/' }",
            &["user", "limits", "umask", "stdin", "shell_program"],
        ),
    ] {
        let text = format!("[jobs.a]\nhttp = 'http://h/'\n{beside}\n{all}\n");
        let mut wanted: Vec<String> = idle.iter().map(|key| fault_of(key)).collect();
        let mut found: Vec<String> = faults(&text)
            .iter()
            .map(|line| line.splitn(4, ':').nth(3).unwrap().trim().to_owned())
            .collect();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{beside}");
        // The same action in `[defaults]` counts too, because the tables are merged.
        let text = format!("[defaults]\n{beside}\n[jobs.a]\nhttp = 'http://h/'\n{all}\n");
        assert_eq!(faults(&text).len(), idle.len(), "{text}");
    }
    // A misspelled `on_failure` is reported as an unknown key, and `user` is not reported as
    // unused.
    let slip =
        fault("[jobs.a]\nhttp = 'http://h/'\nuser = 'nobody'\non_failur = { shell = 'mail' }\n");
    assert!(slip.contains("unknown key"), "{slip}");
    let faulty =
        fault("[jobs.a]\nhttp = 'http://h/'\nuser = 'nobody'\non_failure = { shell = '' }\n");
    assert!(faulty.contains("on_failure.shell"), "{faulty}");
}

#[test]
fn what_defaults_say_of_processes_is_not_for_a_request() {
    let all = "user = 'nobody'\nlimits = { files = 99 }\numask = '0027'\nstdin = 'x'\nshell_program = '/bin/sh'\n";
    let config =
        good(&format!("[defaults]\n{all}[jobs.a]\nhttp = 'http://h/'\n[jobs.b]\nshell = 'true'\n"));
    assert_eq!(job(&config, "a").process, ProcessRules::default());
    assert!(job(&config, "b").process.user.is_some() && job(&config, "b").process.stdin.is_some());
    let config = good(&format!(
        "[defaults]\n{all}[jobs.a]\nhttp = 'http://h/'\non_late = {{ shell = 'mail' }}\n"
    ));
    let of_notice = job(&config, "a").process;
    assert!(
        of_notice.user.is_some() && of_notice.umask.is_some() && of_notice.shell_program.is_some()
    );
    assert!(of_notice.stdin.is_none() && of_notice.limits == Limits::default());
}

#[test]
fn a_line_is_refused_as_a_file_is() {
    for (line, wanted) in [
        (
            r#"{"shell":"x","on_failure":"mail me"}"#,
            "on_failure: found string (not shown), wanted a table",
        ),
        (
            r#"{"shell":"x","must_start_within":"5m"}"#,
            "must_start_within: nobody would be notified when a run passes its deadline",
        ),
        (r#"{"shell":"x","ping_url":"h"}"#, "ping_url: found an invalid URL"),
        (
            r#"{"shell":"x","webhook_secret":"hunter2"}"#,
            "webhook_secret: the value (not shown) is not a signing secret",
        ),
        (
            r#"{"http":"http://h/","umask":"0027"}"#,
            "umask: umask has no effect, because an HTTP request starts no process: remove umask",
        ),
        (r#"{"shell":"x","limits":{"cpu":"half"}}"#, "limits.cpu: found string \"half\""),
    ] {
        let problems = job_from_json(line, &host()).unwrap_err();
        assert!(
            problems.len() == 1 && problems[0].to_string().starts_with(wanted),
            "{line}: {problems:#?}"
        );
    }
    let nobody =
        job_from_json(r#"{"shell":"x","on_failure":null,"on_late":false}"#, &host()).unwrap();
    assert!(nobody.spec.notices.is_empty());
}

#[test]
fn a_file_with_all_of_them_wrong_is_reported_all_of_them() {
    let text = "\
[defaults]
on_failure = { shel = 'mail me' }
[jobs.a]
shell = 'x'
on_late = 'mail me'
must_start_within = '0s'
ping_url = 'h'
webhook_secret = 'hunter2'
[jobs.b]
shell = 'x'
user = 'root'
limits = { memory = 5, cpu = 0 }
umask = 27
stdin = 3
shell_program = 'bash'
must_finish_within = '1h'
";
    let wanted = [
        "jobs.toml:2:16: defaults.on_failure.shel: ",
        "jobs.toml:5:11: jobs.a.on_late: ",
        "jobs.toml:6:21: jobs.a.must_start_within: found \"0s\"",
        "jobs.toml:7:12: jobs.a.ping_url: ",
        "jobs.toml:8:18: jobs.a.webhook_secret: the value (not shown) is not a signing secret",
        "jobs.toml:11:8: jobs.b.user: ",
        "jobs.toml:12:21: jobs.b.limits.memory: ",
        "jobs.toml:12:30: jobs.b.limits.cpu: ",
        "jobs.toml:13:9: jobs.b.umask: ",
        "jobs.toml:14:9: jobs.b.stdin: ",
        "jobs.toml:15:17: jobs.b.shell_program: ",
        "jobs.toml:16:22: jobs.b.must_finish_within: nobody would be notified when a run passes its deadline",
    ];
    let faults = faults(text);
    assert_eq!(faults.len(), wanted.len(), "{faults:#?}");
    assert!(
        faults.iter().zip(wanted).all(|(fault, wanted)| fault.starts_with(wanted)),
        "{faults:#?}"
    );
}
