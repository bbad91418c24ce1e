//! The address of Redis: a URL that is checked before any connection, and the form of the URL
//! without secrets.
//!
//! An address names one server, Sentinels, or nodes of a cluster. The last two lead to the server
//! that is the primary now, which a new connection looks for.
//!
//! Invariant: an address leads to the same data for the life of a process. Each connection reads the
//! URL again from its source, but takes only the user and password from the URL. A node that moved
//! to another server would leave its jobs and runs behind.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use super::primary_search;
use super::primary_search::Seed;
use crate::server::store_error::StoreError;
use schedd_core::domain::name::redis_url_text;
use schedd_core::domain::name::redis_url_text::RedisSeeds;

/// The address of Redis, as a URL that was checked.
#[derive(Clone)]
pub struct Address {
    settings: Settings,
    shown: String,
    /// The function that reads the URL again before each connection; None if the URL never changes.
    reread: Option<Reread>,
    eviction: Eviction,
    /// The server in place of that of the URL, for a shard on a server of its own.
    other_host: Option<Arc<str>>,
    /// The nodes of the cluster at the last search. Nodes that the URL names may be gone by now.
    known_nodes: Arc<Mutex<Vec<ConnectionAddr>>>,
}

/// The settings of connections that a URL gives.
#[derive(Clone)]
struct Settings {
    /// The settings for each server of the URL; there is at least one server.
    servers: Vec<ConnectionInfo>,
    route: Route,
    tls: TlsFiles,
    /// The number of replicas that must have a change before it is acknowledged; 0 for none.
    replicas: u8,
}

/// The way from the servers of a URL to the server with the data.
#[derive(Clone, PartialEq, Eq)]
enum Route {
    /// The URL names the server itself.
    Direct,
    /// The URL names Sentinels. They know the server as this name.
    Sentinels { master: String, user: Option<String>, password: Option<String> },
    /// The URL names nodes of a cluster.
    Cluster,
}

/// The PEM files for TLS, which are read again for each connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct TlsFiles {
    /// The certificates of authorities that are trusted in place of those of this host.
    authority: Option<PathBuf>,
    /// The certificate of this client and its key.
    own: Option<(PathBuf, PathBuf)>,
}

/// The certificates for TLS, as the library takes them.
#[cfg(feature = "tls")]
type Certificates = redis::TlsCertificates;
/// The certificates of a program without TLS: there are none.
#[cfg(not(feature = "tls"))]
enum Certificates {}

/// A function that reads a URL from its source. It returns None if the URL cannot be read.
pub type Reread = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The rule for a server that evicts keys when its memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eviction {
    /// A server that evicts keys is refused.
    #[default]
    Refused,
    /// A server that evicts keys is used, with a warning.
    Allowed,
}

/// An invalid Redis URL. The error never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis URL {shown}is not valid: {why}; wanted redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix:///PATH, redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT"
)]
pub struct AddressError {
    shown: String,
    why: String,
}

impl Address {
    /// Parses `url`. Fails unless its scheme is `redis:`, `rediss:`, `unix:` or `redis+unix:`, or
    /// names several servers, such as `redis+sentinel:` and `rediss+cluster:`.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let shown = without_password(url);
        let fail = |why: &str| AddressError {
            shown: format!("{:?} ", as_far_as_a_place(&shown)),
            why: why.to_owned(),
        };
        let Some((scheme, _)) = url.split_once("://") else {
            // The whole text may be a password that somebody stored in place of the URL.
            return Err(AddressError {
                shown: String::new(),
                why: "the URL has no \"://\"".to_owned(),
            });
        };
        let seeds = RedisSeeds::of(url);
        let (plain, _) = scheme.split_once('+').filter(|_| seeds.is_some()).unwrap_or((scheme, ""));
        if !["redis", "rediss", "unix", "redis+unix"].contains(&plain)
            || seeds.is_some() && plain == "unix"
        {
            return Err(fail(&format!("the scheme {scheme:?} is unknown")));
        }
        if plain == "rediss" && !cfg!(feature = "tls") {
            return Err(fail("this program has no TLS; it needs the feature tls of schedd"));
        }
        let names_file = |name| redis_url_text::parameter(url, name).is_some();
        if plain != "rediss" && ["ca_file", "cert_file", "key_file"].into_iter().any(names_file) {
            return Err(fail("it names files for TLS, which only a rediss URL uses"));
        }
        // The URL is printed, and a control character could change the terminal.
        if url.contains(char::is_control) {
            return Err(fail("the URL has a control character"));
        }
        if let Some(why) = redis_url_text::fault_of(url) {
            return Err(fail(why));
        }
        let settings = Settings::of(url, seeds).map_err(|why| fail(&why))?;
        Ok(Self {
            settings,
            shown,
            reread: None,
            eviction: Eviction::Refused,
            other_host: None,
            known_nodes: Arc::default(),
        })
    }

    /// Returns the same address with a function that reads the URL again before each connection.
    /// Only the user and password of that URL are used. The function runs on a thread that may
    /// block.
    #[must_use]
    pub fn read_anew_by(self, reread: Reread) -> Self {
        Self { reread: Some(reread), ..self }
    }

    /// Returns the same address with this rule for servers that evict keys.
    #[must_use]
    pub fn with_eviction(self, eviction: Eviction) -> Self {
        Self { eviction, ..self }
    }

    /// Returns the address of another server with the same user, password, database and files for
    /// TLS. `server` is `HOST:PORT` or `HOST`. Fails if this is not the address of one host.
    pub(crate) fn at_host(&self, server: &str) -> Result<Self, StoreError> {
        let settings = self.settings.at_host(server).ok_or_else(|| StoreError::Unfit {
            address: self.shown.clone(),
            why: format!(
                "shard {server} is a server beside it, which only the address of one host can have"
            ),
        })?;
        let (scheme, rest) = self.shown.split_once("://").unwrap_or_default();
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        Ok(Self {
            settings,
            shown: format!("{scheme}://{server}{path}"),
            other_host: Some(Arc::from(server)),
            known_nodes: Arc::default(),
            ..self.clone()
        })
    }

    pub(crate) fn eviction(&self) -> Eviction {
        self.eviction
    }

    /// Returns the connection settings of the first server of the URL that was parsed first.
    pub(crate) fn given(&self) -> &ConnectionInfo {
        // `Settings::of` fails for a URL without a server.
        &self.settings.servers[0]
    }

    /// Returns the number of replicas that must have a change before schedd acknowledges it. 0 means that
    /// schedd waits for no replica.
    pub(crate) fn replicas(&self) -> u8 {
        self.settings.replicas
    }

    /// Returns true if the server with the data may change, because Sentinels or a cluster decide.
    pub(crate) fn is_routed(&self) -> bool {
        self.settings.route != Route::Direct
    }

    /// Returns true if Sentinels decide which server has the data.
    pub(crate) fn has_sentinels(&self) -> bool {
        matches!(self.settings.route, Route::Sentinels { .. })
    }

    /// Returns true if the address is that of a cluster.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.settings.route == Route::Cluster
    }

    /// Returns a client for the server that has the keys of `slot` now. Asks the Sentinels or the
    /// nodes of the cluster. Fails if none of them knows the server, or if a file for TLS cannot be
    /// read.
    pub(crate) async fn primary(&self, slot: u16) -> Result<redis::Client, StoreError> {
        let fail = |why: String| StoreError::Unavailable { address: self.shown.clone(), why };
        let settings = self.current().await;
        let certificates = settings.tls.read().await.map_err(fail)?;
        let client = |info| self.client(certificates.as_ref(), info);
        let seed = |info: ConnectionInfo| {
            let server = info.addr().clone();
            client(info).map(|client| Seed { server, client })
        };
        let first = settings.servers[0].clone();
        let found = match &settings.route {
            Route::Direct => return client(first),
            Route::Sentinels { master, .. } => {
                let seeds = settings.sentinels().into_iter().map(seed);
                primary_search::ask_sentinels(seeds.collect::<Result<_, _>>()?, master).await
            }
            Route::Cluster => {
                let mut servers = settings.servers.clone();
                for node in &*self.known_nodes.lock().unwrap_or_else(PoisonError::into_inner) {
                    if servers.iter().all(|info| info.addr() != node) {
                        servers.push(first.clone().set_addr(node.clone()));
                    }
                }
                let seeds = servers.into_iter().map(seed).collect::<Result<_, _>>()?;
                primary_search::ask_nodes(seeds, slot).await
            }
        };
        let found = found.map_err(fail)?;
        if !found.others.is_empty() {
            *self.known_nodes.lock().unwrap_or_else(PoisonError::into_inner) = found.others;
        }
        client(first.set_addr(found.server))
    }

    /// Returns a client for another node of the cluster.
    pub(crate) async fn node(&self, server: ConnectionAddr) -> Result<redis::Client, StoreError> {
        let fail = |why: String| StoreError::Unavailable { address: self.shown.clone(), why };
        let settings = self.current().await;
        let certificates = settings.tls.read().await.map_err(fail)?;
        let first = settings.servers[0].clone();
        self.client(certificates.as_ref(), first.set_addr(server))
    }

    /// Waits until a Sentinel announces another primary. Returns false at once if no Sentinel can be
    /// heard, or if the address has none.
    pub(crate) async fn hear_switch(&self) -> bool {
        let settings = self.current().await;
        let Route::Sentinels { master, .. } = &settings.route else { return false };
        let Ok(certificates) = settings.tls.read().await else { return false };
        let seed = |info: ConnectionInfo| {
            let server = info.addr().clone();
            self.client(certificates.as_ref(), info).ok().map(|client| Seed { server, client })
        };
        let seeds = settings.sentinels().into_iter().filter_map(seed).collect();
        primary_search::hear_switch(seeds, master).await
    }

    /// Creates a client for the server `info`. Without `certificates` the library finds those of this
    /// host.
    fn client(
        &self,
        certificates: Option<&Certificates>,
        info: ConnectionInfo,
    ) -> Result<redis::Client, StoreError> {
        let made = match certificates {
            #[cfg(feature = "tls")]
            Some(certificates) => redis::Client::build_with_tls(info, certificates.clone()),
            #[cfg(not(feature = "tls"))]
            Some(none) => match *none {},
            None => redis::Client::open(info),
        };
        made.map_err(|error| StoreError::from_redis(&self.shown, &error))
    }

    /// Returns the settings with the users and passwords that the URL has now. If the URL cannot be
    /// read or names other servers, returns the first settings: a file with the URL may be half
    /// written.
    async fn current(&self) -> Settings {
        let Some(reread) = self.reread.clone() else { return self.settings.clone() };
        let text =
            tokio::task::spawn_blocking(move || reread()).await.ok().flatten().unwrap_or_default();
        let mut now = Self::parse(text.trim()).map(|now| now.settings).ok();
        if let Some(server) = &self.other_host {
            now = now.and_then(|now| now.at_host(server));
        }
        now.filter(|now| now.leads_to(&self.settings)).unwrap_or_else(|| self.settings.clone())
    }

    /// Returns the URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl Settings {
    /// Returns the settings of a checked URL. Fails if the library cannot parse the URL.
    fn of(url: &str, seeds: Option<RedisSeeds>) -> Result<Self, String> {
        // TCP_NODELAY sends small commands at once. The user timeout detects a peer that vanished.
        let tcp = redis::io::tcp::TcpSettings::default()
            .set_nodelay(true)
            .set_user_timeout(std::time::Duration::from_secs(5));
        let parameter = |name: &str| redis_url_text::parameter(url, name);
        let (master, urls) = match seeds {
            None => (None, vec![url.to_owned()]),
            Some(RedisSeeds { master, urls }) => (Some(master), urls),
        };
        let mut servers = Vec::new();
        for url in urls {
            let info = url
                .as_str()
                .into_connection_info()
                .map_err(|error| error.detail().unwrap_or("the URL cannot be parsed").to_owned())?;
            servers.push(info.set_tcp_settings(tcp.clone()));
        }
        let route = match master {
            None => Route::Direct,
            Some(None) => Route::Cluster,
            Some(Some(master)) => Route::Sentinels {
                master,
                user: parameter("sentinel_user"),
                password: parameter("sentinel_password"),
            },
        };
        let path = |name: &str| parameter(name).map(PathBuf::from);
        let tls =
            TlsFiles { authority: path("ca_file"), own: path("cert_file").zip(path("key_file")) };
        Ok(Self { servers, route, tls, replicas: redis_url_text::replicas_of(url)? })
    }

    /// Returns the same settings for another server. Returns `None` unless the URL names one host.
    fn at_host(&self, server: &str) -> Option<Self> {
        let first = self.servers.first().filter(|_| self.route == Route::Direct)?;
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (server, 6379),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let place = match first.addr() {
            ConnectionAddr::Tcp(..) => ConnectionAddr::Tcp(host, port),
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => return None,
        };
        Some(Self { servers: vec![first.clone().set_addr(place)], ..self.clone() })
    }

    /// Returns the settings for connections to the servers as Sentinels, whose user is another.
    fn sentinels(&self) -> Vec<ConnectionInfo> {
        let mut login = RedisConnectionInfo::default();
        if let Route::Sentinels { user, password, .. } = &self.route {
            if let Some(user) = user {
                login = login.set_username(user);
            }
            if let Some(password) = password {
                login = login.set_password(password);
            }
        }
        let servers = self.servers.iter().cloned();
        servers.map(|info| info.set_redis_settings(login.clone())).collect()
    }

    /// Returns true if both settings lead to the same data.
    fn leads_to(&self, other: &Self) -> bool {
        let place = |settings: &Self| {
            let servers = settings.servers.iter();
            let servers = servers.map(|info| (info.addr().clone(), info.redis_settings().db()));
            let master = match &settings.route {
                Route::Sentinels { master, .. } => Some(master.clone()),
                Route::Direct | Route::Cluster => None,
            };
            (servers.collect::<Vec<_>>(), master, settings.route == Route::Cluster)
        };
        place(self) == place(other)
    }
}

impl TlsFiles {
    /// Reads the files. Returns `None` if no file is set. The error names the file that cannot be
    /// read.
    #[cfg(feature = "tls")]
    async fn read(&self) -> Result<Option<Certificates>, String> {
        if *self == Self::default() {
            return Ok(None);
        }
        let read = async |kind: &str, path: &PathBuf| {
            let bytes = tokio::fs::read(path).await;
            bytes.map_err(|error| format!("{kind} {} cannot be read: {error}", path.display()))
        };
        let root_cert = match &self.authority {
            Some(path) => Some(read("ca_file", path).await?),
            None => None,
        };
        let client_tls = match &self.own {
            Some((certificate, key)) => Some(redis::ClientTlsConfig {
                client_cert: read("cert_file", certificate).await?,
                client_key: read("key_file", key).await?,
            }),
            None => None,
        };
        Ok(Some(redis::TlsCertificates { client_tls, root_cert }))
    }

    /// Returns `None`: an address of a program without TLS names no files.
    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_async, reason = "programs with TLS read files here")]
    async fn read(&self) -> Result<Option<Certificates>, String> {
        Ok(None)
    }
}

/// Prints the URL without its password, so that no log or panic contains a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Returns the URL without any part that may belong to a password. A password may contain the
/// separators of a URL.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    // A unix URL may carry its password as a parameter. The other forms have it before the last
    // `@`.
    let (before, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let place = if scheme.ends_with("unix") {
        before
    } else if parameters.contains('@') {
        "..."
    } else {
        before.rsplit_once('@').map_or(before, |(_, place)| place)
    };
    format!("{scheme}://{place}").chars().take(200).collect()
}

/// Returns the part of an invalid URL that looks like a host or path. The rest of the URL, such as
/// a second line, may contain a password.
fn as_far_as_a_place(shown: &str) -> &str {
    let place = shown.find("://").map_or(0, |at| at + 3);
    let ends = |c: char| c.is_control() || c.is_whitespace() || c == ':';
    let end =
        shown.get(place..).and_then(|rest| rest.find(ends)).map_or(shown.len(), |at| place + at);
    shown.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "redis://u:secret@h:1/0",
            "redis://:secret@h/",
            "unix:///p.sock?pass=secret",
            "rediss://:se@cret@h",
        ] {
            let address = Address::parse(url);
            let text = format!("{address:?}");
            assert!(!text.contains("secret") && !text.contains("cret@"), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_may_be_a_password_and_is_not_shown_either() {
        for text in [
            "secret",
            "secret:secret",
            "redis://:secret/secret@h",
            "redis://:secret?secret@h",
            "http://:secret/a@secret@h/",
            "redis://h:1/0\nsecret",
            "redis://:secret",
            "redis://h:1/0 secret",
            "redis://u:x@h:1/0\rredis://:secret@h/",
        ] {
            let message = Address::parse(text)
                .map_or_else(|error| error.to_string(), |address| address.shown().to_owned());
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[tokio::test]
    async fn of_a_file_the_password_is_read_again_and_another_server_is_not_followed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let reread: Reread = Arc::new(move || std::fs::read_to_string(&path).ok());
        let address = Address::parse("redis://:old@h:1/2").unwrap().read_anew_by(reread);
        let password = async |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            address.current().await.servers[0].redis_settings().password().map(str::to_owned)
        };
        assert_eq!(password("redis://u:new@h:1/2\n").await.as_deref(), Some("new"));
        for other in ["", "redis://:new@other:1/2", "redis://:new@h:1/3", "no address"] {
            assert_eq!(password(other).await.as_deref(), Some("old"), "{other:?}");
        }
    }

    #[test]
    fn another_scheme_or_a_control_character_is_refused_with_what_is_wanted() {
        for url in ["http://h", "", "localhost:6379", "file:///x", "unix:/\u{1b}/run/redis.sock"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("redis://HOST:PORT/DB"), "{error}");
        }
    }
}
