//! Finds faults in the address of a Redis server. The text of a fault never repeats any part of the
//! address, because any part may be a piece of a password.

use url::Url;

const PORT: &str = "the port is not a number from 1 to 65535";
const DATABASE: &str = "the database number is not 0 or a larger whole number";
const HOST: &str = "the host is not a host name or an IP address";
const NO_HOST: &str = "the URL has no host";

/// Returns the fault of `url` as the address of a Redis server, or `None` if its host, port and
/// database number are valid.
pub fn fault_of(url: &str) -> Option<&'static str> {
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
        ] {
            assert_eq!(fault_of(url), fault, "{url}");
        }
    }
}
