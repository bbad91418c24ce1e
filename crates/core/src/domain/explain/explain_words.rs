//! Phrases that several findings of `explain` use.

use std::fmt::Display;

use crate::domain::explain::facts::Facts;
use crate::domain::name::job_source::SourceName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::shown;
use schedd_schedule::time::zone::Zone;

/// Returns the text `before` followed by `value`. Returns an empty text if `value` is `None`.
pub(super) fn after(before: &str, value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| format!("{before}{value}"))
}

/// Returns the text ` by ana@host`, or an empty text if the user is not known.
pub(super) fn by(who: Option<&String>) -> String {
    after(" by ", who)
}

/// Returns the text ` from A to B`, or ` from A onwards` if the end is not known.
pub(super) fn from_to(from: UnixMillis, to: Option<UnixMillis>, zone: &Zone) -> String {
    match to {
        Some(to) => format!(" from {} to {}", shown(from, zone), shown(to, zone)),
        None => format!(" from {} onwards", shown(from, zone)),
    }
}

/// Returns the period from `from` to `to` as text: ` from A to B`, ` from A onwards` or ` until B`.
/// The text is empty if both times are not known.
pub(super) fn time_down(facts: &Facts, from: Option<UnixMillis>, to: Option<UnixMillis>) -> String {
    match from {
        Some(from) => from_to(from, to, &facts.local),
        None => after(" until ", to.map(|at| facts.shown(at))),
    }
}

/// Returns the jobs files of these sources as text, such as `the files of nodes n1 and n2`.
pub(super) fn files(sources: &[String]) -> String {
    let is_applied =
        |name: &String| name.parse().is_ok_and(|source: SourceName| source.is_applied());
    match sources {
        [node] if !is_applied(node) => format!("the file of node {node}"),
        nodes if !nodes.iter().any(is_applied) => format!("the files of nodes {}", list(nodes)),
        mixed => list(
            &mixed
                .iter()
                .map(|name| {
                    name.parse().map_or_else(|_| name.clone(), |source: SourceName| source.words())
                })
                .collect::<Vec<_>>(),
        ),
    }
}

/// Returns the names as a list in a sentence: `n1`, `n1 and n2`, `n1, n2 and n3`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
