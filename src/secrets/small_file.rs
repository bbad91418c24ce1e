//! Reads a small file whose words are secret: whole, as text, and without waiting for anybody to write it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::domain::env_file::LONGEST;

/// Whose files may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// Those not everybody can write: what they say is given to programs.
    Trusted,
    /// Any: the directory is what is trusted.
    Any,
}

/// Why it was not read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) is_missing: bool,
    /// In words, without any of the file's.
    pub(super) why: String,
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let why = if is_missing { "no such file".to_owned() } else { format!("cannot be read: {error}") };
        Self { is_missing, why }
    }
}

fn unread(why: impl Into<String>) -> Unread {
    Unread { is_missing: false, why: why.into() }
}

/// The text of the file at `path`.
pub(super) fn read(path: &Path, writers: Writers) -> Result<String, Unread> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(unread("not a regular file"));
    }
    let mode = about.permissions().mode();
    if writers == Writers::Trusted && mode & 0o002 != 0 {
        let mode = mode & 0o7777;
        return Err(unread(format!("everybody can write it (mode {mode:04o}) and so run commands here, wanted chmod o-w")));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST {
        return Err(unread("more than 1 MiB long"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unread(format!("not UTF-8 at byte {at}"))
    })
}
