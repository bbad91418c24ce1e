//! The random name of a job that is added without a name.

use schedd_schedule::names::{IdError, JobName};

/// The maximum number of random names tried for one job. The first name is almost always free.
pub const DRAWS: usize = 8;
const NAME_LETTERS: usize = 10;

/// Returns a random name for a job without a name: `job-` and ten letters or digits.
pub fn draw_name() -> Result<JobName, IdError> {
    let letters: String = std::iter::repeat_with(|| fastrand::alphanumeric().to_ascii_lowercase())
        .take(NAME_LETTERS)
        .collect();
    format!("job-{letters}").parse()
}
