//! The reasons why a request got no answer, as text. The texts omit the URL, because its query may
//! contain secrets.

use std::error::Error;
use std::io::ErrorKind;

use rustix::io::Errno;

/// Returns the reason why a request failed: `cannot connect: connection refused`, `TLS: certificate
/// has expired`.
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
    let causes =
        std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| inside(*cause));
    let mut errors = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let io = errors.find(|io| {
        let errno = Errno::from_io_error(io);
        errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
    });
    io.filter(|_| error.is_connect())
        .map(|io| format!("not started: this node cannot connect: {io}"))
}

fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}
