//! Layer 2: opens files that schedd obeys, and judges who else may change them.
//!
//! Judged are the jobs file, its calendars, `env_file`, `url_file`, credentials and the state
//! directory. Not judged are files that an operator names as data (`--body @FILE`, the standard
//! input). Neither are files that the kernel or the system writes (`/proc`, `/etc/passwd`).
//!
//! Invariant: the opened descriptor itself is judged, and each name as it was looked up. So no file
//! can be exchanged between the judgement and the reading.

mod file_group;
#[cfg(test)]
mod file_tests;
mod owner_judge;
mod path_walk;

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use owner_judge::JudgedPath;
pub use owner_judge::Owners;
use path_walk::{Found, walk};

/// The part of a path that is judged besides the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Only the symbolic links. For a path that an operator named.
    Links,
    /// The links and the directories. For a file that was found in the current directory.
    Directories,
}

/// An opened regular file.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file, ready to be read.
    pub file: File,
    /// Its metadata.
    pub about: Metadata,
    /// The reason why it cannot be trusted, and how to mend that; `None` if it can.
    pub doubt: Option<String>,
}

/// The reason why no file was opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file cannot be opened.
    Io(io::Error),
    /// The path names something else than a regular file: `a directory`, `a FIFO`.
    Kind(&'static str),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens the regular file at `path` without waiting for a writer. The result contains a doubt if
/// anybody but `owners` may change the file.
pub fn open(path: &Path, owners: &Owners, way: Way) -> Result<OpenedFile, OpenError> {
    let walked = walk(path)?;
    let file = match walked.found {
        Found::File(file) => file,
        Found::Other(kind) => return Err(OpenError::Kind(kind)),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(OpenError::Kind(path_walk::kind_of(about.file_type())));
    }
    let mut doubt = owners.doubt_of(&JudgedPath::File, &about, &file);
    doubt = doubt.or_else(|| walked.links.iter().find_map(|link| owners.doubt_of_link(*link, &about)));
    if way == Way::Directories {
        let of_directory = |(path, directory): &(std::path::PathBuf, File)| {
            let about = directory.metadata().ok()?;
            owners.doubt_of(&JudgedPath::Directory(path), &about, directory)
        };
        doubt = doubt.or_else(|| walked.directories.iter().rev().find_map(of_directory));
    }
    Ok(OpenedFile { file, about, doubt })
}

/// Returns why the content of the directory at `path` cannot be trusted; `None` if it can.
pub fn doubt_of_directory(path: &Path) -> io::Result<Option<String>> {
    let directory = path_walk::open_directory(path)?;
    let about = directory.metadata()?;
    Ok(Owners::of_this_process().doubt_of(&JudgedPath::Directory(path), &about, &directory))
}

/// Returns why the owner of the directory at `path` cannot be trusted; `None` if the owner can,
/// whoever else may write there.
pub fn doubt_of_owner(path: &Path) -> io::Result<Option<String>> {
    let about = path_walk::open_directory(path)?.metadata()?;
    Ok(Owners::of_this_process().doubt_of_owner(&JudgedPath::Directory(path), &about))
}
