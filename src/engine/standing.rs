//! How a node stands, told without asking Redis: for the service manager that watches over the process.

use std::sync::Arc;
use std::time::Duration;

use super::reconciler::Wish;
use super::shared::{Phase, Shared};
use crate::keeper::BootInstant;

/// What looks at a running node, from any thread and without waiting.
#[derive(Clone)]
pub struct Glance {
    shared: Arc<Shared>,
    wish: Arc<Wish>,
}

/// How a node stands at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is stopping.
    pub is_stopping: bool,
    /// The jobs of its file; none if it has no file.
    pub jobs: Option<usize>,
    /// The runs it holds.
    pub running: usize,
    /// In how long the next run of the lanes it serves is ready; none if there is none.
    pub next: Option<Duration>,
    /// What is wrong, if anything is: Redis is away, or the file is not taken.
    pub trouble: Option<String>,
}

impl Glance {
    pub(super) fn new(shared: Arc<Shared>, wish: Arc<Wish>) -> Self {
        Self { shared, wish }
    }

    /// The loop this node cannot do without that should have come round longer than `by` ago, if there is one. Of a node that
    /// stops none is asked for: its loops end, and every wait of a stop has an end of its own.
    pub fn stuck(&self, by: Duration) -> Option<&'static str> {
        if self.shared.phase() == Phase::Running { self.shared.progress.stuck(BootInstant::now(), by) } else { None }
    }

    /// How it stands now.
    pub fn standing(&self) -> Standing {
        let shared = &self.shared;
        let of_file = Some(shared.config_error()).filter(|error| !error.is_empty());
        Standing {
            is_stopping: shared.phase() != Phase::Running,
            jobs: self.wish.jobs(),
            running: shared.holdings.all().len(),
            next: shared.progress.next(BootInstant::now()),
            trouble: shared.weather.trouble().or(of_file),
        }
    }
}
