//! The check of which users may change a file. The check uses the owner and the mode of the file,
//! and the owners of the symbolic links that led to the file.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::file_group::is_private_group;

const ROOT: u32 = 0;

/// The users whose files are trusted: root, the user of this process, and further users.
#[derive(Debug, Clone)]
pub struct Owners {
    own: u32,
    others: Vec<u32>,
}

/// The object whose owner and mode are checked: the file itself, a directory or an entry of a
/// directory. Messages name a directory or an entry by its path.
pub(super) enum JudgedPath<'a> {
    File,
    Directory(&'a Path),
    /// An entry of a directory, such as a file in the state directory.
    Entry(&'a Path),
}

impl Owners {
    /// Returns root and the user of this process as the trusted users.
    pub fn of_this_process() -> Self {
        Self { own: rustix::process::geteuid().as_raw(), others: Vec::new() }
    }

    /// Returns these users and the user id `other`, if given.
    #[must_use]
    pub fn and(mut self, other: Option<u32>) -> Self {
        self.others.extend(other);
        self
    }

    /// Returns true if this process runs as root.
    pub fn are_of_root(&self) -> bool {
        self.own == ROOT
    }

    fn has(&self, owner: u32) -> bool {
        owner == ROOT || owner == self.own || self.others.contains(&owner)
    }

    pub(super) fn doubt_of(
        &self,
        subject: &JudgedPath<'_>,
        about: &Metadata,
        opened: &File,
    ) -> Option<String> {
        self.doubt_of_owner(subject, about).or_else(|| {
            let (mode, gid) = (about.mode() & 0o7777, about.gid());
            let path = subject.as_object();
            if mode & 0o002 != 0 {
                return Some(format!(
                    "everybody can write {path} (mode {mode:04o}), wanted chmod o-w"
                ));
            }
            let is_others = mode & 0o020 != 0 && !is_private_group(gid, about.uid(), opened);
            is_others.then(|| {
                format!("group {gid} can write {path} (mode {mode:04o}), wanted chmod g-w")
            })
        })
    }

    pub(super) fn doubt_of_owner(
        &self,
        subject: &JudgedPath<'_>,
        about: &Metadata,
    ) -> Option<String> {
        let owner = about.uid();
        let path_and_space = subject.as_subject();
        (!self.has(owner))
            .then(|| format!("{path_and_space}belongs to user {owner}, wanted {}", self.chown()))
    }

    /// Returns the reason why a symbolic link owned by the user id `link` is not trusted. Returns
    /// `None` if the link is trusted.
    ///
    /// The owner of a link chooses the file at its end. So this owner must be root, the user of
    /// this process, or the owner of the file (in `about`).
    pub(super) fn doubt_of_link(&self, link: u32, about: &Metadata) -> Option<String> {
        let is_trusted = link == ROOT || link == self.own || link == about.uid();
        (!is_trusted).then(|| {
            format!(
                "a symbolic link in the path of the file belongs to user {link}, wanted {}",
                self.chown()
            )
        })
    }

    fn chown(&self) -> String {
        if self.are_of_root() {
            "chown to root".to_owned()
        } else {
            format!("chown to user {} or root", self.own)
        }
    }
}

impl JudgedPath<'_> {
    fn as_subject(&self) -> String {
        match self {
            Self::File => "the file ".to_owned(),
            Self::Directory(path) => format!("the directory {} ", path.display()),
            Self::Entry(path) => format!("{} ", path.display()),
        }
    }

    fn as_object(&self) -> String {
        match self {
            Self::File => "the file".to_owned(),
            Self::Directory(path) => format!("the directory {}", path.display()),
            Self::Entry(path) => path.display().to_string(),
        }
    }
}
