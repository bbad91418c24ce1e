//! What a process starts with, and what is told of one that cannot start.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schedd::attempts::{Attempt, OutputBuffer};
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{LaunchOrder, Variables};
use schedd_schedule::chain::chain_end::ParentEnd;
use serde_json::Value;

use super::{children_of, stdout};
use crate::support::attempt::{Bench, command, shell};
use crate::support::host::program::{copy_program, write_program};

#[tokio::test]
async fn the_exit_code_and_the_output_are_the_jobs_own() {
    let bench = Bench::start().await;
    let (mut outcome, output) = bench.run(&shell("echo out; echo err >&2; exit 3")).await;
    assert!(outcome.resources.take().is_some());
    assert_eq!(
        outcome,
        AttemptOutcome { exit_code: Some(3), ..AttemptOutcome::bare(Ending::Failed) }
    );
    assert_eq!(output.snapshot().stream(ExcerptStream::Stdout), b"out\n");
    assert_eq!(output.snapshot().stream(ExcerptStream::Stderr), b"err\n");
    let (mut outcome, _) = bench.run(&shell("true")).await;
    assert!(outcome.resources.take().is_some());
    assert_eq!(
        outcome,
        AttemptOutcome { exit_code: Some(0), ..AttemptOutcome::bare(Ending::Succeeded) }
    );
    assert_eq!(children_of(&bench.keeper), "");
}

#[tokio::test]
async fn a_signal_is_reported_as_a_signal_and_not_as_137() {
    let bench = Bench::start().await;
    let (mut outcome, _) = bench.run(&shell("kill -9 $$")).await;
    assert!(outcome.resources.take().is_some());
    let wanted = AttemptOutcome { signal: Some(9), ..AttemptOutcome::failed("signal 9 (KILL)") };
    assert_eq!(outcome, wanted);
}

#[tokio::test]
async fn stdin_is_empty_and_no_descriptor_is_inherited() {
    let bench = Bench::start().await;
    let (_, output) = bench.run(&shell("readlink /proc/self/fd/0; cat; umask")).await;
    assert_eq!(stdout(&output), "/dev/null\n0022\n");
    // 3 is the directory ls itself reads.
    let (_, output) = bench.run(&command(&["ls", "/proc/self/fd"])).await;
    assert_eq!(stdout(&output), "0\n1\n2\n3\n");
}

#[tokio::test]
async fn umask_input_and_shell_are_what_the_job_says() {
    let bench = Bench::start().await;
    let mut attempt = shell("umask; cat /dev/stdin; cat; echo $SHELL $0; ulimit -c");
    attempt.process.umask = Some("0027".parse().unwrap());
    attempt.process.stdin = Some("line 1\nline 2".to_owned());
    attempt.process.shell_program = Some("/bin/bash".into());
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    // What was opened anew is read from its beginning, twice.
    assert_eq!(stdout(&output), "0027\nline 1\nline 2line 1\nline 2/bin/bash /bin/bash\n0\n");
    let text = "0123456789abcdef".repeat(16 * 1024);
    let mut attempt = command(&["wc", "-c"]);
    attempt.process.stdin = Some(text);
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(stdout(&output), "262144\n");
    attempt.action = Action::Shell("exit 7".to_owned());
    attempt.process.shell_program = Some("/no/such/shell".into());
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(
        outcome.error.as_deref(),
        Some("cannot start: /no/such/shell: No such file or directory")
    );
}

#[tokio::test]
async fn the_child_has_a_session_of_its_own_an_empty_mask_and_ignores_nothing() {
    let bench = Bench::start().await;
    let (_, output) = bench
        .run(&command(&["grep", "-E", "^(Pid|NSsid|SigBlk|SigIgn)", "/proc/self/status"]))
        .await;
    let text = stdout(&output);
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(field("Pid"), field("NSsid"));
    for set in ["SigBlk", "SigIgn"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
}

#[tokio::test]
async fn a_process_asks_for_the_time_of_the_next_run_in_its_result_file() {
    let bench = Bench::start().await;
    for (line, next) in [
        ("echo next=5m >\"$SCHEDD_RESULT\"", Some("5m")),
        ("echo next=5m >\"$SCHEDD_RESULT\"; exit 3", Some("5m")),
        ("true", None),
    ] {
        let (outcome, _) = bench.run(&shell(line)).await;
        assert_eq!(outcome.next, next.map(|next| Ok(next.to_owned())), "{line}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_environment_is_exactly_what_the_design_says() {
    let bench = Bench::start().await;
    let mut attempt = command(&["env", "-0"]);
    let own = [("LANG", "de_DE.UTF-8"), ("GREETING", "a b\n=c"), ("SCHEDD_FENCE", "0")];
    attempt.env =
        own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let parents =
        r#"[{"job":"load","run_id":"load@5","state":"failed","reason":null,"exit_code":3}]"#;
    attempt.parents = ParentEnd::read_all(&parents.replace(":3}", ":\"3\"}"));
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let text = stdout(&output);
    let parents_found = text.split('\0').find_map(|part| part.strip_prefix("SCHEDD_PARENTS="));
    let [found_json, wanted_json] =
        [parents_found.unwrap(), parents].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(found_json, wanted_json);
    let mut found: BTreeMap<&str, &str> = text
        .split('\0')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap())
        .collect();
    found.remove("SCHEDD_PARENTS");
    assert!(Path::new(found.remove("HOME").unwrap()).is_absolute());
    assert!(Path::new(found.remove("SCHEDD_RESULT").unwrap()).is_absolute());
    assert!(!found.remove("USER").unwrap().is_empty());
    let (due, fence) = (attempt.run.due(), attempt.fence);
    let (run, due_text, due_ms, fence) =
        (attempt.run.to_string(), due.to_string(), due.as_i64().to_string(), fence.to_string());
    let wanted = BTreeMap::from([
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("SHELL", "/bin/sh"),
        ("LANG", "de_DE.UTF-8"),
        ("GREETING", "a b\n=c"),
        ("SCHEDD_JOB", "backup"),
        ("SCHEDD_RUN_ID", &run),
        ("SCHEDD_DUE", &due_text),
        ("SCHEDD_DUE_MS", &due_ms),
        ("SCHEDD_ATTEMPT", "2"),
        ("SCHEDD_FENCE", &fence),
        ("SCHEDD_NODE", "web-1"),
        ("SCHEDD_PARENT_STATES", "load=failed"),
        ("TZ", "UTC"),
    ]);
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_process_starts_in_its_directory_or_says_why_it_cannot() {
    let bench = Bench::start().await;
    let mut attempt = command(&["pwd"]);
    attempt.cwd = Some(bench.dir.path().to_owned());
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(PathBuf::from(stdout(&output).trim_end()), bench.dir.path().canonicalize().unwrap());
    attempt.cwd = Some(PathBuf::from("/no/such/place"));
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(
        outcome,
        AttemptOutcome::failed("cannot start: directory /no/such/place: No such file or directory")
    );
}

#[tokio::test]
async fn a_missing_home_falls_back_to_another_directory_and_an_unusable_one_fails() {
    let bench = Bench::start().await;
    let other = PathBuf::from(bench.path("other"));
    std::fs::create_dir(&other).unwrap();
    write_program(&other.join("program"), "#!/bin/sh\n/bin/pwd\n");
    std::fs::write(bench.path("file"), "").unwrap();
    std::os::unix::fs::symlink(bench.path("loop"), bench.path("loop")).unwrap();
    for (home, program, error) in [
        ("no-such-place", "./program", None),
        // Looked for in a PATH that is seen from where it runs.
        ("file", "program", None),
        ("loop", "./program", Some("Too many levels of symbolic links")),
    ] {
        let home = PathBuf::from(bench.path(home));
        let launch = LaunchOrder {
            run: format!("backup@{home:?}"),
            fence: 1,
            argv: vec![program.to_owned()],
            direct: None,
            env: Variables(BTreeMap::from([("PATH".to_owned(), ".".to_owned())])),
            cwd: home.clone(),
            cwd_else: Some(other.clone()),
            owner: None,
            limits: Limits::default(),
            umask: None,
            stdin: None,
            start_within: Duration::from_secs(60),
            timeout: Duration::from_secs(60),
            kill_grace: Duration::from_millis(300),
            deadline: BootInstant::now().saturating_add(Duration::from_secs(120)),
            margin: Duration::from_secs(1),
        };
        let output = OutputBuffer::new(OutputBounds::default());
        let report = bench.keeper.spawn(launch, Arc::new(output.clone())).await.ended().await;
        match error {
            None => {
                assert_eq!((report.exit_code, &report.error), (Some(0), &None), "{program}");
                assert_eq!(
                    PathBuf::from(stdout(&output).trim_end()),
                    other.canonicalize().unwrap()
                );
            }
            Some(words) => {
                assert_eq!(
                    report.error,
                    Some(format!("cannot start: directory {}: {words}", home.display()))
                );
                assert_eq!((report.exit_code, stdout(&output).as_str()), (None, ""));
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_start_is_127_if_it_is_not_there_and_126_if_it_cannot_be_executed() {
    let bench = Bench::start().await;
    let file = |name: &str, mode: u32, text: &[u8]| {
        let path = bench.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let plain = file("plain", 0o644, b"#!/bin/sh\n");
    let no_interpreter = file("no-interpreter", 0o755, b"#!/no/such/shell\n");
    let wrong_arch = file("wrong-arch", 0o755, b"\x7fELF\x01\x02garbage");
    let cases = [
        ("no-such-program", 127, "no-such-program: No such file or directory"),
        ("/no/such/program", 127, "/no/such/program: No such file or directory"),
        (&plain, 126, "plain: Permission denied"),
        (
            &no_interpreter,
            126,
            "no-interpreter: interpreter of the script: No such file or directory",
        ),
        (&wrong_arch, 126, "wrong-arch: Exec format error"),
        ("/tmp", 126, "/tmp: Permission denied"),
    ];
    for (program, code, words) in cases {
        let (outcome, _) = bench.run(&command(&[program])).await;
        assert_eq!((outcome.ending, outcome.exit_code), (Ending::Failed, Some(code)), "{program}");
        let error = outcome.error.unwrap();
        assert!(error.starts_with("cannot start: ") && error.ends_with(words), "{error}");
    }
    // A job's own 127 is not taken for one.
    let (outcome, _) = bench.run(&shell("exit 127")).await;
    assert_eq!((outcome.exit_code, outcome.error), (Some(127), None));
    assert_eq!(children_of(&bench.keeper), "");
}

#[tokio::test]
async fn a_program_open_for_writing_is_tried_again_until_it_is_closed() {
    let bench = Bench::start().await;
    let path = bench.path("program");
    copy_program("/bin/true", path.as_ref(), "755");
    let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let attempt = command(&[&path]);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.exit_code, Some(126));
    assert!(outcome.error.unwrap().ends_with("Text file busy"));
    let running = bench.begin(&attempt);
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(writer);
    assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
}

#[tokio::test]
async fn a_line_that_needs_no_shell_ends_and_says_the_same_as_in_a_shell() {
    let bench = Bench::start().await;
    let dir = bench.dir.path().canonicalize().unwrap();
    std::fs::write(dir.join("plain"), "").unwrap();
    write_program(&dir.join("shown"), "#!/bin/sh\necho $0 $#; exit 9\n");
    write_program(&dir.join("without-interpreter"), "echo $0 $#; exit 8\n");
    write_program(&dir.join("no-interpreter"), "#!/no/such/shell\n");
    for line in [
        "/bin/true",
        "/bin/false",
        "./shown a b",
        "shown",
        "./without-interpreter a",
        "without-interpreter",
        "./no-interpreter",
        "./plain",
        "plain",
        "no-such-program a",
        "/no/such/program",
        "./plain/under",
        "/tmp",
        "ls /no/such/file",
        "env",
    ] {
        let mut attempt = shell(line);
        attempt.cwd = Some(dir.clone());
        let path = format!("/usr/bin:/bin:{}", dir.display());
        attempt.env = BTreeMap::from([("PATH".to_owned(), path)]);
        let (outcome, output) = bench.run(&attempt).await;
        let (_, environment) =
            bench.run(&Attempt { action: command(&["env", "-0"]).action, ..attempt }).await;
        let environment = stdout(&environment);
        let variables = environment.split_terminator('\0').map(|it| it.split_once('=').unwrap());
        let wanted = std::process::Command::new("/bin/sh")
            .args(["-c", line])
            .env_clear()
            .envs(variables)
            .current_dir(&dir)
            .output()
            .unwrap();
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            // Each attempt has a result file of its own.
            let lines = text.lines().filter(|line| !line.starts_with("SCHEDD_RESULT="));
            lines.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let output = output.snapshot();
        assert_eq!((outcome.exit_code, outcome.error), (wanted.status.code(), None), "{line}");
        assert_eq!(lines(&output.stream(ExcerptStream::Stdout)), lines(&wanted.stdout), "{line}");
        assert_eq!(lines(&output.stream(ExcerptStream::Stderr)), lines(&wanted.stderr), "{line}");
    }
    // A shell resolves the link.
    let link = dir.join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let mut attempt = shell("printenv PWD");
    attempt.cwd = Some(link.clone());
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(PathBuf::from(stdout(&output).trim_end()), link);
}
