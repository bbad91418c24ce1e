//! Checks against foreign web pages: the name in `Host`, and the page that sends a request.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};

use super::caller::{Caller, Peer};
use super::host_name::without_port;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use schedd_core::config::ApiAddress;

/// Fails (421) if `Host` names another host. A page of another name that leads to this address
/// (DNS rebinding) could else read answers.
pub(in crate::api) fn check_host(state: &ApiState, parts: &Parts) -> Result<(), ApiProblem> {
    if matches!(parts.extensions.get(), Some(Peer::Unix(_))) {
        return Ok(());
    }
    let host = host_of(state, parts);
    let name = host.as_deref().map(without_port).unwrap_or_default();
    let own = match &state.config.listen {
        Some(ApiAddress::Tcp(own)) => Some(own.ip()),
        _ => None,
    };
    let is_known = name.eq_ignore_ascii_case("localhost")
        || state.config.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_own_address(name, own) || is_known {
        return Ok(());
    }
    Err(ApiProblem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "misdirected",
        format!("found host {name:?}, wanted a name of [api] hosts, or a loopback address"),
    ))
}

/// Returns true if the name of a host is an address of a listener at `own`. A listener at all
/// addresses cannot know them. It takes any address, because rebinding needs a name.
fn is_own_address(name: &str, own: Option<IpAddr>) -> bool {
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| {
        address.is_loopback() || own.is_some_and(|own| own.is_unspecified() || own == address)
    })
}

/// Fails (403) if a page of another site sends a request that changes something.
pub(in crate::api) fn check_origin(
    state: &ApiState,
    parts: &Parts,
    caller: &Caller,
) -> Result<(), ApiProblem> {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let site = text_of(&parts.headers, "sec-fetch-site");
    let is_foreign_site = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    // A browser sends the forms of our pages with the origin `null`, because of `no-referrer`.
    let is_ours = |origin: &&str| *origin == "null" && site == Some("same-origin");
    let origin = text_of(&parts.headers, "origin").filter(|origin| !is_ours(origin));
    let is_foreign_origin = origin.is_some_and(|origin| {
        let of_origin = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        host_of(state, parts).is_none_or(|host| !host.eq_ignore_ascii_case(of_origin))
    });
    if is_foreign_site || is_foreign_origin || caller.is_browser && site.is_none() {
        return Err(ApiProblem::forbidden("the request comes from a page of another site"));
    }
    Ok(())
}

/// Returns true if the sender uses TLS, directly or up to a trusted proxy.
pub(super) fn is_secure(state: &ApiState, parts: &Parts, peer: Option<&Peer>) -> bool {
    matches!(peer, Some(Peer::Tcp(_, true)))
        || forwarded(state, parts, "x-forwarded-proto") == Some("https")
}

/// Returns the words with which `curl` reaches this API as the sender of a request does: options, and
/// the address without a path.
pub(in crate::api) fn curl_address(state: &ApiState, parts: &Parts) -> String {
    let peer = parts.extensions.get::<Peer>();
    if let (Some(Peer::Unix(_)), Some(ApiAddress::Unix(path))) = (peer, &state.config.listen) {
        return format!("--unix-socket {} http://localhost", path.display());
    }
    let scheme = if is_secure(state, parts, peer) { "https" } else { "http" };
    format!("{scheme}://{}", host_of(state, parts).unwrap_or_default())
}

/// Returns the host that the sender asked for, which a trusted proxy names in `X-Forwarded-Host`.
fn host_of(state: &ApiState, parts: &Parts) -> Option<String> {
    let host = forwarded(state, parts, "x-forwarded-host");
    let host = host.or_else(|| text_of(&parts.headers, header::HOST.as_str()));
    host.or_else(|| parts.uri.authority().map(axum::http::uri::Authority::as_str))
        .map(str::to_owned)
}

/// Returns what a trusted proxy says about the request that it passes on.
pub(super) fn forwarded<'p>(state: &ApiState, parts: &'p Parts, name: &str) -> Option<&'p str> {
    text_of(&parts.headers, name).filter(|_| is_of_proxy(state, parts))
}

fn is_of_proxy(state: &ApiState, parts: &Parts) -> bool {
    match parts.extensions.get() {
        Some(Peer::Tcp(address, _)) => {
            state.config.trusted_proxies.iter().any(|range| range.contains(*address))
        }
        _ => false,
    }
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::is_own_address;

    #[test]
    fn only_a_listener_at_all_addresses_takes_any_address_as_its_own() {
        for (own, name, is_own) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "127.0.0.1", true),
            ("0.0.0.0", "10.0.0.2", true),
            ("0.0.0.0", "evil.example", false),
            ("0.0.0.0", "10.0.0.2.evil.example", false),
            ("::", "[2001:db8::1]", true),
            ("::", "", false),
        ] {
            assert_eq!(is_own_address(name, own.parse().ok()), is_own, "{own} {name}");
        }
    }
}
