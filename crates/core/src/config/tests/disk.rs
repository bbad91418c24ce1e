use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::host;
use crate::config::{Config, ConfigError, FilePlace, MAX_FILE_BYTES, read_file};

fn read(path: &Path) -> Result<Config, ConfigError> {
    read_file(&FilePlace::named(path), &host())
}

/// Returns the error for the file at `path`, without the path. The error must begin with the path.
fn refused(path: &Path) -> String {
    let text = read(path).unwrap_err().to_string();
    text.strip_prefix(&format!("{}: ", path.display()))
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

fn written(dir: &Path, name: &str, bytes: &[u8], mode: u32) -> std::path::PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_file_is_read_also_through_a_symbolic_link() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "jobs.toml", b"[jobs.a]\nshell = 'true'", 0o644);
    symlink(&path, dir.path().join("link")).unwrap();
    assert_eq!(read(&path).unwrap(), read(&dir.path().join("link")).unwrap());
    assert_eq!(read(&path).unwrap().jobs.len(), 1);
}

#[test]
fn a_problem_is_shown_with_the_path_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "jobs.toml", b"[jobs.a]\nshell = 3", 0o600);
    let error = read(&path).unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("{}:2:9: jobs.a.shell: ", path.display())),
        "{error}"
    );
    assert_eq!((error.problems().len(), error.is_missing()), (1, false));
}

#[test]
fn only_a_regular_file_is_read_and_nothing_waits_for_a_fifo() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(refused(dir.path()), "found a directory, wanted a regular file");
    assert_eq!(refused(Path::new("/dev/zero")), "found a device, wanted a regular file");
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(refused(&fifo), "found a FIFO, wanted a regular file");
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(refused(&socket), "found a socket, wanted a regular file");
    let missing = dir.path().join("missing");
    assert_eq!(refused(&missing), "no such file");
    assert!(read(&missing).unwrap_err().is_missing());
}

#[test]
fn what_is_not_utf_8_is_refused_with_the_offset() {
    let dir = tempfile::tempdir().unwrap();
    let latin1 = written(dir.path(), "latin1", b"# \n# caf\xe9\n", 0o600);
    assert_eq!(refused(&latin1), "found the byte 0xe9 at offset 8 (line 2), wanted UTF-8");
    let utf16 = written(dir.path(), "utf16", b"\xff\xfe[\0", 0o600);
    assert!(refused(&utf16).starts_with("found UTF-16 (little-endian), wanted UTF-8"));
}

#[test]
fn a_file_past_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.toml");
    fs::File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    assert_eq!(refused(&path), "found more than 52428800 bytes, wanted at most 50 MiB");
}

#[test]
fn a_password_in_a_file_everybody_can_read_is_a_warning_and_for_root_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let warnings = |text: &str, mode: u32| match read(&written(
        dir.path(),
        "jobs.toml",
        text.as_bytes(),
        mode,
    )) {
        Ok(config) => config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        Err(error) if rustix::process::geteuid().is_root() => {
            error.problems().iter().map(ToString::to_string).collect()
        }
        Err(error) => panic!("{error}"),
    };
    for url in
        ["redis://u:hunter2@h/", "redis://:hunter2@h/", "unix:///run/redis.sock?pass=hunter2"]
    {
        let text = format!("[redis]\nurl = '{url}'");
        let found = warnings(&text, 0o644);
        assert!(
            found.len() == 1 && found[0].starts_with("redis.url: found a password"),
            "{found:?}"
        );
        assert!(!found[0].contains("hunter2"));
        assert_eq!(warnings(&text, 0o640), [""; 0]);
    }
    assert_eq!(warnings("[redis]\nurl = 'redis://h/'", 0o644), [""; 0]);
}

#[test]
fn a_file_everybody_can_write_is_not_simply_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "jobs.toml", b"[jobs.a]\nshell = 'true'", 0o666);
    let said = match read(&path) {
        Ok(config) => config.warnings[0].to_string(),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("everybody can write the file (mode 0666)"), "{said}");
}
