//! The reader of `jobs.toml` from the disk. A file must be regular, of a sane size, and writable
//! only for its reader and root.
//!
//! schedd executes the commands in the file, so whoever can write the file can run commands as
//! this daemon. A file that somebody else may have written is doubtful. schedd refuses a doubtful
//! file that it found by itself. If schedd runs as root, schedd refuses every doubtful file.
//! Otherwise schedd accepts a doubtful file that an operator named, with a warning.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use super::compile_file::{compile_file, compile_redis_alone};
use super::file_place::FilePlace;
use super::secret_exposure::{Exposure, Provenance};
use super::sections::{Config, RedisConfig};
use crate::config::syntax::config_error::ConfigError;
use crate::config::syntax::problem::Problem;
use crate::domain::time::zone::Zone;
use crate::files;
use crate::files::{OpenError, Owners, Way};

/// The maximum size of a configuration file: 50 MiB.
pub const MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;

/// Reads and compiles the file at `place`. `host_zone` is the zone of a local time if the file
/// names no zone. Fails with every problem.
pub fn read_file(place: &FilePlace, host_zone: &Zone) -> Result<Config, ConfigError> {
    let name = place.path().display().to_string();
    let (text, provenance) = read_safe_text(place, &name)?;
    let mut config = compile_file(&text, &name, host_zone, &provenance)?;
    let doubt = provenance.doubt.map(|message| Problem::new("", None, message));
    config.warnings.splice(0..0, doubt);
    Ok(config)
}

/// The Redis named by a file, and the other problems of the file.
pub struct RedisInFile {
    /// The address of Redis, and how to use it, as the file says.
    pub redis: RedisConfig,
    /// The other faults of the file. A caller that only looks for Redis may ignore these faults:
    /// an operator may be editing the file.
    pub error: Option<ConfigError>,
    /// The reason why somebody else may have written the file, if an operator named the file.
    pub doubt: Option<String>,
}

/// Reads the address of Redis from the file at `place`. Fails if the address cannot be read for
/// certain.
pub fn read_redis(place: &FilePlace, host_zone: &Zone) -> Result<RedisInFile, ConfigError> {
    let name = place.path().display().to_string();
    let (text, provenance) = read_safe_text(place, &name)?;
    let (redis, error) = match compile_file(&text, &name, host_zone, &provenance) {
        Ok(config) => (config.redis, None),
        Err(error) => match compile_redis_alone(&text, &provenance) {
            Some(redis) => (redis, Some(error)),
            None => return Err(error),
        },
    };
    Ok(RedisInFile { redis, error, doubt: provenance.doubt })
}

/// Returns the text of a file that schedd may use, and the provenance of the text. Fails for any
/// other file.
fn read_safe_text(place: &FilePlace, name: &str) -> Result<(String, Provenance), ConfigError> {
    let cannot = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::missing(name),
        _ => ConfigError::unreadable(name, format!("cannot be read: {error}")),
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
                "found here and not used, for it may be somebody else's: {doubt}, or a file named by --jobs"
            );
            return Err(ConfigError::unreadable(name, message));
        }
        Some(doubt) if owners.are_of_root() => {
            return Err(ConfigError::unreadable(
                name,
                format!("somebody else can so run commands as root: {doubt}"),
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
    let doubt =
        opened.doubt.map(|doubt| format!("somebody else can so run commands here: {doubt}"));
    Ok((text, Provenance { exposure, doubt }))
}

fn as_utf8(bytes: &[u8]) -> Result<&str, String> {
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some("little"),
        [0xfe, 0xff, ..] => Some("big"),
        // There is no byte order mark. But no `jobs.toml` begins with a NUL beside a character.
        [first, 0, ..] if *first != 0 => Some("little"),
        [0, second, ..] if *second != 0 => Some("big"),
        _ => None,
    };
    if let Some(end) = utf16 {
        return Err(format!("found UTF-16 ({end}-endian), wanted UTF-8: save it in that encoding"));
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
