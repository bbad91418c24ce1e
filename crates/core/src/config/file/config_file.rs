//! The reader of `jobs.toml` from the disk. The file must be a regular file of at most
//! [`MAX_FILE_BYTES`].
//!
//! schedd executes the commands in the file, so a user who can write the file can run commands as
//! the daemon's user. A file is called doubtful if a user other than root and the user of the
//! reading process may have written it. schedd refuses a doubtful file that no operator named. If
//! schedd runs as root, schedd refuses every doubtful file. Otherwise schedd accepts a doubtful
//! file that an operator named, with a warning.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use super::compile_file::{compile_file, compile_redis_alone};
use super::file_place::FilePlace;
use super::redis_section::RedisConfig;
use super::secret_exposure::{Exposure, Provenance};
use super::sections::Config;
use crate::config::key::file_host::FileHost;
use crate::config::syntax::config_error::ConfigError;
use crate::config::syntax::problem::Problem;
use crate::files;
use crate::files::{OpenError, Owners, Way};
use schedd_schedule::time::zone::Zone;

/// The maximum size of a jobs file: 50 MiB.
pub const MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;

/// Reads and compiles the file at `place`. Fails with every problem in the file. `host_zone` is the
/// zone of local times if the file names no zone.
pub fn read_file(place: &FilePlace, host_zone: &Zone) -> Result<Config, ConfigError> {
    let name = place.path().display().to_string();
    let (text, provenance) = read_safe_text(place, &name)?;
    let mut config = compile_file(&text, (FileHost::Here, &name), host_zone, &provenance)?;
    let doubt = provenance.doubt.map(|message| Problem::new("", None, message));
    config.warnings.splice(0..0, doubt);
    Ok(config)
}

/// The settings of `[redis]` in a jobs file, and the other problems of the file.
pub struct RedisInFile {
    /// The settings of `[redis]` in the file.
    pub redis: RedisConfig,
    /// The faults of the file outside of `[redis]`. `None` if there are none. A caller that only
    /// needs Redis may ignore these faults, because an operator may be editing the file.
    pub error: Option<ConfigError>,
    /// The reason why another user may have written the file. `None` if no other user can write the
    /// file.
    pub doubt: Option<String>,
}

/// Reads the address of Redis from the file at `place`. Fails if `[redis]` has a fault or cannot be
/// found in the file.
pub fn read_redis(place: &FilePlace, host_zone: &Zone) -> Result<RedisInFile, ConfigError> {
    let name = place.path().display().to_string();
    let (text, provenance) = read_safe_text(place, &name)?;
    let (redis, error) = match compile_file(&text, (FileHost::Here, &name), host_zone, &provenance)
    {
        Ok(config) => (config.redis, None),
        Err(error) => match compile_redis_alone(&text, &provenance) {
            Some(redis) => (redis, Some(error)),
            None => return Err(error),
        },
    };
    Ok(RedisInFile { redis, error, doubt: provenance.doubt })
}

/// Returns the text of the file at `place`, and the users who can read and write it. Fails if the
/// file is missing, unreadable, too large, not UTF-8, or doubtful.
fn read_safe_text(place: &FilePlace, name: &str) -> Result<(String, Provenance), ConfigError> {
    let cannot = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::missing(name),
        _ => ConfigError::unreadable(name, format!("the file cannot be read: {error}")),
    };
    let owners = Owners::of_this_process();
    let way = if place.is_found() { Way::Directories } else { Way::Links };
    let opened = files::open(place.path(), &owners, way).map_err(|error| match error {
        OpenError::Io(error) => cannot(&error),
        OpenError::Kind(kind) => {
            ConfigError::unreadable(name, format!("found {kind}, wanted a regular file"))
        }
    })?;
    match &opened.doubt {
        Some(doubt) if place.is_found() => {
            let message = format!(
                "this file was found but not used, because another user may have written it: \
                 {doubt}, or name the file by --jobs"
            );
            return Err(ConfigError::unreadable(name, message));
        }
        Some(doubt) if owners.are_of_root() => {
            return Err(ConfigError::unreadable(
                name,
                format!("another user may write this file and so run commands as root: {doubt}"),
            ));
        }
        Some(_) | None => {}
    }
    let mut bytes = Vec::new();
    opened.file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("found more than {MAX_FILE_BYTES} bytes, wanted at most 50 MiB");
        return Err(ConfigError::unreadable(name, message));
    }
    let text =
        as_utf8(&bytes).map_err(|message| ConfigError::unreadable(name, message))?.to_owned();
    let exposure = match owners.are_of_root() {
        _ if opened.about.mode() & 0o004 == 0 => Exposure::Private,
        true => Exposure::PublicOfRoot,
        false => Exposure::Public,
    };
    let doubt = opened
        .doubt
        .map(|doubt| format!("another user may write this file and so run commands here: {doubt}"));
    Ok((text, Provenance { exposure, doubt }))
}

fn as_utf8(bytes: &[u8]) -> Result<&str, String> {
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some("little"),
        [0xfe, 0xff, ..] => Some("big"),
        // UTF-16 without a byte order mark has a NUL beside each ASCII character. A `jobs.toml` in
        // UTF-8 never begins like that.
        [first, 0, ..] if *first != 0 => Some("little"),
        [0, second, ..] if *second != 0 => Some("big"),
        _ => None,
    };
    if let Some(end) = utf16 {
        return Err(format!("found UTF-16 ({end}-endian), wanted UTF-8: save the file as UTF-8"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or_default();
        let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!("found the byte 0x{byte:02x} at offset {at} (line {line}), wanted UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf_8_is_named_with_its_place() {
        assert_eq!(
            as_utf8(b"a = 1\n\xff").unwrap_err(),
            "found the byte 0xff at offset 6 (line 2), wanted UTF-8"
        );
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0=\0", b"\0a\0="] {
            assert!(as_utf8(utf16).unwrap_err().contains("UTF-16"), "{utf16:?}");
        }
        assert_eq!(as_utf8("\u{feff}é".as_bytes()), Ok("\u{feff}é"));
    }
}
