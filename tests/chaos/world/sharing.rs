//! The things that jobs of the plan share: queues with a limit or a rate, keys, groups, `not_while`
//! rules, labels.
//! The nodes are configured from the same constants by which the checker judges.
//!
//! Invariant: no run waits for more than its [`Thing`]s name, so that the checker can say when it
//! had to begin.

use std::fmt::{self, Write as _};

use fastrand::Rng;

use super::grounds::Footing;
use super::jobs::{Act, Job};
use super::schedule::When;
use super::small;
use crate::evidence::{Micros, SECOND};

/// A rate: `count` runs in `seconds`, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: i64,
    pub(crate) seconds: i64,
    pub(crate) burst: i64,
}

impl Rate {
    /// Returns the time after which the rate admits one more run.
    pub(crate) fn interval(self) -> Micros {
        self.seconds * SECOND / self.count
    }

    /// Returns the most runs that may begin within an interval.
    pub(crate) fn most_within(self, length: Micros) -> i64 {
        self.burst + length / self.interval()
    }
}

/// The limit of the queue `narrow`, on all nodes together.
pub(crate) const NARROW: usize = 2;
/// The rate of the queue `paced`.
pub(crate) const PACED: Rate = Rate { count: 2, seconds: 1, burst: 3 };
/// The rate of the key `customer-2`.
const CUSTOMER: Rate = Rate { count: 10, seconds: 10, burst: 3 };
/// The members of the group `turns`, in their order, which differs from the order of their names
/// and due times.
pub(crate) const ORDER: [&str; 3] = ["turn-c", "turn-b", "turn-a"];
/// The group of jobs that are removed and added again, and of a job that keeps them waiting.
pub(crate) const READDING: &str = "readding";
/// The unique key of jobs that are added.
pub(crate) const INVOICE: &str = "invoice-7";
/// The gap between the end of a member and the next begin.
pub(crate) const GAP: Micros = SECOND / 2;
/// The time a turn waits for a member.
pub(crate) const PATIENCE: Micros = 2 * SECOND;
/// The label of all nodes but the last of them and the small one.
pub(crate) const LABEL: &str = "gpu";

/// The sharing rules of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sharing {
    pub(crate) queue: Option<&'static str>,
    pub(crate) priority: i64,
    pub(crate) requires: Option<&'static str>,
    pub(crate) group: Option<&'static str>,
    pub(crate) not_while: Option<&'static str>,
    pub(crate) key: Option<Key>,
    /// The unique key, of which there is one job at a time until it is over. Nobody waits for it: a
    /// second job is refused.
    pub(crate) unique: Option<&'static str>,
}

/// A key, and the limits that the job sets for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) at_once: usize,
    pub(crate) rate: Option<Rate>,
}

/// Something that runs share, so that one run may have to wait for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A queue with a limit or a rate.
    Queue(&'static str),
    Group(&'static str),
    /// The gate of a job beside which others must not run.
    Beside(&'static str),
    Key(&'static str),
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Beside(name) => write!(f, "not_while {name}"),
            Self::Key(name) => write!(f, "key {name}"),
        }
    }
}

impl Sharing {
    /// Returns what a run of the job `name` has to pass, in order. The queue comes last.
    pub(crate) fn things(&self, name: &str) -> Vec<Thing> {
        let beside = self.not_while.or((name == "backup").then_some("backup"));
        let queue = self.queue.filter(|queue| matches!(*queue, "narrow" | "paced"));
        let gates = [
            self.group.map(Thing::Group),
            beside.map(Thing::Beside),
            self.key.map(|key| Thing::Key(key.name)),
        ];
        gates.into_iter().chain([queue.map(Thing::Queue)]).flatten().collect()
    }

    /// Returns the rate of one of its things.
    pub(crate) fn rate_of(&self, thing: Thing) -> Option<Rate> {
        match thing {
            Thing::Queue("paced") => Some(PACED),
            Thing::Key(_) => self.key.and_then(|key| key.rate),
            _ => None,
        }
    }

    /// Returns its keys in `jobs.toml`.
    pub(crate) fn toml(&self) -> String {
        let mut text = String::new();
        let mut line =
            |key: &str, value: &dyn fmt::Display| writeln!(text, "{key} = {value}").unwrap();
        let quoted = |word: &str| format!("{word:?}");
        if let Some(queue) = self.queue {
            line("queue", &quoted(queue));
        }
        if self.priority != 0 {
            line("priority", &self.priority);
        }
        if let Some(label) = self.requires {
            line("requires", &format!("[{label:?}]"));
        }
        if let Some(group) = self.group {
            line("group", &quoted(group));
        }
        if let Some(other) = self.not_while {
            line("not_while", &format!("[{other:?}]"));
        }
        if let Some(Key { name, at_once, rate }) = self.key {
            line("key", &quoted(name));
            match rate {
                None => line("per_key", &at_once),
                Some(Rate { count, seconds, burst }) => {
                    line(
                        "per_key",
                        &format!(
                            "{{ limit = {at_once}, rate = \"{count}/{seconds}s\", burst = {burst} }}"
                        ),
                    );
                }
            }
        }
        text
    }
}

/// Returns the queues and groups of all tables.
pub(crate) fn head() -> String {
    let Rate { count, seconds, burst } = PACED;
    format!(
        "[queues.aside]\n[queues.narrow]\nlimit = {NARROW}\n[queues.paced]\nrate = \"{count}/{seconds}s\"\nburst = {burst}\n\
         [groups.alone]\nmode = \"exclusive\"\n[groups.{READDING}]\nmode = \"exclusive\"\n[groups.turns]\nmode = \"alternate\"\norder = {ORDER:?}\ngap = \"{}ms\"\n\
         turn_timeout = \"{}ms\"\n{}",
        GAP / 1000,
        PATIENCE / 1000,
        small::queues()
    )
}

/// Gives [`LABEL`] to all nodes but the last, or to the only node. Returns their names.
pub(crate) fn label(nodes: &mut [Footing]) -> Vec<String> {
    let few = (nodes.len() - 1).max(1);
    for node in &mut nodes[..few] {
        node.vars.push(("SCHEDD_LABELS".to_owned(), LABEL.to_owned()));
    }
    (1..=few).map(|number| format!("n{number}")).collect()
}

/// Returns the jobs of the file that share something.
pub(crate) fn zoo(rng: &mut Rng) -> Vec<Job> {
    let every = |period| When::Every { period, anchor: (0, 0) };
    let mut jobs = Vec::new();
    let mut add = |name: &str, work: i64, when: When, sharing: Sharing| {
        jobs.push(Job { sharing, ..Job::new(name, Act::Work, work).due(when) });
    };
    // Four jobs are due at once where two may run.
    for (number, priority) in [5, 0, 0, -5].into_iter().enumerate() {
        let sharing = Sharing { queue: Some("narrow"), priority, ..Sharing::default() };
        add(&format!("narrow-{number}"), rng.i64(500..1_200), When::Seconds(6), sharing);
    }
    let paced = Sharing { queue: Some("paced"), ..Sharing::default() };
    add("paced-cron", rng.i64(50..300), When::Seconds(4), paced);
    let key = |name, at_once, rate| Sharing {
        key: Some(Key { name, at_once, rate }),
        ..Sharing::default()
    };
    add("one-a", rng.i64(300..1_200), When::Seconds(4), key("customer-1", 1, None));
    add("one-b", rng.i64(300..1_200), every(rng.i64(3..6)), key("customer-1", 1, None));
    for number in 0..3 {
        add(
            &format!("two-{number}"),
            rng.i64(600..1_500),
            When::Seconds(5),
            key("customer-2", 2, Some(CUSTOMER)),
        );
    }
    // These jobs run in due order over two queues. One of them also has to pass a key while it has
    // its place in the group.
    let alone = Sharing { group: Some("alone"), ..Sharing::default() };
    add("alone-a", rng.i64(300..1_000), every(rng.i64(4..7)), alone.clone());
    add(
        "alone-b",
        rng.i64(300..1_000),
        When::Seconds(5),
        Sharing { queue: Some("aside"), ..alone.clone() },
    );
    add(
        "alone-both",
        rng.i64(200..600),
        every(rng.i64(6..9)),
        Sharing { group: Some("alone"), ..key("customer-1", 1, None) },
    );
    // The last two are due together, the first only every second time. The middle one is paused now
    // and then.
    for (name, step) in ORDER.into_iter().zip([10, 5, 5]) {
        add(
            name,
            rng.i64(200..500),
            When::Seconds(step),
            Sharing { group: Some("turns"), ..Sharing::default() },
        );
    }
    add("backup", rng.i64(800..2_000), every(rng.i64(5..8)), Sharing::default());
    for number in 0..2 {
        let sharing = Sharing { not_while: Some("backup"), ..Sharing::default() };
        add(&format!("report-{number}"), rng.i64(300..900), When::Seconds(3 + number), sharing);
    }
    add(
        "holding",
        rng.i64(1_000..2_000),
        When::Seconds(3),
        Sharing { group: Some(READDING), ..Sharing::default() },
    );
    add(
        "labelled",
        rng.i64(200..900),
        When::Seconds(3),
        Sharing { requires: Some(LABEL), ..Sharing::default() },
    );
    jobs
}
