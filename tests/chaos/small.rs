//! The small node: the last of them, of room for few runs at once, and the only one that may take some. So which run it takes next
//! is told by the order of their claims alone, and the checker can say of it what no node among others lets it say.
//!
//! Invariant: it serves no queue of runs that could be late for its fullness, but those that need its label.

use crate::evidence::{Micros, SECOND};
use crate::grounds::Footing;
use crate::jobs::{Act, Job};
use crate::schedule::When;
use crate::sharing::Sharing;

/// `max_running` of the small node.
pub(crate) const ROOM: usize = 3;
/// The label only the small node carries.
pub(crate) const SMALL: &str = "small";
/// The queue that comes before all others there.
pub(crate) const STRICT: &str = "urgent";
/// The queue whose runs differ in priority.
pub(crate) const RANKED: &str = "ranked";
/// Two queues and how many times the slots of the second the first gets.
pub(crate) const SHARES: (&str, &str, i64) = ("heavy", "light", 3);
/// Those it serves beside these, as all others do.
const SERVED: &str = "aside,crowd";

/// The queues, for `jobs.toml`.
pub(crate) fn queues() -> String {
    let (heavy, light, times) = SHARES;
    format!("[queues.{STRICT}]\nstrict = true\n[queues.{RANKED}]\n[queues.{heavy}]\nweight = {times}\n[queues.{light}]\n")
}

/// Makes this node the small one.
pub(crate) fn make(node: &mut Footing) {
    let (heavy, light, _) = SHARES;
    node.daemon = format!("max_running = {ROOM}\n");
    node.vars.push(("SCHEDD_LABELS".to_owned(), SMALL.to_owned()));
    node.vars.push(("SCHEDD_QUEUES".to_owned(), format!("{STRICT},{RANKED},{heavy},{light},{SERVED}")));
}

/// More than the small node has room for, which only it may take, due at `due` and just before: first those of the strict queue, so
/// that it is full; then one of the least priority, which only its age can bring on; then all others at one instant.
pub(crate) fn batch(number: usize, due: Micros) -> Vec<Job> {
    let due = due / 1000 * 1000;
    let mut jobs = Vec::new();
    let mut add = |queue: &'static str, priority: i64, count: usize, due: Micros| {
        for _ in 0..count {
            let sharing = Sharing { queue: Some(queue), priority, requires: Some(SMALL), ..Sharing::default() };
            let name = format!("small{number}-{queue}-{:02}", jobs.len());
            jobs.push(Job { sharing, ..Job::new(&name, Act::Work, 80).due(When::Once(due)).owed() });
        }
    };
    add(STRICT, 0, 8, due - SECOND / 10);
    add(RANKED, -10, 1, due - SECOND / 20);
    // Were priorities nothing, those named first would go first.
    add(RANKED, -5, 7, due);
    add(RANKED, 5, 10, due);
    add(SHARES.0, 0, 15, due);
    add(SHARES.1, 0, 7, due);
    jobs
}
