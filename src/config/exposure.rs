//! Secrets that stand in a file everybody on the host can read.

use super::problem::Problems;
use super::reader::{Spot, Table};
use super::sections::has_password;
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
        let check = table.get("done_check").and_then(|spot| spot.as_table());
        for table in std::iter::once(&table).chain(&check) {
            judge_headers(table, exposure, problems);
        }
    }
}

fn judge_headers(table: &Table<'_>, exposure: Exposure, problems: &mut Problems) {
    let http = table.get("http").and_then(|spot| spot.as_table());
    let headers = http.and_then(|http| http.get("headers")).and_then(|spot| spot.as_table());
    for (name, _, spot) in headers.iter().flat_map(Table::entries) {
        let is_secret = SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        if is_secret && spot.as_text().is_some_and(|text| !text.is_empty() && !reference::is_in(text)) {
            let message = "holds a secret in a file everybody can read: chmod o-r the file, or use ${credential:NAME}";
            note(&spot, message, exposure, problems);
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
