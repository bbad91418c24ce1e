//! The file of tokens that a verb uses: that of `--tokens-file`, else of `SCHEDD_TOKENS_FILE`, else
//! of the jobs file, else the default file.

use std::path::PathBuf;

use crate::cli::connect::jobs_file;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::private_redis::state_dir;
use crate::secrets::tokens::{TokenFile, TokenFileError, TokenLocation};
use schedd_core::config::{ApiAddress, ApiConfig, read_file};

/// Returns the file of tokens, and the settings of `[api]` in the jobs file.
pub(super) fn token_file(global: &Global, named: Option<PathBuf>) -> (TokenFile, ApiConfig) {
    // A jobs file with problems, or without [api], leaves the default file.
    let config = jobs_file(global).and_then(|place| read_file(&place, &local_zone()).ok());
    let api = config.map(|config| config.api).unwrap_or_default();
    let location = TokenLocation::of(named, api.tokens_file.clone(), state_dir().ok());
    (TokenFile::new(location), api)
}

/// Returns the address of the API as `--api` has it: that of the flag, of the environment, or of the
/// jobs file. Returns `None` if none of them names an address.
pub(crate) fn api_address(global: &Global) -> Option<String> {
    let variable = || std::env::var("SCHEDD_API_URL").ok().filter(|text| !text.is_empty());
    let of_file = || {
        let (_, api) = token_file(global, None);
        let address = match api.listen? {
            ApiAddress::Unix(path) => format!("unix:{}", path.display()),
            ApiAddress::Tcp(address) => {
                let scheme = if api.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{address}{}", api.base_path)
            }
        };
        Some(address)
    };
    global.api.clone().or_else(variable).or_else(of_file)
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
