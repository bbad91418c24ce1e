//! The access tokens of the HTTP API: their texts, their roles and their file.
//!
//! The file has only the SHA-256 of each token, so nobody who reads the file can use a token. A token
//! has 256 random bits, so a slow hash would add nothing.

mod token_entry;
mod token_file;
mod token_location;
mod token_text;

pub use token_entry::{TokenEntry, TokenRole};
pub use token_file::{TokenFile, TokenFileError, TokenStock};
pub use token_location::TokenLocation;
pub use token_text::{TokenText, sha256};
