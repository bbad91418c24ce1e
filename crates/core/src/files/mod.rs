//! The opening of files whose content schedd obeys, and the check of which users may change these
//! files (layer 2 of the layers in `src/lib.rs`).
//!
//! Checked files are the jobs file, its calendars, `env_file`, `url_file`, credentials and the
//! state directory. Files that an operator names as data (`--body @FILE`, the standard input) are
//! not checked. Files that the kernel or the system writes (`/proc`, `/etc/passwd`) are not checked
//! either.
//!
//! Invariant: the check uses the opened descriptor itself, and each name of the path when the name
//! is looked up. So nobody can exchange the file between the check and the reading.

mod file_group;
#[cfg(test)]
mod file_tests;
mod owner_judge;
mod path_walk;
mod resource_shortage;

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use owner_judge::JudgedPath;
pub use owner_judge::Owners;
use path_walk::{Found, walk};
pub use resource_shortage::{is_shortage, lack_of_descriptors};

/// The directories and links of a path that are checked in addition to the file at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Only the symbolic links are checked. Used for a path that an operator named.
    Links,
    /// The links and the directories are checked. Used for a file found in the current directory.
    Directories,
}

/// An opened regular file, and the reason not to trust the file, if there is a reason.
#[derive(Debug)]
pub struct OpenedFile {
    /// The opened file, ready to be read.
    pub file: File,
    /// The owner, the mode and the size of the opened file (`fstat(2)`).
    pub about: Metadata,
    /// The reason why the file cannot be trusted, and how to correct the fault. `None` if the file
    /// can be trusted.
    pub doubt: Option<String>,
}

/// The reason why no file was opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file cannot be opened, for the reason the system gave.
    Io(io::Error),
    /// The path leads to an object of this kind instead of a regular file: `a directory`, `a FIFO`.
    Kind(&'static str),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens the regular file at `path`. A FIFO is refused, so the call never waits for a writer. The
/// `doubt` of the result is set if another user than `owners` may change the file.
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
    doubt =
        doubt.or_else(|| walked.links.iter().find_map(|link| owners.doubt_of_link(*link, &about)));
    if way == Way::Directories {
        let of_directory = |(path, directory): &(std::path::PathBuf, File)| {
            let about = directory.metadata().ok()?;
            owners.doubt_of(&JudgedPath::Directory(path), &about, directory)
        };
        doubt = doubt.or_else(|| walked.directories.iter().rev().find_map(of_directory));
    }
    Ok(OpenedFile { file, about, doubt })
}

/// Returns the reason why the directory at `path` cannot be trusted: another user owns it or may
/// write there. Returns `None` if the directory can be trusted.
pub fn doubt_of_directory(path: &Path) -> io::Result<Option<String>> {
    let directory = path_walk::open_directory(path)?;
    let about = directory.metadata()?;
    Ok(Owners::of_this_process().doubt_of(&JudgedPath::Directory(path), &about, &directory))
}

/// Returns the reason why the data in the directory at `path` cannot be trusted: another user owns
/// the directory or a file there, or may write in the directory. Returns `None` if the data can be
/// trusted.
pub fn doubt_of_data(path: &Path) -> io::Result<Option<String>> {
    let doubt = doubt_of_directory(path)?;
    if doubt.is_some() {
        return Ok(doubt);
    }
    let owners = Owners::of_this_process();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let about = entry.metadata()?;
        let place = entry.path();
        let doubt = owners.doubt_of_owner(&JudgedPath::Entry(&place), &about);
        if doubt.is_some() {
            return Ok(doubt);
        }
    }
    Ok(None)
}
