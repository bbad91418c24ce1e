use super::bad_jobs::job_fault;
use super::{compile, fault, good, host, job, warnings};
use crate::config::compile_file::compile_file;
use crate::config::exposure::Exposure;
use crate::config::{from_surface, job_from_json, to_surface};

#[test]
fn a_reference_may_stand_in_variables_and_in_every_text_of_a_request() {
    let config = good(
        "[redis]\nurl = 'redis://u:${credential:redis}@h/'\n[jobs.a]\nshell = 'true'\nenv = { A = 'x ${credential:a}', B = '$${x} $(y) $z' }\n\
         [jobs.b]\nhttp = { url = 'https://h/${credential:path}', headers = { X = 'Bearer ${credential:b}' }, body = '${credential:c}' }\n\
         [jobs.c]\nhttp = '${credential:hook}'",
    );
    for name in ["a", "b", "c"] {
        let spec = job(&config, name);
        let text = to_surface(&spec);
        assert!(text.contains("${credential:"), "{text}");
        assert_eq!(from_surface(&text).unwrap(), spec);
    }
    assert!(good("[redis]\nurl = '${credential:redis-url}'").redis.url.is_some());
}

#[test]
fn any_other_reference_is_refused_at_its_place() {
    for (line, place, wanted) in [
        ("env = { A = 'x${UNSET}' }", "jobs.toml:3:15: jobs.a.env.A: ", "wanted ${credential:NAME}"),
        ("env = { A = '${credential:../x}' }", "jobs.toml:3:14: jobs.a.env.A: ", "with 1 to 255 of the characters"),
        (
            "done_check = { http = { url = 'http://h/', headers = { X = '${X}' } } }",
            "jobs.toml:3:61: ",
            "jobs.a.done_check.http.headers.X: ",
        ),
        ("done_check = { shell = 'x ${credential:a}' }", "jobs.toml:3:24: ", "wanted it in env"),
    ] {
        let fault = job_fault(&format!("shell = 'true'\n{line}"));
        assert!(fault.starts_with(place) && fault.contains(wanted), "{line}: {fault}");
    }
    for action in ["shell = 'curl -u ${credential:a} h'", "command = ['x', '${credential:a}']"] {
        assert!(job_fault(action).contains("which everybody on the host can read; wanted it in env"), "{action}");
    }
    for http in ["'https://h/${X}'", "{ url = 'https://h/', body = '${X}' }", "{ url = 'https://h/${credential:}' }"] {
        assert!(job_fault(&format!("http = {http}")).contains("wanted ${credential:NAME}"), "{http}");
    }
    assert!(fault("[defaults]\nenv = { A = '${X}' }").contains("defaults.env.A: "));
    assert!(fault("[redis]\nurl = 'redis://:${X}@h/'").contains("redis.url: "));
    assert!(job_from_json(r#"{"shell": "true", "env": {"A": "${X}"}}"#, &host()).is_err());
    // As Redis may have it from before there were references.
    assert!(from_surface(r#"{"env":{"A":"${X}"},"shell":"true"}"#).is_ok());
    assert!(job_fault("http = { url = 'ftp://${credential:h}/' }").contains("the scheme \"ftp\""));
}

#[test]
fn files_of_variables_are_listed_in_their_order_and_the_jobs_replace_the_defaults() {
    let config = good(
        "[defaults]\nenv_file = '-/no/d.env'\n[jobs.a]\nshell = 'true'\n[jobs.b]\nshell = 'true'\nenv_file = ['-/no/2', '-/no/1']",
    );
    let listed = |name: &str| job(&config, name).env_files.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!((listed("a"), listed("b")), (vec!["-/no/d.env".to_owned()], vec!["-/no/2".to_owned(), "-/no/1".to_owned()]));
    let found = warnings("[jobs.a]\nshell = 'true'\nenv_file = ['/no/such.env', '/dev/null']");
    assert_eq!(found, ["jobs.a.env_file[0]: no file \"/no/such.env\" on this host: runs will fail to start"]);
    for (value, wanted) in
        [("'x.env'", "found \"x.env\", wanted an absolute path"), ("3", "found integer 3"), ("[3]", "env_file[0]: found integer")]
    {
        let fault = job_fault(&format!("shell = 'true'\nenv_file = {value}"));
        assert!(fault.contains(wanted), "{fault}");
    }
    let many = vec!["'/x'"; 17].join(",");
    assert!(job_fault(&format!("shell = 'true'\nenv_file = [{many}]")).contains("wanted at most 16 files"));
}

#[test]
fn a_secret_in_a_file_everybody_can_read_is_doubted_and_for_root_refused() {
    let http = |value: &str| format!("[jobs.a]\nhttp = {{ url = 'http://h/', headers = {{ authorization = '{value}' }} }}");
    let notice = |table: &str, value: &str| {
        let notice = format!("{{ http = {{ url = 'http://h/', headers = {{ Authorization = '{value}' }} }} }}");
        format!("{table}\non_failure = {notice}\n[jobs.b]\nshell = 'true'")
    };
    let signed = |value: &str| format!("[jobs.a]\nhttp = 'http://h/'\nwebhook_secret = {value}");
    // Of 24 bytes, the letters in the middle.
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
        let read = |exposure| compile_file(text, "jobs.toml", &host(), exposure);
        assert_eq!(read(Exposure::Private).unwrap().warnings, []);
        let doubt = read(Exposure::Public).unwrap().warnings[0].to_string();
        let refused = read(Exposure::PublicOfRoot).unwrap_err().to_string();
        assert!(
            [&doubt, &refused].iter().all(|it| it.contains("everybody can read: chmod o-r") && !it.contains("hunter2")),
            "{refused}"
        );
    }
    for text in [
        "[redis]\nurl = 'redis://:${credential:x}@h/'".to_owned(),
        http("Bearer ${credential:x}"),
        notice("[defaults]", "Bearer ${credential:x}"),
        signed("'${credential:x}'"),
    ] {
        assert_eq!(compile_file(&text, "jobs.toml", &host(), Exposure::PublicOfRoot).unwrap().warnings, []);
    }
}

#[test]
fn a_faulty_header_is_told_without_its_value() {
    let error = compile("[jobs.a]\nhttp = { url = 'http://h/', headers = { Authorization = \"hunter2\\n\" } }").unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
