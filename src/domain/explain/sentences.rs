//! How a kind of findings is declared: each with a word for programs, and all the words in one list, so that a test can ask
//! for an example of each.

macro_rules! findings {
    (
        $(#[$about:meta])*
        $name:ident {
            $($(#[$doc:meta])* $code:literal $variant:ident $({ $($(#[$field_doc:meta])* $field:ident: $kind:ty),* $(,)? })?,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant $({ $($(#[$field_doc])* $field: $kind),* })?,)*
        }

        impl $name {
            /// The word of each finding there is.
            pub const CODES: &'static [&'static str] = &[$($code),*];

            /// The word for it, for programs.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)*
                }
            }
        }
    };
}

pub(super) use findings;

use crate::domain::source::SourceName;
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

/// ` by ana@host`, or nothing if nobody is known.
pub(super) fn by_words(by: Option<&String>) -> String {
    by.map_or_else(String::new, |by| format!(" by {by}"))
}

/// ` from A to B`, ` from A on`.
pub(super) fn stretch_words(from: UnixMillis, to: Option<UnixMillis>, zone: &Zone) -> String {
    match to {
        Some(to) => format!(" from {} to {}", shown(from, zone), shown(to, zone)),
        None => format!(" from {} on", shown(from, zone)),
    }
}

/// The files of these sources, in words.
pub(super) fn files(sources: &[String]) -> String {
    let is_applied = |name: &String| name.parse().is_ok_and(|source: SourceName| source.is_applied());
    match sources {
        [node] if !is_applied(node) => format!("the file of node {node}"),
        nodes if !nodes.iter().any(is_applied) => format!("the files of nodes {}", names(nodes)),
        mixed => names(
            &mixed
                .iter()
                .map(|name| name.parse().map_or_else(|_| name.clone(), |source: SourceName| source.words()))
                .collect::<Vec<_>>(),
        ),
    }
}

/// `n1`, `n1 and n2`, `n1, n2 and n3`.
pub(super) fn names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
