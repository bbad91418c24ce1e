//! The text of a Redis address: its faults, and the hosts of an address with several of them.
//!
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB` names Sentinels that know the
//! primary MASTER. `redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT` names nodes of a cluster. With
//! `rediss` in place of `redis`, all connections use TLS.
//!
//! Invariant: the text of a fault never repeats any part of the address, because any part may be a
//! piece of a password.

use url::Url;

/// The servers that an address names, and the way from them to the server with the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSeeds {
    /// The name of the primary if the servers are Sentinels. `None` for nodes of a cluster.
    pub master: Option<String>,
    /// The URL of each server, with the user, password, database and parameters of the address.
    pub urls: Vec<String>,
}

impl RedisSeeds {
    /// Returns the servers of an address with several hosts. Returns `None` for an address of one
    /// server.
    pub fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (scheme, kind) = scheme.split_once('+')?;
        let is_cluster = match kind {
            "sentinel" => false,
            "cluster" => true,
            _ => return None,
        };
        let (rest, parameters) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (user, place) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let (master, database) = match path.split_once('/') {
            _ if is_cluster => ("", path),
            Some((master, database)) => (master, database),
            None => (path, ""),
        };
        let url_of = |host: &str| {
            // The colons within the brackets of an IPv6 address come before no port.
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port || is_cluster { "" } else { ":26379" };
            format!("{scheme}://{user}{host}{port}/{database}{parameters}")
        };
        Some(Self {
            master: (!is_cluster).then(|| master.to_owned()),
            urls: hosts.split(',').map(url_of).collect(),
        })
    }
}

/// Returns the value of the parameter `name` of an address, or `None` if it has no such parameter.
pub fn parameter(url: &str, name: &str) -> Option<String> {
    let parameters = url.split_once('?')?.1;
    let mut pairs = url::form_urlencoded::parse(parameters.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The most replicas that a change can wait for.
pub(crate) const MOST_REPLICAS: u8 = 9;
/// The value of the parameter `durability` by which changes wait for replicas.
pub(crate) const REPLICATED: &str = "replicated";

/// Returns the number of replicas that acknowledged changes wait for by the parameters `durability`
/// and `replicas` of an address; 0 for none. The error names the fault.
pub fn replicas_of(url: &str) -> Result<u8, &'static str> {
    let replicas = parameter(url, "replicas");
    match parameter(url, "durability").as_deref() {
        None | Some("none") if replicas.is_none() => Ok(0),
        None | Some("none") => Err(IDLE_REPLICAS),
        Some(REPLICATED) => {
            let count = replicas.map_or(Ok(1), |count| count.parse::<u8>());
            count.ok().filter(|count| (1..=MOST_REPLICAS).contains(count)).ok_or(REPLICAS)
        }
        Some(_) => Err(DURABILITY),
    }
}

const REPLICAS: &str = "the number of replicas is not a whole number from 1 to 9";
const IDLE_REPLICAS: &str = "replicas is given without durability=replicated";
const DURABILITY: &str = "durability is neither none nor replicated";
const PORT: &str = "the port is not a number from 1 to 65535";
const DATABASE: &str = "the database number is not 0 or a larger whole number";
const HOST: &str = "the host is not a host name or an IP address";
const NO_HOST: &str = "the URL has no host";
const NO_MASTER: &str = "the name of the primary is missing after the Sentinels";
const OTHER_DATABASE: &str = "a cluster has only the database 0";

/// Returns the first fault of `url`, an address of Redis. Returns `None` if the hosts, the ports, the
/// database number and the durability are valid.
pub fn fault_of(url: &str) -> Option<&'static str> {
    if let Err(fault) = replicas_of(url) {
        return Some(fault);
    }
    let Some(RedisSeeds { master, urls }) = RedisSeeds::of(url) else { return fault_of_one(url) };
    let fault = urls.iter().find_map(|url| fault_of_one(url));
    fault.or_else(|| master.as_ref().is_some_and(String::is_empty).then_some(NO_MASTER)).or_else(
        || {
            let has_database = |url: &String| {
                Url::parse(url).is_ok_and(|url| !matches!(url.path(), "" | "/" | "/0"))
            };
            (master.is_none() && urls.first().is_some_and(has_database)).then_some(OTHER_DATABASE)
        },
    )
}

fn fault_of_one(url: &str) -> Option<&'static str> {
    let parsed = match Url::parse(url) {
        Ok(parsed) => parsed,
        // Only the message of a parse error names the faulty part of the URL.
        Err(error) => {
            return Some(match error.to_string() {
                words if words.contains("port") => PORT,
                words if words.contains("empty host") => NO_HOST,
                words if words.contains("host") || words.contains("address") => HOST,
                _ => "the URL cannot be parsed",
            });
        }
    };
    let is_socket = parsed.scheme().ends_with("unix");
    if !is_socket && parsed.host_str().is_none_or(str::is_empty) {
        return Some(NO_HOST);
    }
    if parsed.port() == Some(0) {
        return Some(PORT);
    }
    let database = if is_socket {
        parsed.query_pairs().find(|(key, _)| key == "db").map(|(_, number)| number.into_owned())
    } else {
        Some(parsed.path().trim_matches('/').to_owned()).filter(|path| !path.is_empty())
    };
    database.is_some_and(|number| number.parse::<u32>().is_err()).then_some(DATABASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_is_wrong_has_a_line_of_its_own() {
        for (url, fault) in [
            ("redis://h", None),
            ("rediss://u:p@h:6379/3/", None),
            ("redis://[::1]:6379/0", None),
            ("unix:///run/redis.sock?db=2&pass=x", None),
            ("redis://h/-1", Some(DATABASE)),
            ("redis://h/x", Some(DATABASE)),
            ("redis://h/99999999999999999999", Some(DATABASE)),
            ("unix:///run/redis.sock?db=-1", Some(DATABASE)),
            ("redis://h:70000", Some(PORT)),
            ("redis://h:-1", Some(PORT)),
            ("redis://h:0", Some(PORT)),
            ("redis://", Some(NO_HOST)),
            ("redis:///0", Some(NO_HOST)),
            ("redis://[::1", Some(HOST)),
            ("redis+sentinel://u:p@a,b:1/prime", None),
            ("rediss+sentinel://a/prime/2?ca_file=/ca.pem", None),
            ("redis+sentinel://a,b", Some(NO_MASTER)),
            ("redis+sentinel://a/prime/x", Some(DATABASE)),
            ("redis+sentinel://a:70000/prime", Some(PORT)),
            ("redis+sentinel://a,/prime", Some(NO_HOST)),
            ("redis+cluster://a:1,[::1]:2", None),
            ("redis+cluster://a/0", None),
            ("redis+cluster://a/1", Some(OTHER_DATABASE)),
            ("redis+cluster://a,b:0", Some(PORT)),
            ("redis://h?durability=replicated&replicas=2", None),
            ("redis://h?durability=disk", Some(DURABILITY)),
            ("redis://h?replicas=2", Some(IDLE_REPLICAS)),
            ("redis+cluster://a?durability=replicated&replicas=0", Some(REPLICAS)),
            ("redis+sentinel://a/prime?durability=replicated&replicas=x", Some(REPLICAS)),
        ] {
            assert_eq!(fault_of(url), fault, "{url}");
        }
    }

    #[test]
    fn each_host_of_an_address_gets_the_user_the_database_and_the_parameters() {
        let seeds = |url: &str| RedisSeeds::of(url).unwrap();
        assert_eq!(
            seeds("rediss+sentinel://u:p@a,[::1],b:7/prime/3?ca_file=/ca"),
            RedisSeeds {
                master: Some("prime".to_owned()),
                urls: ["a:26379", "[::1]:26379", "b:7"]
                    .map(|host| format!("rediss://u:p@{host}/3?ca_file=/ca"))
                    .to_vec(),
            }
        );
        assert_eq!(
            seeds("redis+cluster://a:1,b"),
            RedisSeeds {
                master: None,
                urls: vec!["redis://a:1/".to_owned(), "redis://b/".to_owned()]
            }
        );
        assert_eq!(RedisSeeds::of("redis://a,b"), None);
        assert_eq!(RedisSeeds::of("redis+unix:///p"), None);
    }
}
