//! The places where crontabs are: a file, standard input, a user's crontab, and those of the system.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::crontab_line::UserColumn;
use crate::cli::failure::CliFailure;
use schedd_core::domain::job::process_rules::is_account_name;

/// The places of the crontabs of users, on Debian and elsewhere.
const SPOOLS: [&str; 2] = ["/var/spool/cron/crontabs", "/var/spool/cron"];

/// The text of a crontab, and what its place says about it.
#[derive(Debug)]
pub(super) struct CrontabText {
    /// The name of the crontab in reports: a path, or `crontab of USER`.
    pub(super) name: String,
    pub(super) text: Vec<u8>,
    pub(super) column: UserColumn,
    /// The user of all lines of a crontab without a user column. `None` for the user of schedd.
    pub(super) owner: Option<String>,
    /// The name of a file in `cron.d`.
    pub(super) drop_in: Option<String>,
}

/// The crontabs of the system, and a remark about each file that cron ignores.
#[derive(Debug)]
pub(super) struct SystemCrontabs {
    pub(super) crontabs: Vec<CrontabText>,
    pub(super) remarks: Vec<String>,
}

/// Reads a crontab file. A file of the system has a user column.
pub(super) fn of_file(path: &Path, column: UserColumn) -> Result<CrontabText, CliFailure> {
    let text = fs::read(path).map_err(|error| {
        CliFailure::Invalid(format!("{} cannot be read: {error}, wanted a crontab", path.display()))
    })?;
    let is_drop_in = path.parent().and_then(Path::file_name).is_some_and(|name| name == "cron.d");
    let is_of_system = is_drop_in || path == Path::new("/etc/crontab");
    let drop_in = path.file_name().filter(|_| is_drop_in);
    Ok(CrontabText {
        name: path.display().to_string(),
        text,
        column: if is_of_system { UserColumn::Present } else { column },
        owner: None,
        drop_in: drop_in.map(|name| name.to_string_lossy().into_owned()),
    })
}

/// Reads a crontab from standard input.
pub(super) fn of_input(column: UserColumn) -> Result<CrontabText, CliFailure> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut text);
    read.map_err(|error| CliFailure::Failed(format!("standard input cannot be read: {error}")))?;
    Ok(CrontabText { name: "crontab".to_owned(), text, column, owner: None, drop_in: None })
}

/// Reads the crontab of a user by `crontab -l`, or from its file if that program is missing.
/// `None` means the user who calls.
pub(super) fn of_user(user: Option<&str>) -> Result<CrontabText, CliFailure> {
    if let Some(user) = user.filter(|user| !is_account_name(user)) {
        return Err(CliFailure::Invalid(format!(
            "--user: found {user:?}, wanted the name of a user"
        )));
    }
    let mut program = Command::new("crontab");
    program.arg("-l").args(user.map(|user| ["-u", user]).iter().flatten());
    let text = match program.output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return Err(not_listed(user, &String::from_utf8_lossy(&output.stderr))),
        Err(error) if error.kind() == ErrorKind::NotFound => of_spool(user)?,
        Err(error) => {
            return Err(CliFailure::Failed(format!(
                "the program crontab cannot be started: {error}"
            )));
        }
    };
    Ok(CrontabText {
        name: user.map_or_else(|| "crontab".to_owned(), |user| format!("crontab of {user}")),
        text,
        column: UserColumn::Absent,
        owner: user.map(str::to_owned),
        drop_in: None,
    })
}

/// Returns the failure for a crontab that the program `crontab` does not list. `why` is the text
/// that the program printed.
fn not_listed(user: Option<&str>, why: &str) -> CliFailure {
    let whose =
        user.map_or_else(|| "your crontab".to_owned(), |user| format!("the crontab of {user}"));
    let why = why.trim();
    let remedy = if why.starts_with("no crontab for") {
        "name a FILE, or give --system for the crontabs of the host"
    } else if why.contains("privileged") || why.contains("not allowed") {
        "call schedctl as root"
    } else {
        "name a FILE"
    };
    CliFailure::Failed(format!("{whose} cannot be listed: crontab -l says {why:?}; {remedy}"))
}

fn of_spool(user: Option<&str>) -> Result<Vec<u8>, CliFailure> {
    let user = user.ok_or_else(|| {
        CliFailure::Failed(
            "your crontab cannot be listed: this host has no program crontab; name a FILE or give --user"
                .to_owned(),
        )
    })?;
    let files = SPOOLS.map(|spool| Path::new(spool).join(user));
    for file in &files {
        match fs::read(file) {
            Ok(text) => return Ok(text),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => {
                let file = file.display();
                return Err(CliFailure::Failed(format!(
                    "{file} cannot be read: {error}; call schedctl as root"
                )));
            }
        }
    }
    let [debian, other] = files.map(|file| file.display().to_string());
    Err(CliFailure::Failed(format!(
        "user {user} has no crontab: this host has no program crontab, and neither {debian} nor {other} exists"
    )))
}

/// Reads `crontab` and the files of `cron.d` in `etc`, which is `/etc` outside tests.
pub(super) fn of_system(etc: &Path) -> Result<SystemCrontabs, CliFailure> {
    let unreadable = |path: &Path, error: &std::io::Error| {
        CliFailure::Failed(format!("{} cannot be read: {error}", path.display()))
    };
    let mut found = SystemCrontabs { crontabs: Vec::new(), remarks: Vec::new() };
    let main = etc.join("crontab");
    if main.exists() {
        found.crontabs.push(of_file(&main, UserColumn::Present)?);
    }
    let directory = etc.join("cron.d");
    let mut paths: Vec<PathBuf> = match fs::read_dir(&directory) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(&directory, &error)),
    };
    paths.sort();
    let root = fs::metadata(etc).map_err(|error| unreadable(etc, &error))?.uid();
    for path in paths {
        match ignored_by_cron(&path, root) {
            // Packages put this empty file into their directories.
            _ if path.ends_with(".placeholder") => {}
            Some(why) => found
                .remarks
                .push(format!("{}: left out, because cron ignores {why}", path.display())),
            None => found.crontabs.push(of_file(&path, UserColumn::Present)?),
        }
    }
    if found.crontabs.is_empty() {
        let main = main.display();
        return Err(CliFailure::Failed(format!(
            "this host has neither {main} nor a file in {}",
            directory.display()
        )));
    }
    Ok(found)
}

/// Returns the reason why cron ignores a file of `cron.d`, or `None` if cron reads the file. `root`
/// is the user id of root.
fn ignored_by_cron(path: &Path, root: u32) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.bytes().all(is_plain) {
        return Some("a file whose name has a dot or a sign other than letters, digits, _ and -");
    }
    let Ok(file) = fs::metadata(path) else { return Some("a link that leads nowhere") };
    if !file.is_file() {
        return Some("what is no file");
    }
    if file.uid() != root {
        return Some("a file that does not belong to root");
    }
    (file.mode() & 0o022 != 0).then_some("a file that others than root may write")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_crontabs_of_the_system_are_those_that_cron_reads() {
        let etc = tempfile::tempdir().unwrap();
        let directory = etc.path().join("cron.d");
        fs::create_dir(&directory).unwrap();
        let put = |path: &Path, mode| {
            fs::write(path, "* * * * * root true\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        put(&etc.path().join("crontab"), 0o644);
        for name in ["php", "b.dpkg-old", "a~", ".placeholder", "anacron"] {
            put(&directory.join(name), 0o644);
        }
        put(&directory.join("open"), 0o666);
        fs::create_dir(directory.join("sub")).unwrap();
        let found = of_system(etc.path()).unwrap();
        let drop_ins: Vec<Option<&str>> =
            found.crontabs.iter().map(|crontab| crontab.drop_in.as_deref()).collect();
        assert_eq!(drop_ins, [None, Some("anacron"), Some("php")]);
        assert!(found.crontabs.iter().all(|crontab| crontab.column == UserColumn::Present));
        let remarks = found.remarks.join("\n");
        for words in [
            "a~: left out",
            "b.dpkg-old: left out, because cron ignores a file whose name has a dot",
            "open: ",
            "sub: ",
        ] {
            assert!(remarks.contains(words), "{words}: {remarks}");
        }
        assert_eq!(found.remarks.len(), 4, "{remarks}");
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(of_system(empty.path()).unwrap_err().code(), 1);
    }
}
