//! The reader of a small secret file. The whole file is read as text, without waiting for a writer.
//!
//! A file that an untrusted user may change is refused, because its content is passed to programs
//! and servers.

use std::io::{self, Read as _};
use std::path::Path;

use schedd_core::domain::job::env_file::LONGEST;
use schedd_core::files;
use schedd_core::files::{OpenError, Owners, Way};

/// The reason why a secret file was not read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) is_missing: bool,
    /// True if this node lacks the descriptors or the memory to read any file.
    pub(super) is_shortage: bool,
    /// The reason as text, without any content of the file.
    pub(super) why: String,
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let is_shortage = files::is_shortage(&error);
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::PermissionDenied => format!(
                "user {} may not read the file, wanted chgrp and chmod g+r, or chown",
                rustix::process::geteuid().as_raw()
            ),
            _ => format!("the read failed: {error}"),
        };
        Self { is_missing, is_shortage, why }
    }
}

fn unread(why: impl Into<String>) -> Unread {
    Unread { is_missing: false, is_shortage: false, why: why.into() }
}

/// Returns the text of the file at `path`. Fails if another user than `owners` may change the file.
pub(super) fn read(path: &Path, owners: &Owners) -> Result<String, Unread> {
    let opened = files::open(path, owners, Way::Links).map_err(|error| match error {
        OpenError::Io(error) => error.into(),
        OpenError::Kind(_) => unread("the path is not a regular file"),
    })?;
    if let Some(doubt) = opened.doubt {
        // Without free file descriptors, the members of a group cannot be looked up. Then the lack
        // of descriptors is the error, not the doubt.
        return Err(files::lack_of_descriptors().map_or_else(|| unread(doubt), Unread::from));
    }
    let mut bytes = Vec::new();
    opened.file.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST {
        return Err(unread("the file has more than 1 MiB, wanted at most 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unread(format!("the file is not UTF-8 at byte {at}"))
    })
}
