//! Layer 2: opens files whose words are obeyed, and judges who else may change what they say.
//!
//! Judged are the jobs file, its calendars, `env_file`, `url_file`, credentials and the state directory. Not judged is what a
//! person names as data (`--body @FILE`, the standard input), and what the kernel or the system writes (`/proc`, `/etc/passwd`).
//!
//! Invariant: the judgement is of the opened descriptor, and of each name as it was looked up, so nothing can be put in between.

mod group;
mod judge;
mod walk;

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

pub use judge::Owners;
use judge::Subject;
use walk::{Found, walk};

/// How much of the way to a file is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The symbolic links on it: somebody named the path.
    Links,
    /// Its directories too: the file was found where this process happens to be.
    Directories,
}

/// An opened regular file.
#[derive(Debug)]
pub struct Opened {
    /// It, to be read.
    pub file: File,
    /// What it is.
    pub about: Metadata,
    /// Why it cannot be trusted, with what mends it; none if it can.
    pub doubt: Option<String>,
}

/// Why no file was opened.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be had.
    Io(io::Error),
    /// It is something else than a regular file: `a directory`, `a FIFO`.
    Kind(&'static str),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens the regular file at `path` without waiting for a writer. Refuses it if anybody but `owners` may change it.
pub fn open(path: &Path, owners: &Owners, way: Way) -> Result<Opened, OpenError> {
    let walked = walk(path)?;
    let file = match walked.found {
        Found::File(file) => file,
        Found::Other(kind) => return Err(OpenError::Kind(kind)),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(OpenError::Kind(walk::kind_of(about.file_type())));
    }
    let mut doubt = owners.doubt_of(&Subject::File, &about, &file);
    doubt = doubt.or_else(|| walked.links.iter().find_map(|link| owners.doubt_of_link(*link, &about)));
    if way == Way::Directories {
        let of_directory = |(path, directory): &(std::path::PathBuf, File)| {
            let about = directory.metadata().ok()?;
            owners.doubt_of(&Subject::Directory(path), &about, directory)
        };
        doubt = doubt.or_else(|| walked.directories.iter().rev().find_map(of_directory));
    }
    Ok(Opened { file, about, doubt })
}

/// Why what lies in the directory at `path` cannot be trusted; none if it can.
pub fn doubt_of_directory(path: &Path) -> io::Result<Option<String>> {
    let directory = walk::open_directory(path)?;
    let about = directory.metadata()?;
    Ok(Owners::of_this_process().doubt_of(&Subject::Directory(path), &about, &directory))
}

/// Why the owner of the directory at `path` cannot be trusted; none if it can, whoever else may write there.
pub fn doubt_of_owner(path: &Path) -> io::Result<Option<String>> {
    let about = walk::open_directory(path)?.metadata()?;
    Ok(Owners::of_this_process().doubt_of_owner(&Subject::Directory(path), &about))
}

#[cfg(test)]
mod tests;
