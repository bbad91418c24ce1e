//! A timetable whose next times are printed.

use schedd_schedule::names::JobName;
use schedd_schedule::timetable::Timetable;

/// A timetable whose next times are printed, with the job to which the timetable belongs.
pub(super) struct Planned {
    pub(super) job: Option<JobName>,
    pub(super) timetable: Timetable,
    /// A remark that is printed at each time, except at the times in `but_of`; `None` for no
    /// remark.
    pub(super) remark: Option<&'static str>,
    /// A timetable of the times that get no `remark`; `None` if every time gets the remark.
    pub(super) but_of: Option<Timetable>,
}
