//! Histories of what runs share, for the checker's test of itself.

use super::self_test::Expect;

pub(super) fn judge(_expect: Expect<'_>) {}
