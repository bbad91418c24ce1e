//! The file of tokens that a verb uses: that of `--tokens-file`, else of `SCHEDD_TOKENS_FILE`, else
//! of the jobs file, else the default file.

use std::path::PathBuf;

use crate::cli::connect::jobs_file;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::config::{ApiConfig, read_file};
use crate::domain::time::zone::Zone;
use crate::private_redis::state_dir;
use crate::secrets::tokens::{TokenFile, TokenFileError, TokenLocation};

/// Returns the file of tokens, and the settings of `[api]` in the jobs file.
pub(super) fn token_file(global: &Global, named: Option<PathBuf>) -> (TokenFile, ApiConfig) {
    // A jobs file with problems, or without [api], leaves the default file.
    let config = jobs_file(global).and_then(|place| read_file(&place, &Zone::of_host()).ok());
    let api = config.map(|config| config.api).unwrap_or_default();
    let location = TokenLocation::of(named, api.tokens_file.clone(), state_dir().ok());
    (TokenFile::new(location), api)
}

/// Converts an error of the file of tokens. A name that is taken is a conflict.
impl From<TokenFileError> for CliFailure {
    fn from(error: TokenFileError) -> Self {
        match error {
            TokenFileError::Unusable { .. } => Self::Failed(error.to_string()),
            TokenFileError::Name(line) => Self::Conflict(line),
        }
    }
}
