//! The section `[redis]`: the address of Redis, which may name one server, Sentinels or a cluster.
//!
//! All forms of the address become one URL, which is read and checked again when it is used.

use std::fmt;
use std::path::PathBuf;

use url::form_urlencoded::byte_serialize;

use crate::config::key::file_host::FileHost;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::job::secret_reference;
use crate::domain::job::secret_reference::ReferenceError;
use crate::domain::name::redis_url_text;
use crate::domain::name::redis_url_text::{MOST_REPLICAS, REPLICATED, RedisSeeds};
use crate::domain::queue::shard_map::ShardMap;

/// The settings of `[redis]`, with at most one address. Without an address schedd starts a private
/// Redis server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RedisConfig {
    /// The address of Redis, which may refer to credentials.
    pub url: Option<String>,
    /// The file that contains the address of Redis, for an address with a password.
    pub url_file: Option<PathBuf>,
    /// The URL parameters of the files for TLS and of the durability, such as
    /// `ca_file=...&durability=replicated`, or empty.
    pub parameters: String,
    /// True if schedd may use a Redis server that evicts keys when memory is short.
    pub allow_eviction: bool,
    /// The shards of the namespace; `None` for a namespace without shards.
    pub shards: Option<ShardMap>,
}

/// Formats the settings without the address, which may contain a password and could appear in a
/// log.
impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|_| "(hidden)");
        f.debug_struct("RedisConfig")
            .field("url", &url)
            .field("url_file", &self.url_file)
            .field("parameters", &self.parameters)
            .field("allow_eviction", &self.allow_eviction)
            .field("shards", &self.shards)
            .finish()
    }
}

/// The keys of which a file may have one, because each gives the address of Redis.
const ADDRESSES: [&str; 4] = ["url", "url_file", "sentinels", "cluster"];
/// The keys that a file with Sentinels may have besides.
const OF_SENTINELS: [&str; 3] = ["master", "sentinel_user", "sentinel_password"];
/// The schemes of an address of one server.
const SCHEMES: [&str; 7] =
    ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"];
/// The schemes of an address with several hosts.
const SCHEMES_OF_SEEDS: [&str; 4] =
    ["redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// Compiles the section `[redis]` of a file on `host`. A key with a fault gets its default.
pub(crate) fn compile_redis(
    table: &TableReader<'_>,
    host: FileHost<'_>,
    problems: &mut Problems,
) -> RedisConfig {
    table.refuse_other_keys(&[known_keys::REDIS], &[], problems);
    let given: Vec<&str> = ADDRESSES.into_iter().filter(|key| table.get(key).is_some()).collect();
    if let [first, second, ..] = *given
        && let Some(spot) = table.get(second)
    {
        let message = format!("found {first} and {second} together, wanted only one of these keys");
        spot.fault(problems, message);
    }
    let is_of_seeds = given.iter().any(|key| ["sentinels", "cluster"].contains(key));
    let idle = OF_SENTINELS.iter().map(|key| (key, given.contains(&"sentinels"), "sentinels"));
    for (key, is_used, wanted) in idle.chain([(&"url_auth", is_of_seeds, "sentinels or cluster")]) {
        if let Some(spot) = table.get(key).filter(|_| !is_used) {
            spot.fault(problems, format!("found {key} without {wanted}, wanted both"));
        }
    }
    let mut parameters = compile_tls(table, host, problems);
    parameters.extend(compile_durability(table, problems));
    let url = match (table.get("url"), table.get("sentinels"), table.get("cluster")) {
        (Some(spot), ..) => compile_redis_url(&spot, problems),
        (None, Some(spot), _) => compile_sentinels(&spot, table, problems),
        (None, None, Some(spot)) => compile_seeds(&spot, table, ("cluster", "", ""), problems),
        (None, None, None) => None,
    };
    if let Some(spot) = table.get("ca_file").or_else(|| table.get("cert_file"))
        && url.as_ref().is_some_and(|url| !secret_reference::is_all_of(url) && !uses_tls(url))
    {
        let wanted =
            if is_of_seeds { "url_auth = \"rediss://...\"" } else { "url = \"rediss://...\"" };
        spot.fault(
            problems,
            format!("found a certificate for connections without TLS, wanted {wanted}"),
        );
    }
    RedisConfig {
        url,
        url_file: table.get("url_file").and_then(|spot| compile_path(&spot, host, problems)),
        parameters: parameters.join("&"),
        allow_eviction: table
            .get("allow_eviction")
            .and_then(|spot| spot.flag(problems))
            .unwrap_or(false),
        shards: table.get("shards").and_then(|spot| compile_shards(&spot, table, problems)),
    }
}

/// Compiles `shards`: a number, or a list of servers. The servers of a list get the user, password and
/// TLS settings of `url`, so `url` must name one host.
fn compile_shards(
    spot: &Spot<'_>,
    table: &TableReader<'_>,
    problems: &mut Problems,
) -> Option<ShardMap> {
    if spot.as_items().is_none() {
        return spot.integer(&(1..=ShardMap::MOST), problems).map(ShardMap::Count);
    }
    let url = table.get("url").and_then(|spot| spot.text("", &mut Problems::default()));
    let is_of_one_host = table.get("url_file").is_some()
        || url.is_some_and(|url| !url.contains("unix:") && RedisSeeds::of(url).is_none());
    if !is_of_one_host {
        let message = "found a list of servers, wanted a number of shards, or also the TCP address of one server: url = \"redis://HOST:PORT\" or url_file";
        spot.fault(problems, message);
        return None;
    }
    let servers: Vec<String> = host_list(spot, problems)?.into_iter().map(str::to_owned).collect();
    if servers.iter().enumerate().any(|(at, server)| servers[..at].contains(server)) {
        spot.fault(problems, "found a server twice, wanted each server once");
        return None;
    }
    if servers.len() > ShardMap::MOST as usize {
        return spot.wanted(problems, "a list of at most 1,000 servers");
    }
    Some(ShardMap::Servers(servers))
}

/// Compiles a list of addresses `HOST:PORT` with at least one address.
fn host_list<'n>(spot: &Spot<'n>, problems: &mut Problems) -> Option<Vec<&'n str>> {
    const WANTED: &str = "a list of addresses such as [\"redis1:6379\", \"redis2:6379\"]";
    let Some(items) = spot.as_items() else { return spot.wanted(problems, WANTED) };
    let mut hosts = Vec::new();
    for item in items {
        let host = item.text("redis1:6379", problems)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:_-[]".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            return item.wanted(problems, "HOST:PORT such as \"redis1:6379\"");
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        spot.fault(problems, format!("found an empty list, wanted {WANTED}"));
        return None;
    }
    Some(hosts)
}

/// Returns the URL with these further parameters, which may be empty.
pub fn with_parameters(url: String, parameters: &str) -> String {
    match parameters {
        "" => url,
        _ if url.contains('?') => format!("{url}&{parameters}"),
        _ => format!("{url}?{parameters}"),
    }
}

fn uses_tls(url: &str) -> bool {
    ["rediss://", "valkeys://", "rediss+"].iter().any(|start| url.starts_with(start))
}

/// Compiles an absolute path. A missing file is only a warning, because systemd may create the file
/// when the service starts.
fn compile_path(spot: &Spot<'_>, host: FileHost<'_>, problems: &mut Problems) -> Option<PathBuf> {
    let path = PathBuf::from(spot.text("/etc/schedd/redis.url", problems)?);
    if !path.is_absolute() {
        return spot.wanted(problems, "an absolute path such as \"/etc/schedd/redis.url\"");
    }
    if host.is_here() && !path.exists() {
        let shown = quoted(&path.to_string_lossy());
        problems.warning(
            &spot.path,
            spot.span(),
            format!("file {shown} does not exist on this host, so schedd cannot start"),
        );
    }
    Some(path)
}

/// Compiles the files for TLS to parameters of a URL.
fn compile_tls(
    table: &TableReader<'_>,
    host: FileHost<'_>,
    problems: &mut Problems,
) -> Vec<String> {
    const PAIR: [&str; 2] = ["cert_file", "key_file"];
    for (key, other) in [(PAIR[0], PAIR[1]), (PAIR[1], PAIR[0])] {
        if let Some(spot) = table.get(key).filter(|_| table.get(other).is_none()) {
            spot.fault(problems, format!("found {key} without {other}, wanted both or none"));
        }
    }
    let mut parameters = Vec::new();
    for key in ["ca_file", PAIR[0], PAIR[1]] {
        if let Some(spot) = table.get(key)
            && let Some(path) = compile_path(&spot, host, problems)
        {
            parameters.push(parameter(key, &path.to_string_lossy()));
        }
    }
    parameters
}

/// Compiles the durability to parameters of a URL.
fn compile_durability(table: &TableReader<'_>, problems: &mut Problems) -> Vec<String> {
    let durability = table.get("durability");
    let choices = [("none", false), ("replicated", true)];
    let is_replicated =
        durability.as_ref().and_then(|spot| spot.choice(&choices, problems)).unwrap_or(false);
    let replicas = table.get("replicas").filter(|spot| {
        if durability.is_none() {
            let message =
                "found replicas without durability, wanted also durability = \"replicated\"";
            spot.fault(problems, message);
        }
        is_replicated
    });
    if let Some(spot) = durability.filter(|_| is_replicated)
        && ADDRESSES.iter().all(|key| table.get(key).is_none())
    {
        let message = "found replicated without the address of a Redis server, wanted also url, url_file, sentinels or cluster";
        spot.fault(problems, message);
    }
    let count = replicas.and_then(|spot| spot.integer(&(1..=MOST_REPLICAS), problems)).unwrap_or(1);
    if is_replicated {
        vec![parameter("durability", REPLICATED), format!("replicas={count}")]
    } else {
        Vec::new()
    }
}

fn parameter(key: &str, value: &str) -> String {
    format!("{key}={}", byte_serialize(value.as_bytes()).collect::<String>())
}

fn compile_sentinels(
    spot: &Spot<'_>,
    table: &TableReader<'_>,
    problems: &mut Problems,
) -> Option<String> {
    let Some(master) = table.get("master") else {
        spot.fault(
            problems,
            "found sentinels without master, wanted also the name of the primary, such as master = \"mymaster\"",
        );
        return None;
    };
    let name = master.text("mymaster", problems)?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
        return master
            .wanted(problems, "a name of letters, digits, '.', '_' and '-', such as \"mymaster\"");
    }
    let mut parameters = Vec::new();
    for key in ["sentinel_user", "sentinel_password"] {
        let Some(spot) = table.get(key) else { continue };
        let text = spot.text("${credential:NAME}", problems)?;
        // The value of a credential is percent-encoded when it replaces the reference.
        parameters.push(if secret_reference::is_in(text) {
            check_references(&spot, text, problems)?;
            format!("{key}={text}")
        } else {
            parameter(key, text)
        });
    }
    compile_seeds(spot, table, ("sentinel", name, &parameters.join("&")), problems)
}

/// Compiles an address with several hosts to a URL: its kind, the path before the database, and its
/// parameters.
fn compile_seeds(
    spot: &Spot<'_>,
    table: &TableReader<'_>,
    (kind, path, parameters): (&str, &str, &str),
    problems: &mut Problems,
) -> Option<String> {
    let hosts = host_list(spot, problems)?;
    let (scheme, user, database) = compile_auth(table.get("url_auth").as_ref(), problems)?;
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    let url = format!("{scheme}+{kind}://{user}{}{path}{database}", hosts.join(","));
    let url = with_parameters(url, parameters);
    let filled = secret_reference::fill::<ReferenceError>(&url, |_| Ok("1".to_owned()));
    match redis_url_text::fault_of(&filled.unwrap_or_default()) {
        None => Some(url),
        Some(fault) => {
            spot.fault(problems, format!("not the address of a Redis: {fault}"));
            None
        }
    }
}

/// Returns the scheme, the user with password and `@`, and the database with `/` of the key
/// `url_auth`.
fn compile_auth<'n>(
    spot: Option<&Spot<'n>>,
    problems: &mut Problems,
) -> Option<(&'n str, &'n str, &'n str)> {
    let Some(spot) = spot else { return Some(("redis", "", "")) };
    let text = spot.text("rediss://USER:PASSWORD@/0", problems)?;
    check_references(spot, text, problems)?;
    let parts = text.split_once("://").filter(|(scheme, _)| ["redis", "rediss"].contains(scheme));
    let parts =
        parts.map(|(scheme, rest)| (scheme, rest.split_at(rest.rfind('@').map_or(0, |at| at + 1))));
    match parts {
        Some((scheme, (user, path)))
            if path.is_empty() || path.starts_with('/') && !path.contains('?') =>
        {
            Some((scheme, user, if path == "/" { "" } else { path }))
        }
        _ => {
            // The text is not shown, because it may contain a password.
            spot.fault(
                problems,
                "not an address without host, wanted the scheme, user, password and database, such as \"rediss://user:${credential:redis}@/0\"",
            );
            None
        }
    }
}

/// Checks the references to credentials in `text`. Notes a fault and returns `None` if a reference is
/// malformed.
fn check_references(spot: &Spot<'_>, text: &str, problems: &mut Problems) -> Option<()> {
    let checked = secret_reference::check(text);
    checked.map_err(|error| spot.fault_at(problems, error.offset(), error.to_string())).ok()
}

fn compile_redis_url(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let text = spot.text("redis://127.0.0.1:6379/0", problems)?;
    check_references(spot, text, problems)?;
    if secret_reference::is_all_of(text) {
        return Some(text.to_owned());
    }
    // Each credential is replaced by a number for the check, because a credential may be the port
    // or the database.
    let filled =
        secret_reference::fill::<ReferenceError>(text, |_| Ok("1".to_owned())).unwrap_or_default();
    // The address is not shown, because it may contain a password.
    let is_of_redis = filled
        .split_once("://")
        .is_some_and(|(scheme, _)| SCHEMES.contains(&scheme) || SCHEMES_OF_SEEDS.contains(&scheme));
    match redis_url_text::fault_of(&filled) {
        None if is_of_redis => Some(text.to_owned()),
        fault => {
            let why =
                fault.filter(|_| is_of_redis).map(|fault| format!(": {fault}")).unwrap_or_default();
            let wanted = "wanted an address such as \"redis://127.0.0.1:6379/0\" or \"unix:///run/redis.sock\"";
            spot.fault(problems, format!("not a Redis address{why}, {wanted}"));
            None
        }
    }
}

/// Returns true if `url` contains a password: before the host, as `pass` after the path of a socket,
/// or as `sentinel_password`. Returns false if `url` refers to a credential.
pub fn has_password(url: &str) -> bool {
    const PARAMETERS: [&str; 2] = ["pass", "sentinel_password"];
    let urls = RedisSeeds::of(url).map_or_else(|| vec![url.to_owned()], |seeds| seeds.urls);
    let is_in = |url: url::Url| {
        url.password().is_some_and(|word| !word.is_empty())
            || url.query_pairs().any(|(key, word)| PARAMETERS.contains(&&*key) && !word.is_empty())
    };
    !secret_reference::is_in(url) && urls.iter().any(|url| url::Url::parse(url).is_ok_and(is_in))
}
