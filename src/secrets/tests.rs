use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use schedd_core::config::RedisConfig;

use super::*;

fn files(texts: &[&str]) -> Vec<EnvFile> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the variables of these sources, or the first reason for a missing variable.
fn had(
    files: &[EnvFile],
    own: &BTreeMap<String, String>,
    credentials: &Credentials,
) -> Result<BTreeMap<String, String>, String> {
    let (variables, faults) = variables(files, None, own, credentials).unwrap();
    faults.into_iter().next().map_or(Ok(variables), Err)
}

#[test]
fn what_can_be_had_is_given_beside_why_the_rest_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("1.env");
    fs::write(&file, "A=1\nB=1\n").unwrap();
    let own = map(&[("B", "${credential:missing}"), ("C", "own")]);
    let (had, faults) = variables(
        &files(&["/no/such.env", &shown(&file)]),
        None,
        &own,
        &Credentials::within(dir.path().to_owned()),
    )
    .unwrap();
    assert_eq!(
        had,
        map(&[("A", "1"), ("C", "own")]),
        "what a file says in place of a credential was not wanted"
    );
    assert!(
        matches!(&*faults, [file, own] if file.starts_with("env_file /no/such.env") && own.starts_with("env B: ")),
        "{faults:?}"
    );
}

#[test]
fn a_later_file_beats_an_earlier_and_the_job_beats_both() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("1.env"), dir.path().join("2.env"));
    fs::write(&first, "A=1\nB=1\nC=1\n").unwrap();
    fs::write(&second, "B=2\nC=2\n").unwrap();
    fs::write(dir.path().join("token"), "s3cret\r\n").unwrap();
    let credentials = Credentials::within(dir.path().to_owned());
    let listed = files(&[&shown(&first), &shown(&second), "-/no/such.env"]);
    let own = map(&[("C", "own"), ("D", "Bearer ${credential:token}"), ("E", "$${x}")]);
    let found = had(&listed, &own, &credentials).unwrap();
    assert_eq!(
        found,
        map(&[("A", "1"), ("B", "2"), ("C", "own"), ("D", "Bearer s3cret"), ("E", "${x}")])
    );
    fs::write(dir.path().join("token"), "changed").unwrap();
    assert_eq!(
        had(&[], &own, &credentials).unwrap()["D"],
        "Bearer changed",
        "read anew at each use"
    );
}

#[test]
fn what_cannot_be_had_is_named_and_no_word_of_a_file_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        shown(&path)
    };
    let (faulty, binary) =
        (put("faulty.env", b"A=1\nhunter2\n"), put("binary.env", b"A=hunter2\xff"));
    let long = put("long.env", &vec![b'#'; LONGEST_FOR_TEST]);
    let open = put("open.env", b"A=hunter2");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
    put("nul", b"hun\0ter2");
    let credentials = Credentials::within(dir.path().to_owned());
    let none = BTreeMap::new();
    for (file, words) in [
        (faulty.as_str(), "faulty.env: line 2: the line has no ="),
        (&binary, "the file is not UTF-8 at byte 9"),
        (&long, "more than 1 MiB"),
        (&open, "everybody can write the file (mode 0666)"),
        ("/no/such.env", "env_file /no/such.env cannot be used: no such file"),
        ("/", "not a regular file"),
        ("-/dev/null", "not a regular file"),
    ] {
        let error = had(&files(&[file]), &none, &credentials).unwrap_err();
        assert!(error.contains(words) && !error.contains("hunter2"), "{file}: {error}");
    }
    for (text, words) in [
        ("${credential:missing}", "env X: credential missing cannot be used: "),
        ("${credential:nul}", "env X: the credential has the character NUL"),
        ("${credential:a/b}", "env X: the text has a malformed reference"),
    ] {
        let error = had(&[], &map(&[("X", text)]), &credentials).unwrap_err();
        assert!(error.contains(words) && !error.contains("hun"), "{text}: {error}");
    }
    let error = Credentials::default().fill("${credential:api}").unwrap_err().to_string();
    assert!(
        error.contains("CREDENTIALS_DIRECTORY is not set") && error.contains("LoadCredential=api:"),
        "{error}"
    );
}

#[test]
fn the_address_of_redis_is_read_from_a_credential_a_file_or_both() {
    let dir = tempfile::tempdir().unwrap();
    let credentials = Credentials::within(dir.path().to_owned());
    fs::write(dir.path().join("pw"), "p@ss/w:rd é\n").unwrap();
    fs::write(dir.path().join("url"), "redis://:s3cret@h/0\n").unwrap();
    let text = |text: &str| RedisUrl::of_text(text.to_owned()).read(&credentials);
    assert_eq!(
        text("redis://u:${credential:pw}@h:1/0").unwrap(),
        "redis://u:p%40ss%2Fw%3Ard%20%C3%A9@h:1/0"
    );
    assert_eq!(text("${credential:url}").unwrap(), "redis://:s3cret@h/0");
    assert_eq!(text("unix:///run/r.sock").unwrap(), "unix:///run/r.sock");
    let file = dir.path().join("redis.url");
    let read = |text: &str| {
        fs::write(&file, text).unwrap();
        at_file(&file).read(&credentials)
    };
    assert_eq!(
        read(" redis://:${credential:pw}@h/0\n").unwrap(),
        "redis://:p%40ss%2Fw%3Ard%20%C3%A9@h/0"
    );
    assert!(
        read("\n").unwrap_err().to_string().contains("redis.url cannot be used: the file is empty")
    );
    let redis = RedisConfig {
        url: Some("${credential:url}".to_owned()),
        parameters: "ca_file=%2Fca.pem".to_owned(),
        ..RedisConfig::default()
    };
    let with_ca = RedisUrl::of_file(&redis).unwrap().read(&credentials);
    assert_eq!(with_ca.unwrap(), "redis://:s3cret@h/0?ca_file=%2Fca.pem");
    assert!(
        text("redis://:${credential:none}@h").unwrap_err().to_string().contains("credential none")
    );
}

/// Returns the source of an address in `file`.
fn at_file(file: &std::path::Path) -> RedisUrl {
    let redis = RedisConfig { url_file: Some(file.to_owned()), ..RedisConfig::default() };
    RedisUrl::of_file(&redis).unwrap()
}

const LONGEST_FOR_TEST: usize = env_file::LONGEST + 1;

/// The user id of `nobody`.
const STRANGER: u32 = 65_534;

#[test]
fn no_file_that_somebody_else_may_change_is_used() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: not root, so no file of another user was tried");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "A=1\n").unwrap();
    std::os::unix::fs::chown(&path, Some(STRANGER), None).unwrap();
    let credentials = Credentials::within(dir.path().to_owned());
    let words = "the file belongs to user 65534, wanted chown to root";
    let used = had(&files(&[&shown(&path)]), &BTreeMap::new(), &credentials);
    assert_eq!(used, Err(format!("env_file {} cannot be used: {words}", path.display())));
    assert!(fault_of(&files(&[&shown(&path)])[0], None).unwrap().contains(words));
    for error in [credentials.fill("${credential:file}"), at_file(&path).read(&credentials)] {
        assert!(error.unwrap_err().to_string().contains(words));
    }
    // The processes run as that user, so the user gains nothing by changing the file.
    let (own, faults) =
        variables(&files(&[&shown(&path)]), Some(STRANGER), &BTreeMap::new(), &credentials)
            .unwrap();
    assert_eq!((own, faults), (map(&[("A", "1")]), vec![]));
    assert_eq!(fault_of(&files(&[&shown(&path)])[0], Some("nobody")), None);
}
