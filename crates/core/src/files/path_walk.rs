//! The walk along a path, name by name. The result is the file at the end of the path, with the
//! directories and symbolic links on the path.

use std::ffi::OsString;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

/// The maximum number of symbolic links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// The object at the end of a path: an opened file, or the kind of any other object.
pub(super) enum Found {
    /// A file that was a regular file when its name was looked up.
    File(File),
    /// The kind of an object that is not a regular file. Such an object is not opened, because
    /// opening a device may have effects.
    Other(&'static str),
}

/// The result of a walk along a path: the object at its end, and the directories and links on the
/// way.
pub(super) struct Walked {
    pub(super) found: Found,
    /// Each directory in which a name was looked up.
    pub(super) directories: Vec<(PathBuf, File)>,
    /// The owner of each symbolic link that was followed.
    pub(super) links: Vec<u32>,
}

/// Walks along `path` and returns the object at its end.
pub(super) fn walk(path: &Path) -> io::Result<Walked> {
    let (mut directories, mut links) = (Vec::new(), Vec::new());
    let mut ahead = names(path);
    let (mut shown, mut here) = beginning(path)?;
    while let Some(name) = ahead.pop() {
        let entry = File::from(openat(
            &here,
            &name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?);
        let about = entry.metadata()?;
        let is_followed_by_kernel = about.is_symlink() && is_on_proc(&entry);
        if about.is_symlink() && !is_followed_by_kernel {
            if links.len() == MOST_LINKS {
                return Err(rustix::io::Errno::LOOP.into());
            }
            links.push(about.uid());
            let target =
                PathBuf::from(OsString::from_vec(readlinkat(&entry, "", Vec::new())?.into_bytes()));
            ahead.extend(names(&target));
            if target.is_absolute() {
                let root = beginning(&target)?;
                directories.push((
                    std::mem::replace(&mut shown, root.0),
                    std::mem::replace(&mut here, root.1),
                ));
            }
            continue;
        }
        let follow = if is_followed_by_kernel { OFlags::empty() } else { OFlags::NOFOLLOW };
        if ahead.is_empty() {
            let about =
                if is_followed_by_kernel { open_path(&here, &name)?.metadata()? } else { about };
            let found = if about.is_file() {
                let flags =
                    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | follow;
                Found::File(File::from(openat(&here, &name, flags, Mode::empty())?))
            } else {
                Found::Other(kind_of(about.file_type()))
            };
            directories.push((shown, here));
            return Ok(Walked { found, directories, links });
        }
        // `O_DIRECTORY` mounts a file system that is mounted on demand. `O_PATH` alone would not.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
        let next = File::from(openat(&here, &name, flags, Mode::empty())?);
        let next_shown = shown.join(&name);
        directories
            .push((std::mem::replace(&mut shown, next_shown), std::mem::replace(&mut here, next)));
    }
    Ok(Walked { found: Found::Other("a directory"), directories, links })
}

/// Opens a directory without checking the owners of the path.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    let opened: OwnedFd =
        openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(File::from(opened))
}

/// Returns `/` for an absolute path and `.` for a relative path, with the opened directory.
fn beginning(path: &Path) -> io::Result<(PathBuf, File)> {
    let beginning = Path::new(if path.is_absolute() { "/" } else { "." });
    Ok((beginning.to_owned(), open_directory(beginning)?))
}

/// Returns the components of a path, the last first, so that the caller can pop the next component.
/// `/` and `.` are left out.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::ParentDir => Some(OsString::from("..")),
        Component::Normal(name) => Some(name.to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Opens the target of a link that the kernel resolves itself, such as `/proc/self/fd/0`. `here` is
/// the directory of the link.
fn open_path(here: &File, name: &OsString) -> io::Result<File> {
    Ok(File::from(openat(here, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?))
}

fn is_on_proc(entry: &File) -> bool {
    rustix::fs::fstatfs(entry).is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Returns the words for a file type other than a regular file, such as `a directory` or `a FIFO`.
pub(super) fn kind_of(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
