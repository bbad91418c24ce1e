//! A page, as it is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha1_smol::Sha1;

use crate::dashboard::gzip::GzipOnce;

/// The beginning of the texts that change by themselves: distances from now.
const DISTANCE: &str = "<span class=\"rel\"";

/// A page that was just made.
#[derive(Debug)]
pub(in crate::dashboard) struct MadePage {
    pub(in crate::dashboard) html: String,
    /// The time for which the page stays right while nothing changes in the namespace.
    pub(in crate::dashboard) lifetime: Duration,
}

/// A page, as it is sent.
#[derive(Debug)]
pub(crate) struct PageSnapshot {
    pub(crate) html: Arc<str>,
    /// The entity tag (RFC 9110). Pages that differ only in distances from now have one tag. The tag
    /// is weak, because it is that of the compressed page too.
    pub(crate) etag: String,
    compressed: GzipOnce,
    made_at: Instant,
    pub(super) lifetime: Duration,
    /// The numbers of changes that were known when the page was made.
    pub(super) changes: u64,
    pub(super) own_changes: u64,
}

impl PageSnapshot {
    pub(super) fn new(page: MadePage, made_at: Instant, changes: u64, own_changes: u64) -> Self {
        let MadePage { html, lifetime } = page;
        let mut hash = Sha1::new();
        let mut rest = html.as_str();
        while let Some(at) = rest.find(DISTANCE) {
            hash.update(&rest.as_bytes()[..at]);
            rest = &rest[at..];
            rest = &rest[rest.find("</span>").unwrap_or(rest.len())..];
        }
        hash.update(rest.as_bytes());
        Self {
            etag: format!("W/\"{}\"", hash.digest()),
            html: html.into(),
            compressed: GzipOnce::default(),
            made_at,
            lifetime,
            changes,
            own_changes,
        }
    }

    /// Returns the page in compressed form.
    pub(crate) fn compressed(&self) -> Option<Arc<[u8]>> {
        self.compressed.of(self.html.as_bytes())
    }

    /// Returns true if the reader has this page. `known` is the value of `If-None-Match`: a list of
    /// tags, which are compared weakly (RFC 9110, section 13.1.2).
    pub(in crate::dashboard) fn is_known(&self, known: &str) -> bool {
        fn opaque(tag: &str) -> &str {
            tag.trim().trim_start_matches("W/")
        }
        known.split(',').any(|tag| opaque(tag) == opaque(&self.etag))
    }

    pub(super) fn age(&self) -> Duration {
        self.made_at.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(html: &str) -> PageSnapshot {
        let page = MadePage { html: html.to_owned(), lifetime: Duration::ZERO };
        PageSnapshot::new(page, Instant::now(), 0, 0)
    }

    #[test]
    fn only_a_distance_from_now_leaves_the_tag_as_it_is() {
        let page = |at: &str, distance: &str| {
            format!("<p>{at} <span class=\"rel\" data-at=\"1\">{distance}</span></p>")
        };
        let etag = |at, distance| snapshot(&page(at, distance)).etag;
        assert_eq!(etag("10:00", "in 5m"), etag("10:00", "in 4m 59s"));
        assert_ne!(etag("10:00", "in 5m"), etag("10:01", "in 5m"));
    }

    #[test]
    fn a_tag_is_known_in_each_form_that_a_proxy_may_give_it() {
        let page = snapshot("<p>");
        let strong = page.etag.trim_start_matches("W/").to_owned();
        for known in [&page.etag, &strong, &format!("\"x\", {strong}")] {
            assert!(page.is_known(known), "{known}");
        }
        assert!(!page.is_known("") && !page.is_known("W/\"x\""));
    }
}
