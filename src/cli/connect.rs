//! The choice of a Redis: flags, then the environment, then the jobs file, then the socket of a
//! schedd with a private Redis.
//!
//! Invariant: the first source that names a Redis decides alone. The jobs file is read only if no
//! source before it names a Redis. A jobs file with errors can still name the Redis if the errors
//! do not concern `[redis]`.

use std::env;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::CliFailure;
use super::global::Global;
use super::merged_places::MergedPlaces;
use super::render::Console;
use crate::cli::local_zone::local_zone;
use crate::private_redis;
use crate::secrets::{Credentials, RedisUrl, SecretError};
use schedd_core::config;
use schedd_core::config::{FilePlace, RedisInFile, Rendering};
use schedd_store::{Address, DEFAULT_NAMESPACE, Eviction, Findings, Keys, Store, StoreError};

/// The maximum length, in characters, of the user name that is recorded with each change.
const MOST_OF_WHO: usize = 128;

/// Connects to the chosen Redis and checks that it can be used.
pub(crate) async fn connect(global: &Global, console: &mut Console) -> Result<Store, CliFailure> {
    if let Some(store) = &global.store {
        return Ok(store.clone());
    }
    let meant = meant(global, console)?;
    let is_private = meant.is_private;
    let (store, found) = meant.try_out(global).await?;
    let findings = found.map_err(|error| unusable(error, is_private))?;
    if let Some(policy) = findings.evicts_by {
        console.warn(&format!(
            "Redis at {} evicts keys when its memory is full (maxmemory-policy {policy}, allow_eviction): jobs and runs may be lost",
            store.address()
        ));
    }
    Ok(store)
}

/// Returns the places of a namespace. Prints a warning for each shard that does not answer.
pub(crate) async fn answering_places(
    store: &Store,
    console: &mut Console,
) -> Result<MergedPlaces, CliFailure> {
    let (places, silent) = MergedPlaces::with_silent(store).await?;
    for message in silent {
        console.warn(&format!("{message}; its jobs are left out"));
    }
    Ok(places)
}

/// The Redis that the user chose by flag, environment or file. No connection is made yet.
pub(crate) struct Meant {
    pub(crate) store: Store,
    /// The address and the namespace, with which the store can be made again. `None` for the store
    /// of this process.
    made_from: Option<(Address, Keys)>,
    /// True if a schedd runs this Redis as its private server.
    pub(crate) is_private: bool,
}

impl Meant {
    /// Connects to the Redis. Returns the store, and either the properties of the Redis server or
    /// the reason why schedd cannot use this server. A server that evicts keys is accepted if the
    /// jobs file allows eviction.
    pub(crate) async fn try_out(
        self,
        global: &Global,
    ) -> Result<(Store, Result<Findings, StoreError>), CliFailure> {
        match (self.store.findings().await, self.made_from) {
            (Err(StoreError::Unfit { .. }), Some((address, keys))) if allows_eviction(global) => {
                let store =
                    Store::new(&address.with_eviction(Eviction::Allowed), keys)?.signed(&who());
                let found = store.findings().await;
                Ok((store, found))
            }
            (found, _) => Ok((self.store, found)),
        }
    }
}

/// Returns the failure for a Redis that cannot be used. For a private Redis the message says how to
/// start schedd.
pub(crate) fn unusable(error: StoreError, is_private: bool) -> CliFailure {
    match error {
        StoreError::Unavailable { address, why } if is_private => {
            CliFailure::Unreachable(private_hint(&address, &why))
        }
        error => error.into(),
    }
}

/// Chooses the Redis to use. Does not connect.
pub(crate) fn meant(global: &Global, console: &mut Console) -> Result<Meant, CliFailure> {
    if let Some(store) = &global.store {
        let private = private_redis::find_socket().ok().flatten();
        let is_private = private.is_some_and(|address| address == store.address());
        return Ok(Meant { store: store.clone(), made_from: None, is_private });
    }
    let namespace = global.namespace.clone().or_else(|| variable("SCHEDD_NAMESPACE"));
    let keys = Keys::new(namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))
        .map_err(|error| CliFailure::Invalid(error.to_string()))?;
    if global.redis.as_deref().is_some_and(config::has_password) {
        console.warn(
            "--redis has a password, which every user of this host can read in the process list: \
             set the password by SCHEDD_REDIS_URL, [redis] url_file or ${credential:NAME}",
        );
    }
    let (address, is_private) = if let Some(address) = named(global, console)? {
        (address, false)
    } else {
        let found = private_redis::find_socket().map_err(|doubt| doubtful_socket(&doubt))?;
        (Address::parse(&found.ok_or_else(nothing_found)?)?, true)
    };
    Ok(Meant {
        store: Store::new(&address, keys.clone())?.signed(&who()),
        made_from: Some((address, keys)),
        is_private,
    })
}

/// Returns `USER@HOST` of this process. This name is recorded with each change.
fn who() -> String {
    who_is(rustix::process::getuid().as_raw())
}

/// Returns `USER@HOST` of the user `uid` of this host.
pub(crate) fn who_is(uid: u32) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = format!("{}@{host}", name_of(uid, "/etc/passwd"));
    text.chars().filter(|c| !c.is_control() && !c.is_whitespace()).take(MOST_OF_WHO).collect()
}

/// Returns the jobs file to use: the file named by flag or environment, else the first default file
/// that exists. Returns `None` if no such file exists.
pub(crate) fn jobs_file(global: &Global) -> Option<FilePlace> {
    FilePlace::of(global.jobs.clone().or_else(|| variable("SCHEDD_JOBS").map(PathBuf::from)))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn named(global: &Global, console: &mut Console) -> Result<Option<Address>, CliFailure> {
    if let Some(url) = global.redis.clone().or_else(|| variable("SCHEDD_REDIS_URL")) {
        return address_at(RedisUrl::of_text(url)).map(Some);
    }
    let Some(place) = jobs_file(global) else { return Ok(None) };
    let path = place.path();
    let RedisInFile { redis, error, doubt } =
        config::read_redis(&place, &local_zone()).map_err(|error| {
            CliFailure::Config(
                error.rendered(Rendering::Lines).lines().map(str::to_owned).collect(),
            )
        })?;
    if let Some(doubt) = doubt {
        console.warn(&format!("{}: {doubt}", path.display()));
    }
    if let Some(error) = error {
        let (file, count) = (path.display(), error.problems().len());
        let problems =
            if count == 1 { "a problem".to_owned() } else { format!("{count} problems") };
        console.warn(&format!(
            "{file} has {problems}, so its last changes are not applied: see schedctl check {file}"
        ));
    }
    let Some(at) = RedisUrl::of_file(&redis) else { return Ok(None) };
    let named = address_at(at).map(Some);
    named.map_err(|failure| match failure {
        CliFailure::Config(lines) => CliFailure::Config(
            lines.iter().map(|line| format!("{}: redis: {line}", path.display())).collect(),
        ),
        other => other,
    })
}

/// Returns the Redis address from the setting `at`. The setting is read again at each connection,
/// because the password may have changed.
fn address_at(at: RedisUrl) -> Result<Address, CliFailure> {
    let credentials = Credentials::of_this_process();
    let url =
        at.read(&credentials).map_err(|error| CliFailure::Config(vec![unreadable(&error)]))?;
    Ok(Address::parse(&url)?.read_anew_by(Arc::new(move || at.read(&credentials).ok())))
}

/// Returns the message for a Redis address that cannot be read. If the address needs a credential,
/// the message names other ways to give the address, because systemd gives credentials only to
/// schedd.
fn unreadable(error: &SecretError) -> String {
    match error {
        SecretError::NoDirectory { name } => format!(
            "credential {name} is missing: CREDENTIALS_DIRECTORY is not set (systemd sets it only for schedd itself); wanted --redis \
             URL, SCHEDD_REDIS_URL, or CREDENTIALS_DIRECTORY set to a directory with the file {name}"
        ),
        error => error.to_string(),
    }
}

/// Returns true if the jobs file allows a Redis that evicts keys. The file is read only after a
/// Redis that evicts keys was refused, because a Redis given by flag needs no jobs file.
fn allows_eviction(global: &Global) -> bool {
    let read = jobs_file(global).and_then(|place| config::read_redis(&place, &local_zone()).ok());
    read.is_some_and(|read| read.redis.allow_eviction)
}

fn doubtful_socket(doubt: &str) -> CliFailure {
    CliFailure::Config(vec![format!(
        "a private Redis was found but not used, because another user may have created its socket: {doubt}, or give --redis URL"
    )])
}

fn nothing_found() -> CliFailure {
    let sockets = private_redis::looked_at();
    if let Some(line) = sockets.iter().find_map(|socket| forbidden(socket)) {
        return CliFailure::Unreachable(line);
    }
    let places: Vec<String> = sockets.iter().map(|path| path.display().to_string()).collect();
    CliFailure::Unreachable(format!(
        "found no schedd: no Redis is given, and no schedd with a private Redis runs (looked at {}); start schedd or give --redis URL",
        places.join(", ")
    ))
}

/// Returns a message if `socket` may exist but lies in a directory that this user may not enter.
fn forbidden(socket: &Path) -> Option<String> {
    let is_hidden =
        socket.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    let directory = socket.parent().filter(|_| is_hidden)?;
    let members = match std::fs::metadata(directory) {
        Ok(about) if about.mode() & 0o010 != 0 => {
            format!(" or as a member of the group {}", name_of(about.gid(), "/etc/group"))
        }
        _ => String::new(),
    };
    Some(format!(
        "no Redis is given, and this user may not enter the directory {}, where a schedd may have its private Redis; run this command \
         as the user of that schedd{members}, or give --redis URL",
        directory.display()
    ))
}

/// Returns the name of the user or group `id` according to `file` (`/etc/passwd`, `/etc/group`),
/// else the number as text.
fn name_of(id: u32, file: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| id.to_string())
}

fn private_hint(address: &str, why: &str) -> String {
    if why.to_ascii_lowercase().contains("permission denied") {
        return format!(
            "this user may not connect to the private Redis of schedd at {address}: {why}; run this command as the user of schedd, or as a \
             member of the group that owns the socket"
        );
    }
    format!(
        "schedd is not running: its private Redis at {address} cannot be reached: {why}; start schedd or give --redis URL"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_group_are_named_and_one_without_a_name_is_numbered() {
        for file in ["/etc/group", "/etc/passwd"] {
            assert_eq!(name_of(0, file), "root");
            assert_eq!(name_of(4_123_456_789, file), "4123456789");
        }
    }

    #[test]
    fn a_socket_that_is_not_there_is_not_a_forbidden_one() {
        assert_eq!(forbidden(Path::new("/nonexistent/schedd/redis.sock")), None);
    }
}
