//! What needs attention in a namespace, the worst first.

use std::time::Duration;

use crate::cli::embedded::QueueOverview;
use crate::cli::embedded::views::NamespaceView;
use crate::dashboard::documents::{JobDocument, LastRunDocument};
use crate::dashboard::page_clock::{DocumentTime, PageClock};
use crate::dashboard::page_link::query;
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time from which a ready run counts as late.
const LATE: Duration = Duration::from_secs(30);
/// The age up to which a data loss needs attention.
const RECENT_LOSS: Duration = Duration::from_secs(7 * 86_400);
/// The number of names that are shown for one item.
const SHOWN: usize = 8;

/// An item of the list.
pub(super) struct AttentionItem {
    /// `bad` or `warn`.
    pub(super) class: &'static str,
    pub(super) key: String,
    pub(super) words: ShownText,
    /// The path of the page that shows all of it.
    pub(super) path: String,
    /// The time since which it is so.
    pub(super) since: Option<DocumentTime>,
    pub(super) remark: Option<ShownText>,
    /// The first jobs that it is about.
    pub(super) jobs: Vec<FailingJob>,
}

/// A job whose last run failed.
pub(super) struct FailingJob {
    pub(super) path: String,
    pub(super) name: ShownText,
    /// The path of the failed run.
    pub(super) run: Option<String>,
    pub(super) state: Option<ShownText>,
    pub(super) at: Option<DocumentTime>,
}

impl AttentionItem {
    fn new(class: &'static str, key: &str, path: impl Into<String>, words: &str) -> Self {
        Self {
            class,
            key: key.to_owned(),
            words: ShownText::new(words),
            path: path.into(),
            since: None,
            remark: None,
            jobs: Vec::new(),
        }
    }

    fn since(self, at: Option<UnixMillis>) -> Self {
        Self { since: at.map(DocumentTime::of), ..self }
    }

    fn remark(self, remark: &str) -> Self {
        Self { remark: Some(ShownText::new(remark)), ..self }
    }
}

/// Returns what needs attention. `failing` are the jobs whose last run failed.
pub(super) fn attention(
    view: &NamespaceView,
    failing: &[JobDocument],
    clock: &PageClock,
) -> Vec<AttentionItem> {
    let now = clock.instant();
    let mut items = Vec::new();
    if view.present_nodes == 0 {
        let words = "No schedd runs in this namespace, so no run starts";
        items.push(AttentionItem::new("bad", "nobody", "/nodes", words));
    }
    if let Some(loss) = &view.last_loss
        && loss.at.is_none_or(|at| now.since(at) < RECENT_LOSS)
    {
        let words = format!("Redis lost data: {}, {} jobs gone", loss.what, loss.jobs_gone);
        items.push(AttentionItem::new("bad", "loss", "/losses", &words).since(loss.at));
    }
    if !failing.is_empty() {
        let words = counted(failing.len() as u64, "job fails", "jobs fail");
        let jobs = failing.iter().take(SHOWN).map(failing_job).collect();
        let item = AttentionItem::new("bad", "failing", "/jobs?failed=1", &words);
        let item = match failing.len().saturating_sub(SHOWN) {
            0 => item,
            more => item.remark(&format!("and {more} more")),
        };
        items.push(AttentionItem { jobs, ..item });
    }
    items.extend(view.queues.iter().flat_map(|queue| of_queue(queue, now)));
    for node in &view.gone_nodes {
        let item = AttentionItem::new(
            "warn",
            &format!("gone {}", node.name),
            "/nodes",
            &format!("Node {} is gone, seen last", node.name),
        );
        items.push(item.since(node.last_seen));
    }
    for node in &view.refusing_nodes {
        let key = format!("file {}", node.name);
        let words = format!("Node {} refuses its jobs file", node.name);
        let error = node.config_error.as_deref().unwrap_or_default();
        items.push(AttentionItem::new("bad", &key, "/nodes", &words).remark(error));
    }
    if view.counts.dead > 0 {
        let words = counted(view.counts.dead, "dead letter", "dead letters");
        let item = AttentionItem::new("warn", "dead", "/runs?dead=1", &words);
        items.push(item.remark("runs that failed for good, kept for a retry"));
    }
    if let Some(check) = view.check.as_ref().filter(|check| check.findings > 0) {
        let words = counted(check.findings, "finding", "findings");
        let words = format!("{words} of the background check of the data, which looked last");
        items.push(
            AttentionItem::new("warn", "findings", "/doctor", &words)
                .since(Some(check.at))
                .remark("Doctor checks all now"),
        );
    }
    items.sort_by_key(|item| item.class != "bad");
    items
}

fn failing_job(job: &JobDocument) -> FailingJob {
    let last = job.last_run.as_ref();
    FailingJob {
        path: job.path(),
        name: job.name.clone(),
        run: last.map(LastRunDocument::path),
        state: last.map(|run| run.state.clone()),
        at: last.and_then(|run| run.finished_at),
    }
}

fn of_queue(queue: &QueueOverview, now: UnixMillis) -> Vec<AttentionItem> {
    let name = queue.name.as_str();
    let item = |class, word: &str, words: &str| {
        AttentionItem::new(class, &format!("{word} {name}"), "/queues", words)
    };
    let mut items = Vec::new();
    for (why, runs) in &queue.untaken {
        let words = counted(*runs, "run waits", "runs wait");
        items.push(item("bad", "untaken", &format!("Queue {name}: {words}, {why}")));
    }
    let planned = queue.depth.scheduled;
    if queue.state == "unserved" && queue.untaken.is_empty() && planned > 0 {
        let words = counted(planned, "run is planned", "runs are planned");
        let words = format!("No node serves queue {name}, where {words}");
        let path = format!("/jobs{}", query(&[("queue", name)]));
        items.push(AttentionItem { path, ..item("warn", "unserved", &words) });
    }
    if queue.state == "wrong_type" {
        items.push(item("bad", "wrong", &format!("The data of queue {name} is damaged")));
    }
    let oldest = queue.depth.oldest.filter(|at| now.since(*at) >= LATE);
    if let (Some(oldest), true) = (oldest, queue.untaken.is_empty()) {
        let runs = counted(queue.depth.ready, "run is ready", "runs are ready");
        let words = format!("Queue {name} is late: {runs}, the oldest since");
        let late = item("warn", "late", &words).since(Some(oldest));
        items.push(match queue.state {
            "open" => late,
            state => late.remark(&format!("the queue is {}", state.replace('_', " "))),
        });
    }
    if let Some(backlog) = &queue.backlog {
        items.push(item("warn", "backlog", &format!("Queue {name} has a backlog: {backlog}")));
    }
    if let Some((node, why)) = queue.at_limit.first() {
        let words = format!("No node that serves queue {name} starts runs");
        items.push(item("warn", "limit", &words).remark(&format!("{node}: {why}")));
    }
    items
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_core::domain::queue::queue_rules::QueueSettings;
    use schedd_store::{QueueDepth, QueueRecord};

    fn items(ready: u64, waited: u64, state: &'static str) -> Vec<(String, Option<String>)> {
        let now = UnixMillis::new(1_800_000_000_000).unwrap();
        let oldest = Some(now.saturating_sub(Duration::from_secs(waited))).filter(|_| ready > 0);
        let queue = QueueOverview {
            name: "mail".parse().unwrap(),
            record: QueueRecord {
                settings: QueueSettings::default(),
                is_concurrency_by_hand: false,
                paused: None,
                set: None,
                unreadable: Vec::new(),
            },
            depth: QueueDepth { ready, oldest, scheduled: 5, ..QueueDepth::default() },
            state,
            nodes: 1,
            untaken: Vec::new(),
            at_limit: Vec::new(),
            backlog: None,
            oldest_wanted: None,
        };
        let texts = |item: AttentionItem| {
            (item.words.as_str().to_owned(), item.remark.map(|text| text.as_str().to_owned()))
        };
        of_queue(&queue, now).into_iter().map(texts).collect()
    }

    #[test]
    fn a_queue_needs_attention_once_its_runs_are_late() {
        assert!(items(3, 29, "open").is_empty());
        let late = ("Queue mail is late: 3 runs are ready, the oldest since".to_owned(), None);
        assert_eq!(items(3, 30, "open"), [late]);
        let paused = items(1, 60, "paused");
        assert_eq!(paused[0].1.as_deref(), Some("the queue is paused"));
        let unserved = items(0, 0, "unserved");
        assert_eq!(unserved[0].0, "No node serves queue mail, where 5 runs are planned");
    }
}
