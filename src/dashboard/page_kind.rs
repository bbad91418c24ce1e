//! The pages of the dashboard.

use std::time::Duration;

/// A page of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PageKind {
    /// The first page: what needs attention, and what runs next.
    Overview,
    /// The list of jobs.
    Jobs,
    /// One job.
    Job,
    /// The list of runs.
    Runs,
    /// One run.
    Run,
    /// The past and the coming runs by time.
    Timeline,
    /// The chains of jobs.
    Chains,
    /// The queues.
    Queues,
    /// The groups.
    Groups,
    /// The nodes.
    Nodes,
    /// The report of `doctor`.
    Doctor,
    /// The data losses of Redis.
    Losses,
    /// The routes of the HTTP API.
    Api,
    /// The choices of the reader: the zone of times, and the colours.
    Choices,
    /// The question before an action.
    Action,
}

impl PageKind {
    /// Returns true if one page serves all readers of its view. The form of an action has a key of its
    /// own.
    pub(super) fn is_shared(self) -> bool {
        self != Self::Action
    }

    /// Returns the shortest time between two readings of the page for open tabs while something always
    /// changes. The first page and the timeline read up to thousands of runs.
    pub(super) const fn least_share(self) -> Duration {
        Duration::from_millis(match self {
            Self::Overview | Self::Timeline => 5_000,
            _ => 500,
        })
    }

    /// Returns the time for which a page stays right while no job, run or queue changes. A reading
    /// of a list takes about a hundred commands, so only pages with facts that pass by themselves are
    /// read often: nodes write about themselves, and runs become ready in a queue.
    pub(super) const fn lifetime(self) -> Duration {
        Duration::from_secs(match self {
            // The page shows a report that is kept elsewhere, so it costs nothing.
            Self::Doctor => 2,
            Self::Nodes => 10,
            Self::Queues => 20,
            Self::Overview => 30,
            Self::Timeline => 60,
            // These change only with a job, a run, a queue, or the reader.
            Self::Jobs
            | Self::Job
            | Self::Runs
            | Self::Run
            | Self::Chains
            | Self::Groups
            | Self::Losses
            | Self::Api
            | Self::Choices => 600,
            // Made anew for each reader.
            Self::Action => 0,
        })
    }
}
