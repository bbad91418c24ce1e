//! The search for secrets in a file that everybody on the host can read.

use super::redis_section::has_password;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::secret_headers::is_secret_header;
use crate::domain::job::secret_reference;

/// The users who can read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Only the owner of the file, and at most a group, can read the file.
    Private,
    /// Everybody on the host can read the file.
    Public,
    /// Everybody on the host can read the file, and root executes the commands in the file.
    PublicOfRoot,
}

/// The users who can read and write a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The users who can read the file.
    pub(crate) exposure: Exposure,
    /// The reason why another user may have written the file. `None` if no other user can write the
    /// file.
    pub(crate) doubt: Option<String>,
}

impl Provenance {
    /// Returns the provenance of a file that only its owner can read and write.
    pub(crate) fn private() -> Self {
        Self { exposure: Exposure::Private, doubt: None }
    }

    /// Returns the reason why credentials must not be inserted into the Redis address `url`.
    /// Returns `None` if credentials may be inserted, or if `url` refers to no credential.
    pub(crate) fn refuses(&self, url: &str) -> Option<String> {
        let doubt = self.doubt.as_ref().filter(|_| secret_reference::is_in(url))?;
        Some(format!(
            "no credential is sent to an address that another user may have written: {doubt}"
        ))
    }
}

/// Notes each secret in a file that everybody on the host can read: as a fault if schedd runs as
/// root, else as a warning. Also notes a fault for a Redis address with a credential, if another
/// user may have written the file.
pub(crate) fn judge_secrets(
    root: &TableReader<'_>,
    provenance: &Provenance,
    problems: &mut Problems,
) {
    let redis = root.get("redis").and_then(|spot| spot.as_table());
    let secrets: Vec<Spot<'_>> = ["url", "url_auth", "sentinel_password"]
        .iter()
        .filter_map(|key| redis.as_ref()?.get(key))
        .collect();
    for (spot, why) in
        secrets.iter().filter_map(|spot| Some((spot, provenance.refuses(spot.as_text()?)?)))
    {
        spot.fault(problems, why);
    }
    let exposure = provenance.exposure;
    if exposure == Exposure::Private {
        return;
    }
    for spot in secrets.iter().filter(|spot| spot.as_text().is_some_and(is_password_of_redis)) {
        let message = "found a password in a file that everybody on the host can read: \
                       chmod o-r the file, or use url_file or ${credential:NAME}";
        note(spot, message, exposure, problems);
    }
    let jobs = root.get("jobs").and_then(|spot| spot.as_table());
    let jobs = jobs.iter().flat_map(TableReader::entries).filter_map(|(_, _, job)| job.as_table());
    let defaults = root.get("defaults").and_then(|spot| spot.as_table());
    for table in jobs.chain(defaults) {
        judge_headers(&table, exposure, problems);
        let others = NoticeKind::ASKED.into_iter().map(NoticeKind::as_str).chain(["done_check"]);
        for other in others.filter_map(|key| table.get(key)?.as_table()) {
            judge_headers(&other, exposure, problems);
        }
        if let Some(secret) = table.get("webhook_secret") {
            let items = secret.as_items().into_iter().flatten();
            for spot in items.chain([secret]).filter(is_secret) {
                note(&spot, SECRET, exposure, problems);
            }
        }
    }
}

/// Returns true if a text is an address with a password, an address without host but with a password,
/// or a password itself.
fn is_password_of_redis(text: &str) -> bool {
    let is_address = text.contains("://");
    let with_host = text.rsplit_once('@').map(|(user, rest)| format!("{user}@host{rest}"));
    has_password(text)
        || with_host.is_some_and(|text| has_password(&text))
        || !is_address && !text.is_empty() && !secret_reference::is_in(text)
}

/// The message for a secret in a file that everybody on the host can read.
const SECRET: &str = "found a secret in a file that everybody on the host can read: chmod o-r the file, or use ${credential:NAME}";

/// Returns true if the value is a text that is itself a secret. Returns false if the text is empty
/// or refers to a credential.
fn is_secret(spot: &Spot<'_>) -> bool {
    spot.as_text().is_some_and(|text| !text.is_empty() && !secret_reference::is_in(text))
}

fn judge_headers(table: &TableReader<'_>, exposure: Exposure, problems: &mut Problems) {
    let http = table.get("http").and_then(|spot| spot.as_table());
    let headers = http.and_then(|http| http.get("headers")).and_then(|spot| spot.as_table());
    for (name, _, spot) in headers.iter().flat_map(TableReader::entries) {
        if is_secret_header(name) && is_secret(&spot) {
            note(&spot, SECRET, exposure, problems);
        }
    }
}

fn note(spot: &Spot<'_>, message: &str, exposure: Exposure, problems: &mut Problems) {
    if exposure == Exposure::PublicOfRoot {
        spot.fault(problems, message);
    } else {
        problems.warning(&spot.path, spot.span(), message);
    }
}
