//! A stretch of occurrences that passed, told in one record: without those that have records of their own, as runs have that a
//! journal gave back.
//!
//! Invariant: an occurrence whose run is on record is not counted as skipped too.

use crate::domain::lateness::{self, Stretch};
use crate::engine::definition::Definition;
use crate::store::{Store, StoreError};

/// What of `stretch` is not on record; none if all of it is.
pub(super) async fn unrecorded(store: &Store, definition: &Definition, stretch: Stretch) -> Result<Option<Stretch>, StoreError> {
    let known = store.recorded_within(&definition.record.name, stretch.first, stretch.last).await?;
    Ok(lateness::without(&definition.timetable, definition.since(), stretch, &known))
}
