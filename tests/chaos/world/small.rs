//! The small node: the last node, with room for few runs at once, and the only one that may take
//! some of them.
//! The order of its claims alone therefore shows which run it takes next. With other nodes beside
//! it the checker could not say that.
//!
//! Invariant: it serves no queue whose runs could be late because it is full, except those that
//! need its label.

use super::grounds::Footing;
use super::jobs::{Act, Job};
use super::schedule::When;
use super::sharing::Sharing;
use crate::evidence::{Micros, SECOND};

/// The `max_running` of the small node.
pub(crate) const ROOM: usize = 3;
/// The label that only the small node has.
pub(crate) const SMALL: &str = "small";
/// The strict queue, which comes before all others there.
pub(crate) const STRICT: &str = "urgent";
/// The queue whose runs differ in priority.
pub(crate) const RANKED: &str = "ranked";
/// Two queues, and the weight of the first: how many times the slots of the second it gets.
pub(crate) const SHARES: (&str, &str, i64) = ("heavy", "light", 3);
/// The queues that it serves besides these, as all other nodes do.
const SERVED: &str = "aside,crowd";

/// Returns the queues, for `jobs.toml`.
pub(crate) fn queues() -> String {
    let (heavy, light, times) = SHARES;
    format!(
        "[queues.{STRICT}]\nstrict = true\n[queues.{RANKED}]\n[queues.{heavy}]\nweight = {times}\n[queues.{light}]\n"
    )
}

/// Makes this node the small one.
pub(crate) fn make(node: &mut Footing) {
    let (heavy, light, _) = SHARES;
    node.daemon = format!("max_running = {ROOM}\n");
    node.vars.push(("SCHEDD_LABELS".to_owned(), SMALL.to_owned()));
    node.vars
        .push(("SCHEDD_QUEUES".to_owned(), format!("{STRICT},{RANKED},{heavy},{light},{SERVED}")));
}

/// Returns more runs than the small node has room for, which only it may take, due at `due` and
/// just before.
/// Runs of the strict queue come first, so that the node is full.
/// Then comes a run of the least priority, which only its age can bring forward; then all others at
/// the same time.
pub(crate) fn batch(number: usize, due: Micros) -> Vec<Job> {
    let due = due / 1000 * 1000;
    let mut jobs = Vec::new();
    let mut add = |queue: &'static str, priority: i64, count: usize, due: Micros| {
        for _ in 0..count {
            let sharing = Sharing {
                queue: Some(queue),
                priority,
                requires: Some(SMALL),
                ..Sharing::default()
            };
            let name = format!("small{number}-{queue}-{:02}", jobs.len());
            jobs.push(Job {
                sharing,
                ..Job::new(&name, Act::Work, 80).due(When::Once(due)).owed()
            });
        }
    };
    add(STRICT, 0, 8, due - SECOND / 10);
    add(RANKED, -10, 1, due - SECOND / 20);
    // Without priorities, these runs would go first because of their names.
    add(RANKED, -5, 7, due);
    add(RANKED, 5, 10, due);
    add(SHARES.0, 0, 15, due);
    add(SHARES.1, 0, 7, due);
    jobs
}
