//! Says in words why a request got no answer, without its URL: a query may hold secrets.

use std::error::Error;
use std::io::ErrorKind;

/// Why the request failed: `cannot connect: connection refused`, `TLS: certificate has expired`.
pub(super) fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let at_connect = error.is_connect();
    let causes: Vec<&(dyn Error + 'static)> =
        std::iter::successors(Some(&error as &(dyn Error + 'static)), |cause| inside(*cause)).collect();
    // An I/O error made by TLS holds the TLS error, which says more.
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

fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}
