//! The client for the HTTP requests of a node: those of jobs, and those with spans.

use reqwest::{Client, ClientBuilder};

/// Returns an HTTP client to which `settings` adds settings of the caller. The client uses the
/// certificates of the system. It ignores proxies in the environment, follows no redirects, and
/// repeats no request.
///
/// On a host without certificates, `https` requests fail with an error about the missing
/// certificates, and `http` requests work.
pub fn http_client(
    settings: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, reqwest::Error> {
    // The call fails if the process already has a TLS crypto provider, which is then used instead.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let builder = Client::builder()
            .no_proxy()
            .user_agent(concat!("schedd/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        settings(builder)
    };
    builder().build().or_else(|error| {
        tracing::warn!(%error, "This host has no system certificates, so https requests will fail. Install ca-certificates.");
        builder().tls_certs_only([]).build()
    })
}
