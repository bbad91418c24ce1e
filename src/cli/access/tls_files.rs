//! The certificate and the key of the HTTP API, read from their files.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the settings of a TLS server with the certificate chain in `cert` and its key in `key`. The
/// error names the file and the reason.
pub(crate) fn tls_server(cert: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let of_cert = || format!("[api] tls_cert {} cannot be used", cert.display());
    let of_key = || format!("[api] tls_key {} cannot be used", key.display());
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).with_context(of_cert)?;
    anyhow::ensure!(!chain.is_empty(), "{}: the file has no certificate", of_cert());
    let key = PrivateKeyDer::from_pem_file(key).with_context(of_key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .with_context(of_cert)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(of_cert)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
