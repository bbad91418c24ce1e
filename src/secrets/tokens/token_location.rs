//! The path of the file of tokens.

use std::path::{Path, PathBuf};

/// The file of tokens for schedd as a service.
const OF_SYSTEM: &str = "/etc/schedd/api-tokens";

/// The path of the file of tokens: a named path, or the usual path.
#[derive(Debug, Clone)]
pub enum TokenLocation {
    /// The path that a flag, a variable or the jobs file names.
    Named(PathBuf),
    /// The file of the system if the user has no file or if it exists, else the file of the user.
    Usual {
        /// The file of the system, which root makes.
        of_system: PathBuf,
        /// The file of the user. `None` for root.
        of_user: Option<PathBuf>,
    },
}

impl TokenLocation {
    /// Returns the path `named` by a flag or variable, else `in_file` by the jobs file, else the usual
    /// path. The file of a user is below the state directory `state`.
    pub fn of(named: Option<PathBuf>, in_file: Option<PathBuf>, state: Option<PathBuf>) -> Self {
        let usual = || Self::Usual {
            of_system: PathBuf::from(OF_SYSTEM),
            of_user: state
                .filter(|_| !rustix::process::getuid().is_root())
                .map(|state| state.join("tokens")),
        };
        named.or(in_file).map_or_else(usual, Self::Named)
    }

    /// Returns the path. The usual path may change, because root may make the file of the system while
    /// the packaged service runs.
    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Usual { of_system, of_user: Some(of_user) } if !of_system.exists() => of_user,
            Self::Usual { of_system, .. } => of_system,
        }
    }
}
