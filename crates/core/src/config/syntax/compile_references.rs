//! The check of the references to credentials in a job. References are allowed in `env`, and in the
//! URL, the header fields and the body of a request.
//!
//! Definitions in Redis are not checked, because an older schedd may have stored `${` as plain
//! text.

use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::secret_reference;

/// Notes a fault for each faulty reference to a credential in a table with an action or rules, in
/// its `done_check` and in its notices.
pub(crate) fn refuse_faulty_references(table: &TableReader<'_>, problems: &mut Problems) {
    each_text(table, "env", problems);
    if let Some(http) = table.get("http") {
        refuse(&http, problems);
        if let Some(http) = http.as_table() {
            ["url", "body"]
                .into_iter()
                .filter_map(|key| http.get(key))
                .for_each(|spot| refuse(&spot, problems));
            each_text(&http, "headers", problems);
        }
    }
    let words = table.get("command").and_then(|spot| spot.as_items()).into_iter().flatten();
    for spot in table.get("shell").into_iter().chain(words) {
        if spot.as_text().is_some_and(|text| text.contains("${credential:")) {
            let message = "found a credential in a command line, which everybody on the host can read; \
                           wanted the credential in env = { TOKEN = \"${credential:NAME}\" }";
            spot.fault(problems, message);
        }
    }
    if let Some(ping) = table.get("ping_url") {
        refuse(&ping, problems);
    }
    let others = NoticeKind::ASKED.into_iter().map(NoticeKind::as_str).chain(["done_check"]);
    for other in others.filter_map(|key| table.get(key)?.as_table()) {
        refuse_faulty_references(&other, problems);
    }
}

fn each_text(table: &TableReader<'_>, key: &str, problems: &mut Problems) {
    if let Some(inner) = table.get(key).and_then(|spot| spot.as_table()) {
        inner.entries().for_each(|(_, _, spot)| refuse(&spot, problems));
    }
}

fn refuse(spot: &Spot<'_>, problems: &mut Problems) {
    if let Some(Err(error)) = spot.as_text().map(secret_reference::check) {
        spot.fault_at(problems, error.offset(), error.to_string());
    }
}
