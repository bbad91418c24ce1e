//! Reads `jobs.toml` from the disk: only a regular file of a sane size that not everybody may write.
//!
//! What a file says is executed, so who can write it can run commands as this daemon.

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::compile_file::{compile_file, compile_redis_alone};
use super::config_error::ConfigError;
use super::exposure::Exposure;
use super::problem::Problem;
use super::sections::{Config, RedisConfig};
use crate::domain::zone::Zone;

/// The largest file read: 50 MiB.
pub const MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;

/// What the file at `path` says; `host_zone` is the zone of a local time where it names none. Fails with every problem.
pub fn read_file(path: &Path, host_zone: &Zone) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let SafeText { text, exposure, doubts } = read_safe_text(path, &name)?;
    let mut config = compile_file(&text, &name, host_zone, exposure)?;
    let doubts = doubts.into_iter().map(|message| Problem::new("", None, message));
    config.warnings.splice(0..0, doubts);
    Ok(config)
}

/// Which Redis the file at `path` names, and what else is wrong with it: somebody may be in the midst of editing it, and its
/// jobs do not matter to one who only looks for Redis. Fails if that cannot be told for sure.
pub fn read_redis(path: &Path, host_zone: &Zone) -> Result<(RedisConfig, Option<ConfigError>), ConfigError> {
    let name = path.display().to_string();
    let SafeText { text, exposure, .. } = read_safe_text(path, &name)?;
    match compile_file(&text, &name, host_zone, exposure) {
        Ok(config) => Ok((config.redis, None)),
        Err(error) => match compile_redis_alone(&text) {
            Some(redis) => Ok((redis, Some(error))),
            None => Err(error),
        },
    }
}

/// The text of a file that may be trusted, and what is doubtful about the file.
struct SafeText {
    text: String,
    exposure: Exposure,
    doubts: Vec<String>,
}

fn read_safe_text(path: &Path, name: &str) -> Result<SafeText, ConfigError> {
    let cannot = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::missing(name),
        _ => ConfigError::unreadable(name, format!("cannot be read: {error}")),
    };
    let (file, about) = open(path).map_err(|error| cannot(&error))?;
    if let Some(kind) = other_kind(about.file_type()) {
        return Err(ConfigError::unreadable(name, format!("found {kind}, wanted a regular file")));
    }
    let mode = about.permissions().mode();
    let own_uid = rustix::process::geteuid();
    let user = if own_uid.is_root() { User::Root } else { User::Ordinary };
    let mut doubts = Vec::new();
    match judge_mode(mode, user) {
        Writers::Trusted => {}
        Writers::Doubtful(message) => doubts.push(message),
        Writers::Refused(message) => return Err(ConfigError::unreadable(name, message)),
    }
    doubts.extend(judge_owner(about.uid(), own_uid.as_raw()));

    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("found more than {MAX_FILE_BYTES} bytes, wanted at most 50 MiB");
        return Err(ConfigError::unreadable(name, message));
    }
    let text = as_utf8(&bytes).map_err(|message| ConfigError::unreadable(name, message))?.to_owned();
    let exposure = match user {
        _ if mode & 0o004 == 0 => Exposure::Private,
        User::Root => Exposure::PublicOfRoot,
        User::Ordinary => Exposure::Public,
    };
    Ok(SafeText { text, exposure, doubts })
}

/// Opens without waiting for a writer (a FIFO) and looks at what was opened, not at what the path names a moment later.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let before = std::fs::metadata(path)?;
    if other_kind(before.file_type()).is_some() {
        // Nothing is read from it: only the kind is told.
        return Ok((File::open("/dev/null")?, before));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    Ok((file, about))
}

fn other_kind(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("a directory")
    } else if file_type.is_fifo() {
        Some("a FIFO")
    } else if file_type.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// As whom this process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    Ordinary,
}

/// Whether those who may write the file can be trusted with what this process may do.
#[derive(Debug, PartialEq, Eq)]
enum Writers {
    Trusted,
    Doubtful(String),
    Refused(String),
}

fn judge_mode(mode: u32, user: User) -> Writers {
    if mode & 0o002 == 0 {
        return Writers::Trusted;
    }
    let message = format!("everybody can write it (mode {:04o}) and so run commands here, wanted chmod o-w", mode & 0o7777);
    match user {
        User::Root => Writers::Refused(message),
        User::Ordinary => Writers::Doubtful(message),
    }
}

/// What is doubtful about a file whose owner is neither root nor who runs this.
fn judge_owner(owner: u32, own: u32) -> Option<String> {
    let is_trusted = owner == 0 || owner == own;
    (!is_trusted).then(|| format!("belongs to user {owner}, who can so run commands here; wanted chown to user {own} or root"))
}

fn as_utf8(bytes: &[u8]) -> Result<&str, String> {
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some("little"),
        [0xfe, 0xff, ..] => Some("big"),
        // Without a mark at its start, but no text of ours begins with a NUL beside a character.
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
    fn a_file_everybody_can_write_is_refused_for_root_and_doubted_for_others() {
        assert_eq!(judge_mode(0o100_644, User::Root), Writers::Trusted);
        assert!(matches!(judge_mode(0o100_666, User::Root), Writers::Refused(message) if message.contains("mode 0666")));
        assert!(matches!(judge_mode(0o100_646, User::Ordinary), Writers::Doubtful(_)));
    }

    #[test]
    fn a_file_of_a_stranger_is_doubted() {
        assert_eq!([judge_owner(0, 1000), judge_owner(1000, 1000), judge_owner(0, 0)], [None, None, None]);
        for own in [0, 1000] {
            assert!(judge_owner(1001, own).is_some_and(|message| message.contains("user 1001")));
        }
    }

    #[test]
    fn what_is_not_utf_8_is_named_with_its_place() {
        assert_eq!(as_utf8(b"a = 1\n\xff").unwrap_err(), "found the byte 0xff at offset 6 (line 2), wanted UTF-8");
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0=\0", b"\0a\0="] {
            assert!(as_utf8(utf16).unwrap_err().contains("UTF-16"), "{utf16:?}");
        }
        assert_eq!(as_utf8("\u{feff}é".as_bytes()), Ok("\u{feff}é"));
    }
}
