//! What `schedctl backfill` has to do with an occurrence, in plain words.

use super::became::Became;
use super::sentences::by_words;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

impl Became {
    /// The sentence of one that says so; nothing of any other.
    pub(super) fn making_up(&self, zone: &Zone) -> String {
        match self {
            Self::ToMakeUp => "It waits to be made up for, as schedctl backfill asked.".to_owned(),
            Self::MadeUpBy { run, state } => format!("{run} makes up for it, as schedctl backfill asked: {state}."),
            Self::MadeUpDropped { by, at } => {
                format!("It was to be made up for; that was given up{} on {}.", by_words(by.as_ref()), shown(*at, zone))
            }
            _ => String::new(),
        }
    }
}
