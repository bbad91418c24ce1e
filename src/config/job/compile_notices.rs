//! The notifications about a job's runs: `on_failure` and similar keys, each written like a job's
//! action.

use std::collections::BTreeMap;
use std::time::Duration;

use super::compile_action::{compile_action, refuse_oversize};
use super::compile_http::compile_url;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::config::syntax::typos::Slips;
use crate::domain::job::job_spec::{Action, JobSpec};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::ping::JOB;
use crate::domain::job::webhook::{MOST_SECRETS, SigningSecret};

/// The method of a notice's request that names no method. Such a request always has a body: the
/// body from the definition, else the notice's own body.
pub(crate) const NOTICE_METHOD: &str = "POST";

/// The value of one notification key.
#[derive(Debug, Clone, PartialEq)]
enum Notice {
    Done(Action),
    Nobody,
    /// The value has a fault, which was noted.
    Faulty,
}

impl Notice {
    fn action(self) -> Option<Action> {
        match self {
            Self::Done(action) => Some(action),
            Self::Nobody | Self::Faulty => None,
        }
    }
}

/// The value of `ping_url`.
#[derive(Debug, Clone, PartialEq)]
enum Pings {
    To(String),
    Off,
}

impl Pings {
    fn url(self) -> Option<String> {
        match self {
            Self::To(url) => Some(url),
            Self::Off => None,
        }
    }
}

const WITHIN: DurationBounds = DurationBounds::to_days(1, 365, "1s to 365 days", "10m");

/// The notification keys of a table. A key that the table does not name is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NoticeActions {
    actions: BTreeMap<NoticeKind, Notice>,
    must_start_within: Option<Duration>,
    must_finish_within: Option<Duration>,
    pings: Option<Pings>,
    webhook_secrets: Option<Vec<SigningSecret>>,
}

impl NoticeActions {
    /// Returns these keys. Each missing key is taken from `below`.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self {
            actions: below.actions.clone().into_iter().chain(self.actions).collect(),
            must_start_within: self.must_start_within.or(below.must_start_within),
            must_finish_within: self.must_finish_within.or(below.must_finish_within),
            pings: self.pings.or_else(|| below.pings.clone()),
            webhook_secrets: self.webhook_secrets.or_else(|| below.webhook_secrets.clone()),
        }
    }

    /// Returns the actions of the notices.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.actions.values().filter_map(|notice| match notice {
            Notice::Done(action) => Some(action),
            Notice::Nobody | Notice::Faulty => None,
        })
    }

    /// Returns true if a notice has a fault, so that its action is unknown.
    pub(crate) fn are_faulty(&self) -> bool {
        self.actions.values().any(|notice| *notice == Notice::Faulty)
    }

    /// Stores these keys in the definition `spec`.
    pub(crate) fn apply_to(self, spec: &mut JobSpec) {
        spec.notices = self.actions.into_iter().filter_map(|(kind, notice)| Some((kind, notice.action()?))).collect();
        spec.must_start_within = self.must_start_within;
        spec.must_finish_within = self.must_finish_within;
        spec.ping_url = self.pings.and_then(Pings::url);
        spec.webhook_secrets = self.webhook_secrets.unwrap_or_default();
    }
}

/// Compiles the notification keys of `table`.
pub(crate) fn compile_notices(table: &TableReader<'_>, problems: &mut Problems) -> NoticeActions {
    let named = NoticeKind::ASKED.into_iter().filter_map(|kind| Some((kind, table.get(kind.as_str())?)));
    NoticeActions {
        actions: named.map(|(kind, spot)| (kind, compile_notice(&spot, problems).unwrap_or(Notice::Faulty))).collect(),
        must_start_within: table.get("must_start_within").and_then(|spot| spot.duration(&WITHIN, problems)),
        must_finish_within: table.get("must_finish_within").and_then(|spot| spot.duration(&WITHIN, problems)),
        pings: table.get("ping_url").and_then(|spot| compile_ping_url(&spot, problems)),
        webhook_secrets: table.get("webhook_secret").and_then(|spot| compile_secrets(&spot, problems)),
    }
}

fn compile_ping_url(spot: &Spot<'_>, problems: &mut Problems) -> Option<Pings> {
    if spot.is_flag() {
        let wanted = "a URL such as \"https://hc-ping.com/UUID\", or false";
        return if spot.flag(problems)? { spot.wanted(problems, wanted) } else { Some(Pings::Off) };
    }
    let url = compile_url(spot, problems)?;
    // The text in `${...}` is a credential and is judged as such elsewhere.
    let unknown = url.match_indices('{').filter(|(at, _)| !url[..*at].ends_with('$')).find_map(|(at, _)| {
        let rest = &url[at..];
        rest.find('}').map(|end| &rest[..=end]).filter(|word| *word != JOB)
    });
    if let Some(word) = unknown {
        // Anything but a mere word may be part of what keeps the address secret.
        let is_word = word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'{' | b'_' | b'}'));
        let shown = if is_word { quoted(word) } else { "what stands in { }".to_owned() };
        problems.warning(&spot.path, spot.span(), format!("{shown} stands for nothing and is sent as it is, wanted {JOB}"));
    }
    Some(Pings::To(url))
}

fn compile_secrets(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<SigningSecret>> {
    const EXAMPLE: &str = "${credential:webhook-secret}";
    let Some(items) = spot.as_items() else { return Some(vec![spot.parsed(EXAMPLE, problems)?]) };
    let secrets: Vec<Option<SigningSecret>> = items.map(|item| item.parsed(EXAMPLE, problems)).collect();
    let secrets: Vec<SigningSecret> = secrets.into_iter().collect::<Option<_>>()?;
    if (1..=MOST_SECRETS).contains(&secrets.len()) {
        return Some(secrets);
    }
    spot.fault(problems, format!("found {} secrets, wanted 1 to {MOST_SECRETS}", secrets.len()));
    None
}

/// Notes a deadline of a job that has no `on_late`. `slips` are the unknown keys, because a slip
/// may be meant as `on_late`.
pub(crate) fn refuse_late_without_notice(
    table: &TableReader<'_>,
    notices: &NoticeActions,
    slips: &Slips,
    problems: &mut Problems,
) {
    let spot = table.get("must_start_within").or_else(|| table.get("must_finish_within"));
    let is_reported_to_nobody = matches!(notices.actions.get(&NoticeKind::Late), None | Some(Notice::Nobody));
    if let Some(spot) = spot.filter(|_| is_reported_to_nobody && !slips.are_of(&[NoticeKind::Late.as_str()])) {
        spot.fault(problems, "nobody would be told, wanted it together with on_late = { shell = \"mail -s late me\" }");
    }
}

fn compile_notice(spot: &Spot<'_>, problems: &mut Problems) -> Option<Notice> {
    let wanted = "a table such as { shell = \"mail -s backup me\" } or { http = \"https://example.com/alert\" }, or false";
    if spot.is_flag() {
        return if spot.flag(problems)? { spot.wanted(problems, wanted) } else { Some(Notice::Nobody) };
    }
    let table = spot.table(wanted, problems)?;
    let slips = table.refuse_other_keys(&[known_keys::ACTION], &[], problems);
    let mut action = compile_action(&table, &slips, problems)?;
    if let Action::Http(request) = &mut action
        && table.get("http").and_then(|http| http.as_table()).is_none_or(|http| http.get("method").is_none())
    {
        NOTICE_METHOD.clone_into(&mut request.method);
    }
    Some(Notice::Done(action))
}

/// Notes notices whose arguments the kernel would refuse.
pub(crate) fn refuse_oversize_notices(table: &TableReader<'_>, notices: &NoticeActions, problems: &mut Problems) {
    for (kind, notice) in &notices.actions {
        if let Notice::Done(action) = notice
            && let Some(own) = table.get(kind.as_str()).and_then(|spot| spot.as_table())
        {
            refuse_oversize(&own, action, &BTreeMap::new(), problems);
        }
    }
}
