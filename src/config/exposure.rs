//! Secrets that stand in a file everybody on the host can read.

use super::problem::Problems;
use super::reader::{Spot, Table};
use super::sections::has_password;
use crate::domain::notice::NoticeKind;
use crate::domain::reference;

/// Who can read the file a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposure {
    /// Its owner, and at most a group.
    Private,
    /// Everybody on the host.
    Public,
    /// Everybody on the host, while root is to do what it says.
    PublicOfRoot,
}

/// Header fields whose values let somebody in.
const SECRET_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "api-key", "private-token"];

/// Notes each secret of the text: a doubt, or for root a fault.
pub(super) fn judge_secrets(root: &Table<'_>, exposure: Exposure, problems: &mut Problems) {
    if exposure == Exposure::Private {
        return;
    }
    let url = root.get("redis").and_then(|spot| spot.as_table()).and_then(|redis| redis.get("url"));
    if let Some(spot) = url.filter(|spot| spot.as_text().is_some_and(has_password)) {
        let message = "holds a password in a file everybody can read: chmod o-r the file, or use url_file or ${credential:NAME}";
        note(&spot, message, exposure, problems);
    }
    let jobs = root.get("jobs").and_then(|spot| spot.as_table());
    let jobs = jobs.iter().flat_map(Table::entries).filter_map(|(_, _, job)| job.as_table());
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

/// What is wrong with a secret that stands there.
const SECRET: &str = "holds a secret in a file everybody can read: chmod o-r the file, or use ${credential:NAME}";

/// Whether the secret itself stands there, and not where it is found.
fn is_secret(spot: &Spot<'_>) -> bool {
    spot.as_text().is_some_and(|text| !text.is_empty() && !reference::is_in(text))
}

fn judge_headers(table: &Table<'_>, exposure: Exposure, problems: &mut Problems) {
    let http = table.get("http").and_then(|spot| spot.as_table());
    let headers = http.and_then(|http| http.get("headers")).and_then(|spot| spot.as_table());
    for (name, _, spot) in headers.iter().flat_map(Table::entries) {
        if SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) && is_secret(&spot) {
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
