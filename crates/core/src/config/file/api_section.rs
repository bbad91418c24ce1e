//! The section `[api]`: where a node answers HTTP requests, and who may send them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};

/// The settings of `[api]`. Without an address the node answers no HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiConfig {
    /// The address at which the node listens.
    pub listen: Option<ApiAddress>,
    /// The file of the access tokens. `None` for the default file.
    pub tokens_file: Option<PathBuf>,
    /// The path before all routes. Empty, or `/` and words without a `/` at the end.
    pub base_path: String,
    /// The proxies whose `X-Forwarded` headers are obeyed.
    pub trusted_proxies: Vec<AddressRange>,
    /// The files of the TLS certificate chain and of its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// True if tokens with the role `admin` may define and change jobs.
    pub may_define: bool,
    /// The names that a `Host` header may have, besides those of the loopback interface.
    pub hosts: Vec<String>,
}

/// The address at which a node listens for HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for ApiAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            "wanted an address such as \"127.0.0.1:7341\" or \"unix:/run/schedd/api.sock\"";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(format!("found {}, {wanted}", quoted(text)))
            };
        }
        let text = text
            .strip_prefix("localhost:")
            .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
        text.parse().map(Self::Tcp).map_err(|_| format!("found {}, {wanted}", quoted(&text)))
    }
}

impl ApiConfig {
    /// Returns the reason why schedd must not listen at the address: other hosts can reach it and
    /// TLS is off. Returns `None` if schedd may listen there.
    pub fn exposure(&self) -> Option<String> {
        match &self.listen {
            Some(ApiAddress::Tcp(address)) if !address.ip().is_loopback() && self.tls.is_none() => {
                Some(format!(
                    "found {address}, which other hosts can reach, without TLS; wanted tls_cert and tls_key, or an address such as 127.0.0.1:7341"
                ))
            }
            _ => None,
        }
    }
}

/// A range of IP addresses, such as `10.0.0.0/8`; a single address is a range of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    /// The number of leading bits that all addresses of the range share.
    bits: u8,
}

impl AddressRange {
    /// Returns true if the range contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let as_bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let ((own, own_width), (other, width)) = (as_bits(self.address), as_bits(address));
        let differing = (own ^ other).leading_zeros();
        own_width == width && differing >= u32::from(self.bits)
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "found {}, wanted an IP address or a range such as \"10.0.0.0/8\"",
                quoted(text)
            )
        };
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wanted())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wanted())?;
        if bits > most { Err(wanted()) } else { Ok(Self { address, bits }) }
    }
}

/// Compiles the section `[api]`. A key with a fault gets its default.
pub(crate) fn compile_api(table: &TableReader<'_>, problems: &mut Problems) -> ApiConfig {
    table.refuse_other_keys(&[known_keys::API], &[], problems);
    let (cert, key) = (table.get("tls_cert"), table.get("tls_key"));
    if let (Some(spot), None) | (None, Some(spot)) = (&cert, &key) {
        spot.fault(problems, "found only one of tls_cert and tls_key, wanted both keys");
    }
    let tls = cert.zip(key).and_then(|(cert, key)| {
        let files = (
            absolute(&cert, "/etc/schedd/api.pem", problems),
            absolute(&key, "/etc/schedd/api.key", problems),
        );
        files.0.zip(files.1)
    });
    let listen = table.get("listen");
    let api = ApiConfig {
        listen: listen.as_ref().and_then(|spot| spot.parsed("127.0.0.1:7341", problems)),
        tokens_file: table
            .get("tokens_file")
            .and_then(|spot| absolute(&spot, "/etc/schedd/api-tokens", problems)),
        base_path: table
            .get("base_path")
            .and_then(|spot| base_path(&spot, problems))
            .unwrap_or_default(),
        trusted_proxies: table
            .get("trusted_proxies")
            .map(|spot| list(&spot, "127.0.0.1", problems))
            .unwrap_or_default(),
        tls,
        may_define: table.get("define").and_then(|spot| spot.flag(problems)).unwrap_or(false),
        hosts: table
            .get("hosts")
            .map(|spot| list(&spot, "jobs.example.org", problems))
            .unwrap_or_default(),
    };
    if let (Some(spot), Some(reason)) = (listen, api.exposure()) {
        spot.fault(problems, reason);
    }
    api
}

fn absolute(spot: &Spot<'_>, example: &str, problems: &mut Problems) -> Option<PathBuf> {
    let path = PathBuf::from(spot.text(example, problems)?);
    if path.is_absolute() {
        Some(path)
    } else {
        spot.wanted(problems, format_args!("an absolute path such as {example:?}"))
    }
}

/// Returns the path before all routes, without a `/` at its end.
fn base_path(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let text = spot.text("/schedd", problems)?;
    let is_path = text.starts_with('/')
        && !text.contains("//")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte))
        && !text.split('/').any(|word| matches!(word, "." | ".."));
    if is_path {
        Some(text.trim_end_matches('/').to_owned())
    } else {
        spot.wanted(problems, "a path such as \"/schedd\"")
    }
}

fn list<T: FromStr<Err: fmt::Display>>(
    spot: &Spot<'_>,
    example: &str,
    problems: &mut Problems,
) -> Vec<T> {
    let Some(items) = spot.as_items() else {
        spot.wanted::<()>(problems, format_args!("a list such as [{example:?}]"));
        return Vec::new();
    };
    items.filter_map(|item| item.parsed(example, problems)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_the_addresses_that_share_its_bits() {
        let range = |text: &str| text.parse::<AddressRange>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(range("10.0.0.0/8").contains(ip("10.255.0.1")));
        assert!(range("10.0.0.0/8").contains(ip("::ffff:10.1.2.3")));
        assert!(!range("10.0.0.0/8").contains(ip("11.0.0.1")));
        assert!(range("127.0.0.1").contains(ip("127.0.0.1")));
        assert!(!range("127.0.0.1").contains(ip("127.0.0.2")));
        assert!(range("fd00::/8").contains(ip("fd12::1")));
        assert!(!range("fd00::/8").contains(ip("10.0.0.1")));
        assert!(range("0.0.0.0/0").contains(ip("8.8.8.8")));
        for bad in ["10.0.0.0/33", "x", "", "10.0.0.0/-1", "::/129"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_a_port_of_an_ip_or_an_absolute_socket() {
        for good in ["127.0.0.1:7341", "[::1]:80", "unix:/run/schedd/api.sock"] {
            assert_eq!(good.parse::<ApiAddress>().unwrap().to_string(), good);
        }
        assert_eq!("localhost:80".parse::<ApiAddress>().unwrap().to_string(), "127.0.0.1:80");
        for bad in ["7341", "127.0.0.1", "unix:api.sock", "http://127.0.0.1:1", ""] {
            assert!(bad.parse::<ApiAddress>().unwrap_err().contains("wanted an address"), "{bad}");
        }
    }
}
