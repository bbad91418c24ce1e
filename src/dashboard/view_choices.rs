//! The choices of a reader that hold for all pages: the zone of times, the colours, and the keys. They
//! are kept in cookies of the browser, so that they need no session and no storage.

use schedd_schedule::time::zone::Zone;

/// The cookie with the choice of the zone.
const ZONE: &str = "schedd_zone";
/// The cookie with the zone of the reader. `live.js` sets it too.
const OWN_ZONE: &str = "schedd_own_zone";
/// The cookie with the choice of the colours.
const THEME: &str = "schedd_theme";
/// The cookie with the choice of the keys.
const KEYS: &str = "schedd_keys";
/// The time for which a browser keeps a choice: a year, in seconds.
const KEPT_FOR: u32 = 31_536_000;

/// The zone in which times are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum ZoneChoice {
    /// The zone of the reader; UTC if it is not known.
    #[default]
    Own,
    /// The zone of each job.
    Job,
    /// UTC.
    Utc,
}

/// The colours of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum PageTheme {
    /// As the system of the reader is set.
    #[default]
    System,
    Light,
    Dark,
}

/// The keys without Ctrl or Alt that do something on a page. Dictation software presses such keys by
/// mistake, so a reader can switch them off (WCAG 2.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum PageKeys {
    #[default]
    On,
    Off,
}

impl ZoneChoice {
    /// The choices with their words in cookies and forms.
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::Own, "own"), (Self::Job, "job"), (Self::Utc, "utc")];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == word).map(|(choice, _)| choice)
    }
}

impl PageTheme {
    /// The choices with their words in cookies and forms.
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::System, "system"), (Self::Light, "light"), (Self::Dark, "dark")];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == word).map(|(choice, _)| choice)
    }
}

impl PageKeys {
    /// The choices with their words in cookies and forms.
    pub(crate) const ALL: [(Self, &'static str); 2] = [(Self::On, "on"), (Self::Off, "off")];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == word).map(|(choice, _)| choice)
    }
}

/// The choices of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ViewChoices {
    pub(crate) zone: ZoneChoice,
    /// The name of the zone of the reader, if it is known.
    pub(crate) own_zone: Option<String>,
    pub(crate) theme: PageTheme,
    pub(crate) keys: PageKeys,
}

impl ViewChoices {
    /// Returns the choices in these cookies. A cookie with another value counts as missing.
    pub(crate) fn of_cookies<'c>(cookies: impl Iterator<Item = (&'c str, &'c str)>) -> Self {
        let mut choices = Self::default();
        for (name, value) in cookies {
            match name {
                ZONE => choices.zone = ZoneChoice::named(value).unwrap_or_default(),
                OWN_ZONE => choices.own_zone = known_zone(value),
                THEME => choices.theme = PageTheme::named(value).unwrap_or_default(),
                KEYS => choices.keys = PageKeys::named(value).unwrap_or_default(),
                _ => {}
            }
        }
        choices
    }

    /// Returns the values of `Set-Cookie` for the fields `zone`, `own_zone`, `theme` and `keys` of a
    /// form. Unknown values change nothing.
    pub(crate) fn cookies_of(fields: &[(String, String)]) -> Vec<String> {
        let cookie = |(name, value): &(String, String)| {
            let (cookie, value) = match name.as_str() {
                "zone" => (ZONE, ZoneChoice::named(value).map(|_| value.clone())?),
                "own_zone" => (OWN_ZONE, known_zone(value)?),
                "theme" => (THEME, PageTheme::named(value).map(|_| value.clone())?),
                "keys" => (KEYS, PageKeys::named(value).map(|_| value.clone())?),
                _ => return None,
            };
            Some(format!("{cookie}={value}; Path=/; Max-Age={KEPT_FOR}; SameSite=Strict"))
        };
        fields.iter().filter_map(cookie).collect()
    }
}

/// Returns the name of the zone in its own spelling, or `None` if the system does not know it.
fn known_zone(name: &str) -> Option<String> {
    Zone::named(name).map(|zone| zone.name().as_str().to_owned())
}

/// Returns `text` if it is a path of this site with or without a query, else `/`. So a form leads
/// to no other site.
pub(crate) fn local_address(text: &str) -> &str {
    let is_local = text.starts_with('/')
        && !text.starts_with("//")
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { text } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cookies: &[(&str, &str)]) -> ViewChoices {
        ViewChoices::of_cookies(cookies.iter().copied())
    }

    #[test]
    fn cookies_with_other_values_count_as_missing() {
        let chosen = of(&[
            ("schedd_zone", "job"),
            ("schedd_theme", "dark"),
            ("schedd_keys", "off"),
            ("x", "y"),
        ]);
        assert_eq!((chosen.zone, chosen.theme), (ZoneChoice::Job, PageTheme::Dark));
        assert_eq!(chosen.keys, PageKeys::Off);
        assert_eq!(
            of(&[("schedd_own_zone", "europe/berlin")]).own_zone.as_deref(),
            Some("Europe/Berlin")
        );
        for odd in ["", "../etc/passwd", "<b>", "localtime"] {
            let names = ["schedd_zone", "schedd_own_zone", "schedd_theme", "schedd_keys"];
            let pairs = names.map(|name| (name, odd));
            assert_eq!(of(&pairs), ViewChoices::default(), "{odd}");
        }
    }

    #[test]
    fn a_form_sets_only_known_values() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = [
            field("zone", "utc"),
            field("theme", "x; Path"),
            field("own_zone", "UTC"),
            field("keys", "odd"),
            field("a", "b"),
        ];
        let cookies = ViewChoices::cookies_of(&fields);
        assert_eq!(cookies.len(), 2, "{cookies:?}");
        assert!(cookies[0].starts_with("schedd_zone=utc; "), "{cookies:?}");
    }

    #[test]
    fn a_form_leads_to_no_other_site() {
        for good in ["/", "/jobs?q=a%20b", "/a//b"] {
            assert_eq!(local_address(good), good);
        }
        for bad in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "jobs"]
        {
            assert_eq!(local_address(bad), "/", "{bad:?}");
        }
    }
}
