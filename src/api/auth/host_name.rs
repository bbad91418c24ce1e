//! The name in a `Host` header.

/// Returns a host without its port.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn the_port_of_a_host_is_taken_off() {
        for (host, name) in
            [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("a:b", "a:b")]
        {
            assert_eq!(without_port(host), name);
        }
    }
}
