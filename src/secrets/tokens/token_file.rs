//! The file of tokens: reading, which refuses a file that another user may change, and changing.
//!
//! Invariant: each change writes the whole file anew, and only one process at a time makes a change. So
//! no change is lost, and a revoked token stays revoked.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::token_entry::TokenEntry;
use super::token_location::TokenLocation;
use crate::secrets::small_file;
use schedd_core::files::Owners;

/// The reason why the file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read or is not valid.
    #[error("file of tokens {}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason as text.
        why: String,
    },
    /// A token of this name exists already, or no such token exists.
    #[error("{0}")]
    Name(String),
}

/// The entries of a file of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenStock {
    /// The tokens, in the order of their making.
    #[serde(default, rename = "token")]
    pub tokens: Vec<TokenEntry>,
}

impl TokenStock {
    /// Returns a name that no token has: `prefix`, `-` and the lowest free number.
    pub fn free_name(&self, prefix: &str) -> String {
        let is_taken = |name: &String| self.tokens.iter().any(|token| token.name == *name);
        let numbers = 1..=self.tokens.len() + 1;
        numbers
            .map(|number| format!("{prefix}-{number}"))
            .find(|name| !is_taken(name))
            .unwrap_or_default()
    }
}

/// A file of tokens. The file is read again when it changes.
#[derive(Debug)]
pub struct TokenFile {
    location: TokenLocation,
    read: Mutex<Option<(FileMark, Arc<TokenStock>)>>,
}

/// The facts by which a changed file is known.
type FileMark = (u64, u64, u64, Option<SystemTime>);

impl TokenFile {
    /// Creates the reader of the file at `location`.
    pub fn new(location: TokenLocation) -> Self {
        Self { location, read: Mutex::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Returns the tokens of the file, none if there is no file. Reads the file only if it changed
    /// since the last call.
    pub fn tokens(&self) -> Result<Arc<TokenStock>, TokenFileError> {
        let path = self.path();
        let mark = match fs::metadata(path) {
            Ok(about) => (about.dev(), about.ino(), about.len(), about.modified().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(unusable(path, format!("the file cannot be read: {error}"))),
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, stock)) = read.as_ref().filter(|(known, _)| *known == mark) {
            return Ok(stock.clone());
        }
        let stock = Arc::new(read_now(path)?);
        *read = Some((mark, stock.clone()));
        Ok(stock)
    }

    /// Adds the token that `entry` makes from the present tokens. Returns its name. Fails if a token of
    /// the same name exists.
    pub fn add(
        &self,
        entry: impl FnOnce(&TokenStock) -> TokenEntry,
    ) -> Result<String, TokenFileError> {
        self.edit(|stock| {
            let entry = entry(stock);
            let name = entry.name.clone();
            if stock.tokens.iter().any(|token| token.name == name) {
                return Err(TokenFileError::Name(format!(
                    "token {name}: a token of this name exists already, wanted another --name, or schedctl token revoke {name} first"
                )));
            }
            stock.tokens.push(entry);
            Ok(name)
        })
    }

    /// Removes the tokens that `is_gone` selects, and returns them.
    pub fn remove(
        &self,
        is_gone: impl Fn(&TokenEntry) -> bool,
    ) -> Result<Vec<TokenEntry>, TokenFileError> {
        self.edit(|stock| Ok(stock.tokens.extract_if(.., |token| is_gone(token)).collect()))
    }

    fn edit<T>(
        &self,
        change: impl FnOnce(&mut TokenStock) -> Result<T, TokenFileError>,
    ) -> Result<T, TokenFileError> {
        let path = self.path();
        let _lock = lock(path).map_err(|error| {
            unusable(path, format!("the lock beside it cannot be taken: {error}"))
        })?;
        let mut stock = read_now(path)?;
        let before = stock.clone();
        let done = change(&mut stock)?;
        if stock != before {
            write(path, &stock)?;
        }
        Ok(done)
    }
}

fn read_now(path: &Path) -> Result<TokenStock, TokenFileError> {
    match small_file::read(path, &Owners::of_this_process()) {
        Ok(text) => {
            toml::from_str(&text).map_err(|error| unusable(path, error.message().to_owned()))
        }
        Err(unread) if unread.is_missing => Ok(TokenStock::default()),
        Err(unread) => Err(unusable(path, unread.why)),
    }
}

/// Waits until no other process changes the file at `path`. No other process does so until the result
/// is dropped. The lock is a file of its own, because each change replaces the file of tokens.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    fs::create_dir_all(directory_of(path))?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&beside, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Writes the file anew. A reader sees the old or the new content, never a part.
fn write(path: &Path, stock: &TokenStock) -> Result<(), TokenFileError> {
    let text = toml::to_string(stock).map_err(|error| unusable(path, error.to_string()))?;
    let text = format!(
        "# The access tokens of schedd, made by schedctl token. Only hashes are stored.\n\n{text}"
    );
    let written = replace(path, text.as_bytes());
    written.map_err(|error| unusable(path, format!("the file cannot be written: {error}")))
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // The daemon may run as another user, who reads the file as a member of the file's group.
    let like = fs::metadata(path).or_else(|_| fs::metadata(directory_of(path)))?;
    let mode = fs::metadata(path).map_or(0o640, |about| about.permissions().mode() & 0o777);
    let new = path.with_extension(format!("new{}", std::process::id()));
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        // Without the right to give the file away, the file keeps the group of this process.
        let _ = std::os::unix::fs::fchown(&file, None, Some(like.gid()));
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn unusable(path: &Path, why: String) -> TokenFileError {
    TokenFileError::Unusable { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tokens::TokenRole;

    fn entry(name: String) -> TokenEntry {
        TokenEntry {
            name,
            role: TokenRole::Viewer,
            sha256: String::new(),
            created_ms: 0,
            expires_ms: None,
            queues: Vec::new(),
            link_sha256: None,
            link_expires_ms: None,
        }
    }

    #[test]
    fn changes_that_several_processes_make_together_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        // Each has a file of its own, as different processes have.
        let file = || TokenFile::new(TokenLocation::Named(dir.path().join("below/tokens")));
        for name in ["revoked", "kept"] {
            file().add(|_| entry(name.to_owned())).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| file().add(|stock| entry(stock.free_name("viewer"))).unwrap());
            }
            scope.spawn(|| file().remove(|token| token.name == "revoked").unwrap());
        });
        let stock = file().tokens().unwrap();
        let mut names: Vec<&str> = stock.tokens.iter().map(|token| &*token.name).collect();
        names.sort_unstable();
        let wanted = (1..=12).map(|number| format!("viewer-{number}"));
        let mut wanted: Vec<String> = wanted.chain(["kept".to_owned()]).collect();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
    }

    #[test]
    fn a_file_of_the_system_that_is_made_later_is_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (of_system, of_user) = (dir.path().join("api-tokens"), dir.path().join("tokens"));
        let place = |path: &PathBuf| TokenFile::new(TokenLocation::Named(path.clone()));
        let of_daemon = TokenFile::new(TokenLocation::Usual {
            of_system: of_system.clone(),
            of_user: Some(of_user.clone()),
        });
        let names = || -> Vec<String> {
            let stock = of_daemon.tokens().unwrap();
            stock.tokens.iter().map(|token| token.name.clone()).collect()
        };
        place(&of_user).add(|_| entry("mine".to_owned())).unwrap();
        assert_eq!(names(), ["mine"]);
        place(&of_system).add(|_| entry("of-root".to_owned())).unwrap();
        assert_eq!(names(), ["of-root"]);
    }
}
