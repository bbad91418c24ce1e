//! Whom a job tells of its runs: `on_failure` and its like, each an action as a job's own is.

use std::collections::BTreeMap;

use super::compile_action::{Keys, compile_action, refuse_oversize};
use super::keys;
use super::problem::Problems;
use super::reader::{Spot, Table};
use crate::domain::job::Action;
use crate::domain::notice::NoticeKind;

/// The method of a request that names none: it has a body, what is told unless another is given.
pub(super) const NOTICE_METHOD: &str = "POST";

/// What a table says of each kind: an action, or that nobody is told, whatever `[defaults]` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Notices(BTreeMap<NoticeKind, Notice>);

/// What a table says of one kind.
#[derive(Debug, Clone, PartialEq)]
enum Notice {
    Done(Action),
    Nobody,
}

impl Notice {
    fn action(self) -> Option<Action> {
        match self {
            Self::Done(action) => Some(action),
            Self::Nobody => None,
        }
    }
}

impl Notices {
    /// These, and `below` of the kinds they do not name.
    pub(super) fn over(self, below: &Self) -> Self {
        Self(below.0.clone().into_iter().chain(self.0).collect())
    }

    /// What is done of each kind.
    pub(super) fn into_actions(self) -> BTreeMap<NoticeKind, Action> {
        self.0.into_iter().filter_map(|(kind, notice)| Some((kind, notice.action()?))).collect()
    }
}

/// The notices `table` names.
pub(super) fn compile_notices(table: &Table<'_>, problems: &mut Problems) -> Notices {
    let named = NoticeKind::ALL.into_iter().filter_map(|kind| Some((kind, table.get(kind.as_str())?)));
    Notices(named.filter_map(|(kind, spot)| Some((kind, compile_notice(&spot, problems)?))).collect())
}

fn compile_notice(spot: &Spot<'_>, problems: &mut Problems) -> Option<Notice> {
    let wanted = "a table such as { shell = \"mail -s backup me\" } or { http = \"https://example.com/alert\" }, or false";
    if spot.is_flag() {
        return if spot.flag(problems)? { spot.wanted(problems, wanted) } else { Some(Notice::Nobody) };
    }
    let table = spot.table(wanted, problems)?;
    let faults_before = problems.faults.len();
    table.refuse_other_keys(&[keys::ACTION], &[], problems);
    let keys = if problems.faults.len() == faults_before { Keys::Known } else { Keys::Misspelt };
    let mut action = compile_action(&table, keys, problems)?;
    if let Action::Http(request) = &mut action
        && table.get("http").and_then(|http| http.as_table()).is_none_or(|http| http.get("method").is_none())
    {
        NOTICE_METHOD.clone_into(&mut request.method);
    }
    Some(Notice::Done(action))
}

/// Notes what the kernel would refuse to start.
pub(super) fn refuse_oversize_notices(table: &Table<'_>, notices: &BTreeMap<NoticeKind, Action>, problems: &mut Problems) {
    for (kind, action) in notices {
        if let Some(own) = table.get(kind.as_str()).and_then(|spot| spot.as_table()) {
            refuse_oversize(&own, action, &BTreeMap::new(), problems);
        }
    }
}
