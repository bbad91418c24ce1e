//! The frame of all pages: the navigation, and the choices of the reader.

use super::assets::asset_path;
use super::page_clock::NowTag;
use super::page_link::{encoded, query};
use super::view_choices::{PageKeys, PageTheme, ViewChoices, ZoneChoice};
use crate::secrets::tokens::TokenRole;

/// The sections of the navigation: the path, the word, and the key that leads there after `g`.
const SECTIONS: [(&str, &str, &str); 11] = [
    ("", "Overview", "o"),
    ("jobs", "Jobs", "j"),
    ("runs", "Runs", "r"),
    ("timeline", "Timeline", "t"),
    ("chains", "Chains", "c"),
    ("queues", "Queues", "q"),
    ("groups", "Groups", "g"),
    ("nodes", "Nodes", "n"),
    ("doctor", "Doctor", "d"),
    ("losses", "Data loss", "l"),
    ("api", "API", "a"),
];

/// The frame of a page.
pub(super) struct Layout<'r> {
    /// The path before all routes.
    pub(super) base: &'r str,
    /// The path and the query of the page, without `base`.
    pub(super) address: &'r str,
    /// The path of the section to which the page belongs.
    pub(super) section: &'static str,
    /// The role of the reader. `None` for a reader who has not signed in, and gets no navigation.
    pub(super) role: Option<TokenRole>,
    pub(super) choices: &'r ViewChoices,
    /// The time of the page's documents. `None` if it has none.
    pub(super) now: Option<NowTag>,
}

impl Layout<'_> {
    pub(super) fn sections(&self) -> &'static [(&'static str, &'static str, &'static str)] {
        if self.role.is_some() { &SECTIONS } else { &[] }
    }

    /// Returns true if the reader may act.
    pub(super) fn may_act(&self) -> bool {
        self.role.is_some_and(|role| role.includes(TokenRole::Operator))
    }

    /// Returns true if the reader may tick the rows of the list of runs.
    pub(super) fn ticks_runs(&self) -> bool {
        self.may_act() && self.section == "runs"
    }

    /// Returns the address of the page that asks before the action with this word.
    pub(super) fn act(&self, word: &str, name: &str) -> String {
        let parameters = query(&[("name", name), ("back", self.address)]);
        format!("{}/act/{word}{parameters}", self.base)
    }

    /// Returns the address of an asset.
    pub(super) fn asset(&self, name: &str) -> String {
        format!("{}{}", self.base, asset_path(name))
    }

    /// Returns the address of the page as the value of a parameter.
    pub(super) fn encoded_address(&self) -> String {
        encoded(self.address)
    }

    /// Returns the word for the chosen colours.
    pub(super) fn theme(&self) -> &'static str {
        PageTheme::ALL
            .iter()
            .find(|(theme, _)| *theme == self.choices.theme)
            .map_or("", |(_, word)| word)
    }

    /// Returns the words for the zone of all times on the page.
    pub(super) fn zone(&self) -> String {
        match (self.choices.zone, &self.choices.own_zone) {
            (ZoneChoice::Own, Some(zone)) => zone.clone(),
            (ZoneChoice::Job, _) => "the zone of each job".to_owned(),
            _ => "UTC".to_owned(),
        }
    }

    /// Returns the choices of the zone: the word of the form, the label, and if it is chosen.
    pub(super) fn zones(&self) -> Vec<(&'static str, &'static str, bool)> {
        let label = |choice| match choice {
            ZoneChoice::Own => "Yours",
            ZoneChoice::Job => "Job's",
            ZoneChoice::Utc => "UTC",
        };
        ZoneChoice::ALL
            .into_iter()
            .map(|(choice, word)| (word, label(choice), choice == self.choices.zone))
            .collect()
    }

    /// Returns the choices of the colours: the word of the form, the label, and if it is chosen.
    pub(super) fn themes(&self) -> Vec<(&'static str, &'static str, bool)> {
        let label = |theme| match theme {
            PageTheme::System => "System",
            PageTheme::Light => "Light",
            PageTheme::Dark => "Dark",
        };
        PageTheme::ALL
            .into_iter()
            .map(|(theme, word)| (word, label(theme), theme == self.choices.theme))
            .collect()
    }

    /// Returns true if single keys do something. Without their script, no key does anything.
    pub(super) fn has_keys(&self) -> bool {
        self.choices.keys == PageKeys::On
    }

    /// Returns the choices of the keys: the word of the form, the label, and if it is chosen.
    pub(super) fn keys(&self) -> Vec<(&'static str, &'static str, bool)> {
        let label = |keys| match keys {
            PageKeys::On => "On",
            PageKeys::Off => "Off",
        };
        PageKeys::ALL
            .into_iter()
            .map(|(keys, word)| (word, label(keys), keys == self.choices.keys))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::SECTIONS;

    #[test]
    fn each_section_has_a_key_of_its_own() {
        let keys: BTreeSet<&str> = SECTIONS.iter().map(|(_, _, key)| *key).collect();
        assert_eq!(keys.len(), SECTIONS.len(), "{keys:?}");
        assert!(keys.iter().all(|key| key.len() == 1 && *key != "?" && *key != "/"), "{keys:?}");
    }
}
