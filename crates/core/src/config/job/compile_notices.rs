//! The notifications about a job's runs: `on_failure` and similar keys, each written like a job's
//! action.

use serde_json::Value;

use super::compile_action::{ACTION, compile_action, write_action};
use super::compile_http::compile_url;
use crate::config::key::json_sheet::{Form, Sheet, text_or_list};
use crate::config::key::origin::Reading;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot};
use crate::domain::job::job_spec::{Action, JobSpec};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::ping::JOB;
use crate::domain::job::webhook::{MOST_SECRETS, SigningSecret};

/// The default method of the request that delivers a notice. Such a request always has a body,
/// either from the definition or made by schedd.
const NOTICE_METHOD: &str = "POST";

/// The wanted value of a notification key, for messages.
const WANTED: &str = "a table such as { shell = \"mail -s backup me\" } or { http = \"https://example.com/alert\" }, or false";

/// The bounds of `must_start_within` and `must_finish_within`.
pub(crate) const WITHIN: DurationBounds = DurationBounds::to_days(1, 365, "1s to 365 days", "10m");

/// Sets `url`, the address to ping, to the value at `spot`. The value `false` removes the address.
/// `None` means that a fault was noted.
pub(crate) fn read_ping_url(
    spot: &Spot<'_>,
    problems: &mut Problems,
    url: &mut Option<String>,
) -> Option<()> {
    *url = if spot.is_flag() {
        if spot.flag(problems)? {
            return spot.wanted(problems, "a URL such as \"https://hc-ping.com/UUID\", or false");
        }
        None
    } else {
        Some(compile_ping_url(spot, problems)?)
    };
    Some(())
}

fn compile_ping_url(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let url = compile_url(spot, problems)?;
    // The text in `${...}` is a credential, which `compile_references` checks.
    let unknown =
        url.match_indices('{').filter(|(at, _)| !url[..*at].ends_with('$')).find_map(|(at, _)| {
            let rest = &url[at..];
            rest.find('}').map(|end| &rest[..=end]).filter(|word| *word != JOB)
        });
    if let Some(word) = unknown {
        // A text in braces other than a plain word may be a secret part of the address, and is not
        // shown.
        let is_word =
            word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'{' | b'_' | b'}'));
        let shown = if is_word { quoted(word) } else { "a text in { }".to_owned() };
        problems.warning(
            &spot.path,
            spot.span(),
            format!("found {shown}, which schedd does not replace, wanted {JOB}"),
        );
    }
    Some(url)
}

/// Compiles the value of `webhook_secret`, the secrets that sign the job's requests and notices: a
/// text, or a list of texts. `None` means that a fault was noted.
pub(crate) fn compile_secrets(
    spot: &Spot<'_>,
    problems: &mut Problems,
) -> Option<Vec<SigningSecret>> {
    const EXAMPLE: &str = "${credential:webhook-secret}";
    let Some(items) = spot.as_items() else { return Some(vec![spot.parsed(EXAMPLE, problems)?]) };
    let secrets: Vec<Option<SigningSecret>> =
        items.map(|item| item.parsed(EXAMPLE, problems)).collect();
    let secrets: Vec<SigningSecret> = secrets.into_iter().collect::<Option<_>>()?;
    if (1..=MOST_SECRETS).contains(&secrets.len()) {
        return Some(secrets);
    }
    spot.fault(problems, format!("found {} secrets, wanted 1 to {MOST_SECRETS}", secrets.len()));
    None
}

/// Sets the action of notices of `kind` to the value at `spot`. The value `false` removes the
/// action. `None` means that a fault was noted.
pub(crate) fn read_notice(
    kind: NoticeKind,
    spot: &Spot<'_>,
    reading: &mut Reading<'_>,
    spec: &mut JobSpec,
) -> Option<()> {
    if spot.is_flag() {
        if spot.flag(reading.problems)? {
            return spot.wanted(reading.problems, WANTED);
        }
        spec.notices.remove(&kind);
    } else {
        spec.notices.insert(kind, compile_notice(spot, reading)?);
    }
    Some(())
}

fn compile_notice(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<Action> {
    let table = spot.table(WANTED, reading.problems)?;
    let slips = table.refuse_other_keys(&[ACTION], &[], reading.problems);
    let mut action = compile_action(&table, &slips, reading)?;
    if let Action::Http(request) = &mut action
        && table
            .get("http")
            .and_then(|http| http.as_table())
            .is_none_or(|http| http.get("method").is_none())
    {
        NOTICE_METHOD.clone_into(&mut request.method);
    }
    Some(action)
}

/// Returns the action of the notices of `kind` as JSON, null if there is none. The method POST, the
/// default of a notice, is left out.
pub(crate) fn write_notice(kind: NoticeKind, spec: &JobSpec) -> Value {
    let Some(action) = spec.notices.get(&kind) else { return Value::Null };
    let mut out = Sheet::default();
    write_action(action, |_| NOTICE_METHOD, &mut out);
    out.value()
}

/// Returns the signing secrets as JSON.
pub(crate) fn write_secrets(secrets: &[SigningSecret], form: Form) -> Value {
    match form {
        _ if secrets.is_empty() => Value::Null,
        Form::Stored => text_or_list(secrets.iter().map(|secret| secret.as_str().to_owned())),
        Form::Shown => secrets.iter().map(SigningSecret::shown).collect(),
    }
}
