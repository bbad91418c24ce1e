//! The reasons why a request got no answer, as text. The texts omit the URL, because its query may
//! contain secrets.

use std::error::Error;
use std::io::ErrorKind;

use schedd_core::files;

/// The beginning of the error text that Rust's standard library gives if a host cannot be looked
/// up.
const LOOK_UP: &str = "failed to lookup address information";

/// Returns the reason why a request failed, such as `cannot connect: connection refused` or `TLS:
/// certificate has expired`.
pub(super) fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let at_connect = error.is_connect();
    let causes: Vec<&(dyn Error + 'static)> =
        std::iter::successors(Some(&error as &(dyn Error + 'static)), |cause| inside(*cause))
            .collect();
    // An I/O error made by TLS contains the TLS error, which says more.
    if let Some(tls) = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return format!("TLS: {tls}");
    }
    let io = causes.iter().rev().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    let words = match io.map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => "connection reset".to_owned(),
        Some(ErrorKind::UnexpectedEof) => "connection closed".to_owned(),
        Some(ErrorKind::TimedOut) => "timed out".to_owned(),
        _ => causes.last().map_or_else(|| error.to_string(), ToString::to_string),
    };
    if at_connect { format!("cannot connect: {words}") } else { format!("request failed: {words}") }
}

/// Returns the reason why this node could not connect, if this node lacks descriptors or memory.
/// Nothing was sent in this case. Returns `None` for any other error.
pub(super) fn short_of(error: &reqwest::Error) -> Option<String> {
    if !error.is_connect() {
        return None;
    }
    let causes =
        std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| inside(*cause));
    let errors: Vec<&std::io::Error> = causes.filter_map(|cause| cause.downcast_ref()).collect();
    let words = |io: &std::io::Error| format!("not started: this node cannot connect: {io}");
    if let Some(io) = errors.iter().find(|io| files::is_shortage(io)) {
        return Some(words(io));
    }
    let is_look_up = errors.iter().any(|io| io.to_string().starts_with(LOOK_UP));
    // The C library reports a host as unknown if it has no descriptor to ask for it.
    is_look_up.then(files::lack_of_descriptors).flatten().map(|io| words(&io))
}

fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}
