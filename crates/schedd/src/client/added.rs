//! The result of an add.

use std::time::SystemTime;

/// The result of an add: a job was created or changed, or exists already.
///
/// ```
/// # use schedd::{Added, AddedJob};
/// fn is_first(added: &Added) -> bool {
///     matches!(added, Added::Created(_))
/// }
/// # let _ = is_first;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Added {
    /// A new job.
    Created(AddedJob),
    /// An existing job, which has the new definition now. A debounced add changes the waiting job.
    Updated(AddedJob),
    /// An existing job, which stays as it is.
    Exists(AddedJob),
}

impl Added {
    /// Returns the job.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let added = client.add(Add::to("report", &()).name("report")).await?;
    /// assert_eq!(added.job().name, "report");
    /// # Ok(())
    /// # });
    /// ```
    pub fn job(&self) -> &AddedJob {
        match self {
            Self::Created(job) | Self::Updated(job) | Self::Exists(job) => job,
        }
    }
}

/// The name of an added job, and its planned run.
///
/// ```
/// # schedd::testing::block_on(async |bench| {
/// # let client = bench.client();
/// # use schedd::Add;
/// let added = client.add(Add::to("report", &())).await?;
/// assert!(added.job().run.is_some());
/// # Ok(())
/// # });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedJob {
    /// The name of the job.
    pub name: String,
    /// The time of the planned run. `None` if no run is planned.
    pub due: Option<SystemTime>,
    /// The id of the planned run, for [`Client::wait`](crate::Client::wait).
    pub run: Option<String>,
}
