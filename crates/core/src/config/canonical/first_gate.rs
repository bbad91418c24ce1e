//! The first gate that a stored definition names, read without the rest of the definition.
//!
//! A node looks for a run that can start. Before that run, thousands of runs may wait at a gate.
//! Parsing the full definition of each waiting run would take too long.
//!
//! Invariant: for a readable definition the result equals
//! [`crate::domain::job::job_spec::first_gate`] of the whole definition.

use serde::Deserialize;

use crate::domain::queue::gate::Gate;

/// The keys of a canonical definition that name gates.
#[derive(Deserialize)]
struct Named {
    group: Option<String>,
    #[serde(default)]
    not_while: Vec<String>,
    key: Option<String>,
}

/// Returns the first gate that the definition `text` names. Returns `None` if `text` names no gate
/// or is not a definition.
pub fn first_gate_in(text: &str) -> Option<Gate> {
    let Named { group, not_while, key } = serde_json::from_str(text).ok()?;
    let of_group = group.and_then(|name| Some(Gate::of_group(&name.parse().ok()?)));
    let of_job = || not_while.first().and_then(|name| Some(Gate::of_job(&name.parse().ok()?)));
    of_group.or_else(of_job).or_else(|| key.and_then(|key| Some(Gate::of_key(&key.parse().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{from_canonical, to_canonical};
    use crate::domain::job::job_spec::first_gate;

    #[test]
    fn it_is_the_first_gate_of_the_whole_definition() {
        for (text, wanted) in [
            (r#"{"shell":"true"}"#, None),
            (r#"{"key":"a \"b\" ü","shell":"true"}"#, Some("key:a%20%22b%22%20%C3%BC")),
            (r#"{"key":"k","not_while":["b","c"],"shell":"true"}"#, Some("job:b")),
            (r#"{"group":"g","key":"k","not_while":["b"],"shell":"true"}"#, Some("group:g")),
        ] {
            let spec = from_canonical(text).unwrap();
            let read = first_gate_in(&to_canonical(&spec));
            assert_eq!(
                (read.as_ref().map(Gate::as_str), &read),
                (wanted, &first_gate(&spec)),
                "{text}"
            );
        }
        assert_eq!(first_gate_in("no definition"), None);
    }
}
