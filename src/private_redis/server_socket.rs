//! The path of the server's socket, and the URL of the socket.
//!
//! A socket path has at most 107 bytes (unix(7)). A state directory with a longer path gets an
//! extra short directory, which the file `socket-path` names. Invariant: a recorded path is used
//! only while its directory belongs to the owner of the state directory. No other user may write
//! there.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::private_redis_error::io_error;
use super::state_directory::set_mode;
use super::{Access, PrivateServerError, server_places};
use schedd_core::files;

const SOCKET_FILE: &str = "redis.sock";
const RECORD_FILE: &str = "socket-path";
const MAX_SOCKET_PATH: usize = 107;

/// Returns the URL of the first socket of a private server that exists and can be trusted. Returns
/// `None` if no socket exists. Fails if another user may have created the only sockets found; the
/// error is a clause.
///
/// A state directory below `HOME` or `XDG_STATE_HOME` may belong to another user, because `sudo` can
/// keep these variables. The directory of the unit and the directory of the system are trusted.
pub fn find_socket() -> Result<Option<String>, String> {
    let mut refused = None;
    for dir in server_places::all_dirs() {
        let path = of_dir(&dir);
        if !is_socket(&path) {
            continue;
        }
        let doubt = if server_places::is_of_user(&dir) {
            files::doubt_of_directory(&dir).unwrap_or_else(|error| Some(error.to_string()))
        } else {
            None
        };
        match doubt {
            None => return Ok(Some(url(&path))),
            Some(doubt) => refused = refused.or(Some(format!("{}: {doubt}", path.display()))),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// Returns the paths at which a client looks for the socket of a private server, in order.
pub fn looked_at() -> Vec<PathBuf> {
    server_places::all_dirs().iter().map(|dir| of_dir(dir)).collect()
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

/// Returns the socket path of the server of the state directory `dir`: the recorded path, or else
/// the default path.
pub(super) fn of_dir(dir: &Path) -> PathBuf {
    recorded(dir).unwrap_or_else(|| dir.join(SOCKET_FILE))
}

/// Chooses the socket path for the server of the state directory `dir`. Creates and records a short
/// directory if the path would be too long.
pub(super) fn choose(dir: &Path, access: Access) -> Result<PathBuf, PrivateServerError> {
    let record = dir.join(RECORD_FILE);
    let direct = dir.join(SOCKET_FILE);
    if fits(&direct) {
        return match fs::remove_file(&record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", &record)(error))
            }
            _ => Ok(direct),
        };
    }
    if let Some(socket) = recorded(dir)
        && let Some(short) = socket.parent()
    {
        access.make_dir(short)?;
        return Ok(socket);
    }
    let short = make_short_dir()?;
    access.make_dir(&short)?;
    let socket = short.join(SOCKET_FILE);
    let unfinished = dir.join("socket-path.new");
    fs::write(&unfinished, socket.as_os_str().as_bytes())
        .map_err(io_error("write", &unfinished))?;
    // The state directory keeps other users out, but its group must be able to read the file
    // `socket-path`.
    set_mode(&unfinished, 0o644)?;
    fs::rename(&unfinished, &record).map_err(io_error("write", &record))?;
    Ok(socket)
}

/// Creates the short directory of `socket` again if the directory was removed while the server ran.
pub(super) fn renew_short_dir(
    dir: &Path,
    socket: &Path,
    access: Access,
) -> Result<(), PrivateServerError> {
    match socket.parent() {
        Some(short) if short != dir && !is_private_to_owner_of(dir, short) => {
            // If the directory exists now, another user has made it, so this call must fail.
            fs::DirBuilder::new()
                .mode(0o700)
                .create(short)
                .map_err(io_error("make directory", short))?;
            access.make_dir(short)
        }
        _ => Ok(()),
    }
}

/// Removes the short directory of a server that has ended, if there is such a directory. A
/// directory that cannot be removed does no harm.
pub(super) fn forget_short_dir(dir: &Path, socket: &Path) {
    if let Some(short) = socket.parent().filter(|short| *short != dir)
        && fs::remove_dir(short).is_ok()
    {
        let _ = fs::remove_file(dir.join(RECORD_FILE));
    }
}

/// Returns the `unix://` URL of the socket at the path `socket`. Every byte with a meaning in URLs
/// is percent-encoded.
pub(super) fn url(socket: &Path) -> String {
    let mut url = "unix://".to_owned();
    for &byte in socket.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

fn fits(socket: &Path) -> bool {
    socket.as_os_str().len() <= MAX_SOCKET_PATH
}

fn recorded(dir: &Path) -> Option<PathBuf> {
    let socket = PathBuf::from(OsString::from_vec(fs::read(dir.join(RECORD_FILE)).ok()?));
    let trusted =
        socket.is_absolute() && fits(&socket) && is_private_to_owner_of(dir, socket.parent()?);
    trusted.then_some(socket)
}

/// Returns true if the directory `short` belongs to the owner of `dir` and is not a link. Any user
/// may create a directory under /tmp, so any other `short` is not trusted.
fn is_private_to_owner_of(dir: &Path, short: &Path) -> bool {
    match (dir.metadata(), short.symlink_metadata()) {
        (Ok(dir), Ok(short)) => {
            short.is_dir() && short.uid() == dir.uid() && short.mode() & 0o027 == 0
        }
        _ => false,
    }
}

fn make_short_dir() -> Result<PathBuf, PrivateServerError> {
    const TRIES: u32 = 16;
    const NAME_LETTERS: usize = 8;
    let fitting =
        |base: &PathBuf| base.is_dir() && fits(&base.join("schedd-XXXXXXXX").join(SOCKET_FILE));
    let base = server_places::absolute("XDG_RUNTIME_DIR")
        .filter(fitting)
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let mut tries = 0;
    loop {
        let letters: String =
            std::iter::repeat_with(fastrand::lowercase).take(NAME_LETTERS).collect();
        let short = base.join(format!("schedd-{letters}"));
        tries += 1;
        match fs::DirBuilder::new().mode(0o700).create(&short) {
            Ok(()) => return Ok(short),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(error) => return Err(io_error("make directory", &short)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use redis::IntoConnectionInfo;

    use super::*;

    fn path_in_url(url: &str) -> PathBuf {
        match url.into_connection_info().unwrap().addr() {
            redis::ConnectionAddr::Unix(path) => path.clone(),
            other => panic!("{url} is read as {other:?}"),
        }
    }

    #[test]
    fn the_url_of_any_path_reads_back_as_that_path() {
        let names = [
            &b"/run/redis.sock"[..],
            b"/a b/%41?x#y&z=1",
            "/stäte/\u{1f600}".as_bytes(),
            b"/\xff\xfe/s",
        ];
        for name in names {
            let path = PathBuf::from(OsString::from_vec(name.to_vec()));
            assert_eq!(path_in_url(&url(&path)), path);
        }
    }

    #[test]
    fn a_recorded_socket_in_a_directory_others_can_write_or_link_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        let short = tempfile::tempdir().unwrap();
        let link = state.path().join("link");
        symlink(short.path(), &link).unwrap();
        fs::set_permissions(short.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let record = |dir: &Path| {
            fs::write(state.path().join(RECORD_FILE), dir.join("s").as_os_str().as_bytes())
                .unwrap();
        };

        record(short.path());
        assert_eq!(of_dir(state.path()), short.path().join("s"));
        for mode in [0o770, 0o707, 0o701] {
            fs::set_permissions(short.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                of_dir(state.path()),
                state.path().join(SOCKET_FILE),
                "mode {mode:o} was taken"
            );
        }
        fs::set_permissions(short.path(), fs::Permissions::from_mode(0o700)).unwrap();
        record(&link);
        assert_eq!(of_dir(state.path()), state.path().join(SOCKET_FILE), "a link was taken");
    }
}
