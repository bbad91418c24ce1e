use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// The user id of `nobody`, who owns untrusted files in these tests.
const STRANGER: u32 = 65_534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: not root, so no file of another user was tried");
    }
    is_root
}

fn put(dir: &Path, name: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn doubt(path: &Path, way: Way) -> String {
    open(path, &Owners::of_this_process(), way).unwrap().doubt.unwrap_or_default()
}

#[test]
fn a_file_of_this_user_that_nobody_else_may_write_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o644, 0o640, 0o444] {
        assert_eq!(doubt(&put(dir.path(), &format!("{mode:o}"), mode), Way::Links), "");
    }
    assert_eq!(
        doubt(&put(dir.path(), "all", 0o666), Way::Links),
        "everybody can write the file (mode 0666), wanted chmod o-w"
    );
}

#[test]
fn a_file_that_a_shared_group_may_write_is_doubted() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = put(dir.path(), "file", 0o660);
    chown(&file, None, Some(STRANGER)).unwrap();
    assert_eq!(
        doubt(&file, Way::Links),
        format!("group {STRANGER} can write the file (mode 0660), wanted chmod g-w")
    );
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    assert_eq!(doubt(&file, Way::Links), "", "as the package has it");
}

#[test]
fn a_file_of_a_stranger_is_doubted_and_one_of_the_user_named_is_not() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = put(dir.path(), "file", 0o600);
    chown(&file, Some(STRANGER), None).unwrap();
    assert_eq!(
        doubt(&file, Way::Links),
        format!("the file belongs to user {STRANGER}, wanted chown to root")
    );
    let owners = Owners::of_this_process().and(Some(STRANGER));
    assert_eq!(open(&file, &owners, Way::Links).unwrap().doubt, None);
}

#[test]
fn a_link_of_a_stranger_is_followed_to_files_of_that_stranger_alone() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (secret, link) = (put(dir.path(), "secret", 0o600), dir.path().join("link"));
    symlink(&secret, &link).unwrap();
    assert_eq!(doubt(&link, Way::Links), "", "a link of root");
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
    let owners = Owners::of_this_process().and(Some(STRANGER));
    let doubt_text = format!(
        "a symbolic link in the path of the file belongs to user {STRANGER}, wanted chown to root"
    );
    assert_eq!(open(&link, &owners, Way::Links).unwrap().doubt, Some(doubt_text.clone()));
    // A link to a directory is judged too.
    let way = dir.path().join("way");
    symlink(dir.path(), &way).unwrap();
    std::os::unix::fs::lchown(&way, Some(STRANGER), None).unwrap();
    assert_eq!(doubt(&way.join("secret"), Way::Links), doubt_text);
    chown(&secret, Some(STRANGER), None).unwrap();
    assert_eq!(open(&link, &owners, Way::Links).unwrap().doubt, None);
}

#[test]
fn directories_are_judged_for_a_file_that_was_found() {
    // A directory with its own mode, inside a directory that no other user may write.
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let file = put(&inner, "file", 0o600);
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&inner, Permissions::from_mode(mode)).unwrap();
        assert_eq!(doubt(&file, Way::Links), "");
        let doubt_text = doubt(&file, Way::Directories);
        assert_eq!(
            doubt_text,
            format!(
                "everybody can write the directory {} (mode {mode:04o}), wanted chmod o-w",
                inner.display()
            )
        );
    }
    assert_eq!(doubt_of_directory(dir.path()).unwrap(), None);
    assert!(doubt_of_directory(&inner).unwrap().is_some());
}

#[test]
fn what_is_no_regular_file_is_named_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let kind = |path: &Path| match open(path, &Owners::of_this_process(), Way::Links) {
        Err(OpenError::Kind(kind)) => kind,
        other => panic!("{other:?}"),
    };
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(
        (kind(dir.path()), kind(&fifo), kind(Path::new("/dev/zero"))),
        ("a directory", "a FIFO", "a device")
    );
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    symlink(&one, &other).unwrap();
    symlink(&other, &one).unwrap();
    assert!(matches!(open(&one, &Owners::of_this_process(), Way::Links), Err(OpenError::Io(_))));
}

#[test]
fn a_way_may_be_relative_go_up_and_lead_through_an_open_descriptor() {
    use std::os::fd::AsRawFd as _;
    let dir = tempfile::tempdir().unwrap();
    let file = put(dir.path(), "file", 0o600);
    fs::create_dir(dir.path().join("sub")).unwrap();
    symlink("../file", dir.path().join("sub/up")).unwrap();
    assert_eq!(doubt(&dir.path().join("sub/../sub/up"), Way::Links), "");
    let open_file = fs::File::open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(
        doubt(Path::new(&format!("/proc/self/fd/{}", open_file.as_raw_fd())), Way::Links),
        ""
    );
}
