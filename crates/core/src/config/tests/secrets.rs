use super::bad_jobs::job_fault;
use super::{compile, fault, good, host, job, warnings};
use crate::config::file::compile_file::{compile_file, compile_redis_alone};
use crate::config::file::secret_exposure::{Exposure, Provenance};
use crate::config::key::file_host::FileHost;
use crate::config::{from_canonical, job_from_json, to_canonical};

#[test]
fn a_reference_may_stand_in_variables_and_in_every_text_of_a_request() {
    let config = good(
        "[redis]\nurl = 'redis://u:${credential:redis}@h/'\n[jobs.a]\nshell = 'true'\nenv = { A = 'x ${credential:a}', B = '$${x} $(y) $z' }\n\
         [jobs.b]\nhttp = { url = 'https://h/${credential:path}', headers = { X = 'Bearer ${credential:b}' }, body = '${credential:c}' }\n\
         [jobs.c]\nhttp = '${credential:hook}'",
    );
    for name in ["a", "b", "c"] {
        let spec = job(&config, name);
        let text = to_canonical(&spec);
        assert!(text.contains("${credential:"), "{text}");
        assert_eq!(from_canonical(&text).unwrap(), spec);
    }
    assert!(good("[redis]\nurl = '${credential:redis-url}'").redis.url.is_some());
}

#[test]
fn any_other_reference_is_refused_at_its_place() {
    for (line, place, wanted) in [
        (
            "env = { A = 'x${UNSET}' }",
            "jobs.toml:3:15: jobs.a.env.A: ",
            "wanted ${credential:NAME}",
        ),
        (
            "env = { A = '${credential:../x}' }",
            "jobs.toml:3:14: jobs.a.env.A: ",
            "with 1 to 255 of the characters",
        ),
        (
            "done_check = { http = { url = 'http://h/', headers = { X = '${X}' } } }",
            "jobs.toml:3:61: ",
            "jobs.a.done_check.http.headers.X: ",
        ),
        (
            "done_check = { shell = 'x ${credential:a}' }",
            "jobs.toml:3:24: ",
            "wanted the credential in env",
        ),
    ] {
        let fault = job_fault(&format!("shell = 'true'\n{line}"));
        assert!(fault.starts_with(place) && fault.contains(wanted), "{line}: {fault}");
    }
    for action in ["shell = 'curl -u ${credential:a} h'", "command = ['x', '${credential:a}']"] {
        assert!(
            job_fault(action)
                .contains("which everybody on the host can read; wanted the credential in env"),
            "{action}"
        );
    }
    for http in [
        "'https://h/${X}'",
        "{ url = 'https://h/', body = '${X}' }",
        "{ url = 'https://h/${credential:}' }",
    ] {
        assert!(
            job_fault(&format!("http = {http}")).contains("wanted ${credential:NAME}"),
            "{http}"
        );
    }
    assert!(fault("[defaults]\nenv = { A = '${X}' }").contains("defaults.env.A: "));
    assert!(fault("[redis]\nurl = 'redis://:${X}@h/'").contains("redis.url: "));
    assert!(job_from_json(r#"{"shell": "true", "env": {"A": "${X}"}}"#, &host()).is_err());
    // An older schedd, without references, may have stored such a definition in Redis.
    assert!(from_canonical(r#"{"env":{"A":"${X}"},"shell":"true"}"#).is_ok());
    assert!(job_fault("http = { url = 'ftp://${credential:h}/' }").contains("the scheme \"ftp\""));
}

#[test]
fn files_of_variables_are_listed_in_their_order_and_the_jobs_replace_the_defaults() {
    let config = good(
        "[defaults]\nenv_file = '-/no/d.env'\n[jobs.a]\nshell = 'true'\n[jobs.b]\nshell = 'true'\nenv_file = ['-/no/2', '-/no/1']",
    );
    let listed = |name: &str| {
        job(&config, name).env_files.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (listed("a"), listed("b")),
        (vec!["-/no/d.env".to_owned()], vec!["-/no/2".to_owned(), "-/no/1".to_owned()])
    );
    let found = warnings("[jobs.a]\nshell = 'true'\nenv_file = ['/no/such.env', '/dev/null']");
    assert_eq!(
        found,
        [
            "jobs.a.env_file[0]: file \"/no/such.env\" does not exist on this host, so runs here will fail to start"
        ]
    );
    let idle = "[jobs.a]\nhttp = 'http://h/'\ncwd = '/no/such'\nenv_file = '/no/such.env'";
    assert_eq!(warnings(idle), [""; 0], "a request needs neither");
    for (value, wanted) in [
        ("'x.env'", "the text (not shown) is not a path, wanted an absolute path"),
        ("3", "found integer (not shown)"),
        ("[3]", "env_file[0]: found integer"),
    ] {
        let fault = job_fault(&format!("shell = 'true'\nenv_file = {value}"));
        assert!(fault.contains(wanted), "{fault}");
    }
    let many = vec!["'/x'"; 17].join(",");
    assert!(
        job_fault(&format!("shell = 'true'\nenv_file = [{many}]"))
            .contains("wanted at most 16 files")
    );
}

#[test]
fn an_address_in_a_file_of_somebody_else_is_given_no_credential() {
    let doubted =
        Provenance { exposure: Exposure::Private, doubt: Some("belongs to user 7".to_owned()) };
    let read = |text: &str| compile_file(text, (FileHost::Here, "jobs.toml"), &host(), &doubted);
    for faulty in ["", "[jobs.a]\nshel = 1"] {
        let text = format!("[redis]\nurl = 'redis://:${{credential:x}}@h/'\n{faulty}");
        let error = read(&text).unwrap_err().to_string();
        assert!(
            error.contains(
                "redis.url: no credential is sent to an address that another user may have written: belongs to user 7"
            ),
            "{error}"
        );
        assert_eq!(compile_redis_alone(&text, &doubted), None);
    }
    assert!(read("[redis]\nurl = 'redis://h/'").is_ok());
    assert!(
        compile_redis_alone("[redis]\nurl = 'redis://h/'\n[jobs.a]\nshel = 1", &doubted).is_some()
    );
}

#[test]
fn a_secret_in_a_file_everybody_can_read_is_doubted_and_for_root_refused() {
    let http = |value: &str| {
        format!(
            "[jobs.a]\nhttp = {{ url = 'http://h/', headers = {{ authorization = '{value}' }} }}"
        )
    };
    let notice = |table: &str, value: &str| {
        let notice = format!(
            "{{ http = {{ url = 'http://h/', headers = {{ Authorization = '{value}' }} }} }}"
        );
        format!("{table}\non_failure = {notice}\n[jobs.b]\nshell = 'true'")
    };
    let signed = |value: &str| format!("[jobs.a]\nhttp = 'http://h/'\nwebhook_secret = {value}");
    // A key of 24 bytes, with the marker in the middle.
    let key = "whsec_AAAAAAAAAAAAAAAAAAAAhunter2AAAAA";
    let secrets = [
        "[redis]\nurl = 'redis://:hunter2@h/'".to_owned(),
        http("Bearer hunter2"),
        notice("[jobs.a]\nshell = 'true'", "Bearer hunter2"),
        notice("[defaults]", "Bearer hunter2"),
        signed(&format!("'{key}'")),
        signed(&format!("['${{credential:x}}', '{key}']")),
    ];
    for text in &secrets {
        let read = |exposure| {
            compile_file(
                text,
                (FileHost::Here, "jobs.toml"),
                &host(),
                &Provenance { exposure, doubt: None },
            )
        };
        assert_eq!(read(Exposure::Private).unwrap().warnings, []);
        let doubt = read(Exposure::Public).unwrap().warnings[0].to_string();
        let refused = read(Exposure::PublicOfRoot).unwrap_err().to_string();
        assert!(
            [&doubt, &refused]
                .iter()
                .all(|it| it.contains("everybody on the host can read: chmod o-r")
                    && !it.contains("hunter2")),
            "{refused}"
        );
    }
    for text in [
        "[redis]\nurl = 'redis://:${credential:x}@h/'".to_owned(),
        http("Bearer ${credential:x}"),
        notice("[defaults]", "Bearer ${credential:x}"),
        signed("'${credential:x}'"),
    ] {
        assert_eq!(
            compile_file(
                &text,
                (FileHost::Here, "jobs.toml"),
                &host(),
                &Provenance { exposure: Exposure::PublicOfRoot, doubt: None }
            )
            .unwrap()
            .warnings,
            []
        );
    }
}

#[test]
fn a_faulty_header_is_reported_without_its_value() {
    let error = compile(
        "[jobs.a]\nhttp = { url = 'http://h/', headers = { Authorization = \"hunter2\\n\" } }",
    )
    .unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Puts a marker into every place, in every wrong form. No problem may repeat the marker.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of places")]
fn a_secret_in_the_wrong_form_or_place_is_in_no_problem() {
    const WORD: &str = "S3cr3t";
    // Wrong values, each of another form.
    let slips = [
        "'PGPASSWORD=S3cr3t'",
        "'Authorization: Bearer S3cr3t'",
        "'curl -u a:S3cr3t h'",
        "'redis://:S3cr3t@h/0'",
        "'https://a:S3cr3t@h/'",
        "'S3cr3t:a@h'",
        "'S3cr3t'",
        "\"S3cr3t\\u0000\"",
        "\"S3cr3t\\n\"",
        "'S3cr3t ${X}'",
        "'https://h/{S3cr3t}'",
        "7353337",
        "73.53337",
        "7353-03-07",
        "['PGPASSWORD=S3cr3t']",
        "[['S3cr3t']]",
        "[{ S3cr3t_of = 'x' }, 'S3cr3t', 7353337]",
        "{ 'PGPASSWORD=S3cr3t' = 'x' }",
        "{ 'Authorization: Bearer S3cr3t' = '' }",
        "{ 'Authorization: Bearer S3cr3t' = { 'A=S3cr3t' = 'S3cr3t' } }",
        "{ 'LD_PRELOAD=S3cr3t' = 'x' }",
        "{ 'A=S3cr3t' = 1, 'A=S3cr3t' = 2 }",
        "{ A = { B = 'S3cr3t' } }",
        "{ A = ['S3cr3t'] }",
        "{ A = 7353337 }",
        "{ A = \"S3cr3t\\u0000\" }",
        "{ url = 'PGPASSWORD=S3cr3t', headers = 'Authorization: Bearer S3cr3t', body = 7353337 }",
        "{ url = 7353337, headers = ['Authorization: Bearer S3cr3t'], body = ['S3cr3t'] }",
        "{ url = 'https://h/', headers = { 'Authorization: Bearer S3cr3t' = '' }, header = 'S3cr3t' }",
        "{ shell = 'x', env = { 'A=S3cr3t' = 'S3cr3t' } }",
        "{ shell = ['S3cr3t'], command = 'S3cr3t', http = 'S3cr3t' }",
        "{ http = { url = 'https://h/', headers = 'Authorization: Bearer S3cr3t' } }",
        "{ http = 'PGPASSWORD=S3cr3t' }",
        "'S3cr3t",
        "S3cr3t",
        "'a' S3cr3t",
    ];
    let actions = [
        "env",
        "env_file",
        "command",
        "shell",
        "http",
        "stdin",
        "webhook_secret",
        "ping_url",
        "done_check",
    ];
    let notices = ["on_failure", "on_success", "on_late", "on_recovered"];
    let of_jobs = actions.into_iter().chain(notices).chain(["Authorization", "'A=S3cr3t'"]);
    let mut places: Vec<String> = [
        "jobs",
        "jobs.a",
        "defaults",
        "redis",
        "redis.url",
        "redis.url_file",
        "redis.password",
        "'PW=S3cr3t'",
    ]
    .map(str::to_owned)
    .into();
    for key in of_jobs {
        places.extend([format!("jobs.a.{key}"), format!("defaults.{key}")]);
    }
    let is_silent = |message: &str| {
        !message.contains(WORD) && !message.contains("s3cr3t") && !message.contains("53337")
    };
    let mut refused = 0;
    for place in &places {
        // A key of the table `jobs` is the name of a job, which is public.
        for slip in slips.iter().filter(|slip| place != "jobs" || !slip.starts_with("{ '")) {
            for beside in [
                "",
                "jobs.a.user = 'nobody'\n",
                "jobs.a.shell = 'true'\n",
                "jobs.a.http = 'https://h/'\n",
            ] {
                let text = format!("{beside}{place} = {slip}\n");
                let message = match compile(&text) {
                    Ok(config) => {
                        if config.warnings.is_empty() {
                            String::new()
                        } else {
                            format!("{:?}", config.warnings)
                        }
                    }
                    Err(error) => format!("{error} {error:?}"),
                };
                refused += usize::from(!message.is_empty());
                assert!(is_silent(&message), "{text}{message}");
            }
        }
    }
    assert!(refused > 3_000, "{refused}");
    for line in [
        r#""curl -u a:S3cr3t""#,
        r#"{"env":"PW=S3cr3t"}"#,
        r#"{"shell":"x","env":{"PW=S3cr3t":"x"}}"#,
        r#"{"shell":"x","env":{"PW=S3cr3t":"x","PW=S3cr3t":"y"}}"#,
        r#"{"http":{"url":"https://h/","headers":"Authorization: Bearer S3cr3t"}}"#,
        r#"{"shell":"x","PW=S3cr3t":1}"#,
        r#"{"shell":"x","env":{"A":"S3cr3t ${X}"}}"#,
        r#"{"shell":"x","env":{"A":"S3cr3t"},}"#,
    ] {
        let problems = job_from_json(line, &host()).unwrap_err();
        assert!(is_silent(&format!("{problems:?}")), "{line}: {problems:?}");
        let kept = from_canonical(line);
        assert!(kept.is_ok() || is_silent(&format!("{kept:?}")), "{line}: {kept:?}");
    }
}
