//! The file of tokens: reading, which refuses a file that another user may change, and changing.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::token_entry::TokenEntry;
use crate::files::Owners;
use crate::secrets::small_file;

/// The file of tokens for schedd as a service.
const OF_SYSTEM: &str = "/etc/schedd/api-tokens";

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
    path: PathBuf,
    read: Mutex<Option<(FileMark, Arc<TokenStock>)>>,
}

/// The facts by which a changed file is known.
type FileMark = (u64, u64, u64, Option<SystemTime>);

/// Returns the path of the file of tokens: `named` by a flag or variable, else `in_file` by the jobs
/// file, else the default: of the system for root and the packaged service, and below the state
/// directory `state` for other users.
pub fn tokens_path(
    named: Option<PathBuf>,
    in_file: Option<PathBuf>,
    state: Option<PathBuf>,
) -> PathBuf {
    let is_of_system = || rustix::process::getuid().is_root() || Path::new(OF_SYSTEM).exists();
    named
        .or(in_file)
        .or_else(|| state.filter(|_| !is_of_system()).map(|state| state.join("tokens")))
        .unwrap_or_else(|| PathBuf::from(OF_SYSTEM))
}

impl TokenFile {
    /// Creates the reader of the file at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tokens of the file, none if there is no file. Reads the file only if it changed
    /// since the last call.
    pub fn tokens(&self) -> Result<Arc<TokenStock>, TokenFileError> {
        let mark = match fs::metadata(&self.path) {
            Ok(about) => (about.dev(), about.ino(), about.len(), about.modified().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(self.unusable(format!("the file cannot be read: {error}"))),
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, stock)) = read.as_ref().filter(|(known, _)| *known == mark) {
            return Ok(stock.clone());
        }
        let stock = Arc::new(self.read_now()?);
        *read = Some((mark, stock.clone()));
        Ok(stock)
    }

    fn read_now(&self) -> Result<TokenStock, TokenFileError> {
        match small_file::read(&self.path, &Owners::of_this_process()) {
            Ok(text) => {
                toml::from_str(&text).map_err(|error| self.unusable(error.message().to_owned()))
            }
            Err(unread) if unread.is_missing => Ok(TokenStock::default()),
            Err(unread) => Err(self.unusable(unread.why)),
        }
    }

    /// Adds a token. Fails if a token of the same name exists.
    pub fn add(&self, entry: TokenEntry) -> Result<(), TokenFileError> {
        let mut stock = self.read_now()?;
        if stock.tokens.iter().any(|token| token.name == entry.name) {
            return Err(TokenFileError::Name(format!(
                "token {}: a token of this name exists already, wanted another --name, or schedctl token revoke {} first",
                entry.name, entry.name
            )));
        }
        stock.tokens.push(entry);
        self.write(&stock)
    }

    /// Removes the tokens that `is_gone` selects, and returns them.
    pub fn remove(
        &self,
        is_gone: impl Fn(&TokenEntry) -> bool,
    ) -> Result<Vec<TokenEntry>, TokenFileError> {
        let mut stock = self.read_now()?;
        let (gone, kept) = stock.tokens.into_iter().partition(|token| is_gone(token));
        stock = TokenStock { tokens: kept };
        if !Vec::is_empty(&gone) {
            self.write(&stock)?;
        }
        Ok(gone)
    }

    /// Writes the file anew. A reader sees the old or the new content, never a part.
    fn write(&self, stock: &TokenStock) -> Result<(), TokenFileError> {
        let text = toml::to_string(stock).map_err(|error| self.unusable(error.to_string()))?;
        let text = format!(
            "# The access tokens of schedd, made by schedctl token. Only hashes are stored.\n\n{text}"
        );
        let written = self.replace(text.as_bytes());
        written.map_err(|error| self.unusable(format!("the file cannot be written: {error}")))
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let directory =
            self.path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        // The daemon may run as another user, who reads the file as a member of the file's group.
        let like = fs::metadata(&self.path).or_else(|_| fs::metadata(directory))?;
        let mode =
            fs::metadata(&self.path).map_or(0o640, |about| about.permissions().mode() & 0o777);
        let new = self.path.with_extension(format!("new{}", std::process::id()));
        let write = || {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(text)?;
            // Without the right to give the file away, the file keeps the group of this process.
            let _ = std::os::unix::fs::fchown(&file, None, Some(like.gid()));
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn unusable(&self, why: String) -> TokenFileError {
        TokenFileError::Unusable { path: self.path.clone(), why }
    }
}
