//! The jobs of a trial: one kind for each promise.
//! Their periods and lengths come from the seed, and they are few enough for two cores.

use std::fmt::Write as _;
use std::path::Path;

use fastrand::Rng;
use serde_json::{Value, json};

use super::each_node;
use super::each_node::Nodes;
use super::pulled;
use super::schedule::{Phase, When};
use super::sharing;
use super::sharing::{INVOICE, Sharing};
use crate::evidence::{Micros, SECOND};

/// The prefix of a version number in the arguments of `job.bash`.
pub(crate) const VERSION: &str = "version-";
/// The slots of the queue `crowd` on each node.
pub(crate) const CROWD_SLOTS: usize = 4;

/// The queues whose one-shots are placed on shards, if the namespace has any.
const SPREAD: [&str; 3] = [DEFAULT, "crowd", pulled::QUEUE];
/// The queue of a job that names none.
const DEFAULT: &str = "default";

/// The jobs of the queue `aside`, which all nodes serve.
const ASIDE: [&str; 6] =
    ["long-cron", "replacing", "allowing", "failing", "daemonising", "orphaning"];

/// The overlap rule of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    Skip,
    Queue,
    Replace,
    Allow,
}

/// The action of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Works and succeeds.
    Work,
    /// The first attempts, of this number, fail.
    FailFirst(u32),
    /// Writes this many bytes of output.
    Flood(u64),
    /// Leaves a process behind that ignores TERM.
    Daemonise,
    /// Leaves such a process behind, and fails with another exit code than that process; this many
    /// times.
    Orphan(u32),
    /// Ignores TERM and works past its timeout.
    Deaf,
    /// Checks that it has no input and no terminal, and fails otherwise.
    Probe,
    /// Starts this many processes and leaves them behind.
    Fork(u32),
    /// Ends its first attempts with these codes; later attempts succeed.
    Exits(&'static [i32]),
    /// Works for this many milliseconds in each attempt after the first.
    Grow(u32),
    /// Kills its node in each attempt.
    Poison,
    /// Sends a request to the store at this URL.
    Post(String),
}

/// The failures that are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retried {
    Any,
    /// Failures with these codes.
    On(&'static [i32]),
    /// Failures with any other codes.
    NeverOn(&'static [i32]),
}

/// The attempts before which a job is asked whether its work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Never,
    /// All attempts but the first.
    OnRetry,
    Always,
}

/// A job as the test planned it.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each says one thing a job is or is not")]
pub(crate) struct Job {
    pub(crate) name: String,
    /// Its schedules, in the order of time.
    pub(crate) phases: Vec<Phase>,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: &'static str,
    pub(crate) is_at_most_once: bool,
    pub(crate) act: Act,
    /// The length of an attempt.
    pub(crate) work: Micros,
    /// The number of retries, each after `retry_delay`.
    pub(crate) retries: u32,
    pub(crate) retry_delay: Micros,
    /// True if the delay doubles with each failure.
    pub(crate) is_backing_off: bool,
    pub(crate) retried: Retried,
    pub(crate) check: Check,
    /// The time over which missed runs are spread.
    pub(crate) spread: Micros,
    /// The timeout of an attempt.
    pub(crate) timeout: Micros,
    /// True if it is in the queue `crowd`, which has few slots.
    pub(crate) is_in_crowd: bool,
    pub(crate) nodes: Nodes,
    /// True if workers execute it.
    pub(crate) is_pulled: bool,
    /// The things it shares with other jobs.
    pub(crate) sharing: Sharing,
    /// The most runs of a round of catching up; `None` for all.
    pub(crate) max_count: Option<i64>,
    /// False if its `add` was never acknowledged, so that it may exist or not.
    pub(crate) is_sure: bool,
    /// The end of its `add`; 0 for a job of the file.
    pub(crate) added: Micros,
    /// The version of its definition, if it is removed and added again.
    pub(crate) version: Option<u32>,
    /// The parents, after whose success it runs.
    pub(crate) after: Vec<String>,
}

impl Job {
    pub(crate) fn new(name: &str, act: Act, work_ms: i64) -> Self {
        Self {
            name: name.to_owned(),
            phases: Vec::new(),
            overlap: Overlap::Skip,
            catch_up: "latest",
            is_at_most_once: false,
            act,
            work: work_ms * 1000,
            retries: 0,
            retry_delay: SECOND,
            is_backing_off: false,
            retried: Retried::Any,
            check: Check::Never,
            spread: 0,
            timeout: 60 * SECOND,
            is_in_crowd: false,
            nodes: Nodes::Any,
            is_pulled: false,
            sharing: Sharing::default(),
            max_count: None,
            is_sure: true,
            added: 0,
            version: None,
            after: Vec::new(),
        }
    }

    pub(crate) fn due(mut self, when: When) -> Self {
        self.phases = vec![Phase {
            when,
            sure_from: Micros::MAX,
            sure_to: Micros::MAX,
            maybe_from: 0,
            maybe_to: Micros::MAX,
        }];
        self
    }

    /// Returns true if the job has a schedule.
    pub(crate) fn is_recurring(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.when, When::Seconds(_) | When::Every { .. }))
    }

    /// Returns true if it is placed on a shard, if the namespace has any.
    pub(crate) fn is_spread(&self) -> bool {
        let is_once = self.phases.first().is_some_and(|phase| matches!(phase.when, When::Once(_)));
        is_once && self.sharing.group.is_none() && SPREAD.contains(&self.queue())
    }

    /// Returns its queue.
    fn queue(&self) -> &'static str {
        if self.is_in_crowd { "crowd" } else { self.sharing.queue.unwrap_or(DEFAULT) }
    }

    /// Returns its program with arguments.
    pub(crate) fn command(&self, dir: &Path) -> Vec<String> {
        let words = self.words();
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        script(dir, &args)
    }

    /// Returns the arguments of `job.bash` after the directory.
    fn words(&self) -> Vec<String> {
        let (what, number) = match &self.act {
            Act::FailFirst(attempts) => ("fail-first", attempts.to_string()),
            Act::Flood(bytes) => ("flood", bytes.to_string()),
            Act::Daemonise => ("daemonise", String::new()),
            Act::Orphan(attempts) => ("orphan", attempts.to_string()),
            Act::Deaf => ("deaf", String::new()),
            Act::Probe => ("probe", String::new()),
            Act::Fork(count) => ("fork", count.to_string()),
            Act::Exits(codes) => {
                ("exits", codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            }
            Act::Grow(ms) => ("grow", ms.to_string()),
            Act::Poison => ("poison", String::new()),
            Act::Work | Act::Post(_) => ("work", String::new()),
        };
        let (work, version) = (
            (self.work / 1000).to_string(),
            self.version.map(|version| format!("{VERSION}{version}")),
        );
        [what.to_owned(), work, number].into_iter().chain(version).collect()
    }

    /// Returns true if a failure with this code is tried again while retries are left.
    pub(crate) fn is_retried_on(&self, code: i32) -> bool {
        match self.retried {
            Retried::Any => true,
            Retried::On(codes) => codes.contains(&code),
            Retried::NeverOn(codes) => !codes.contains(&code),
        }
    }

    /// Returns the delay after this many failures, at least one.
    pub(crate) fn waits_after(&self, failures: u32) -> Micros {
        if self.is_backing_off {
            self.retry_delay << failures.saturating_sub(1).min(10)
        } else {
            self.retry_delay
        }
    }

    /// Returns its table in `jobs.toml`.
    pub(crate) fn toml(&self, dir: &Path) -> String {
        let mut text = format!("[jobs.{}]\n", self.name);
        match self.phases.last().map(|phase| phase.when) {
            _ if !self.after.is_empty() => writeln!(text, "after = {:?}", self.after).unwrap(),
            Some(When::Seconds(step)) => writeln!(text, "cron = \"*/{step} * * * * *\"").unwrap(),
            Some(When::Every { period, .. }) => writeln!(text, "every = \"{period}s\"").unwrap(),
            _ => {}
        }
        match &self.act {
            Act::Post(url) => {
                writeln!(text, "http = {{ method = \"POST\", url = \"{url}\", body = \"{{}}\" }}")
                    .unwrap()
            }
            _ if self.is_pulled => {
                let (handler, payload) = (pulled::HANDLER, self.words().join(" "));
                writeln!(text, "handler = {handler:?}\npayload = {payload:?}").unwrap();
            }
            _ => writeln!(text, "command = {:?}", self.command(dir)).unwrap(),
        }
        let overlap = match self.overlap {
            Overlap::Skip => "\"skip\"",
            Overlap::Queue => "{ mode = \"queue\", max = 3 }",
            Overlap::Replace => "\"replace\"",
            Overlap::Allow => "\"allow\"",
        };
        let spread = if self.spread > 0 {
            format!(", spread = \"{}ms\"", self.spread / 1000)
        } else {
            String::new()
        };
        let catch_up = format!("{{ mode = \"{}\"{spread} }}", self.catch_up);
        writeln!(text, "overlap = {overlap}\ncatch_up = {catch_up}\nlate_after = \"3s\"").unwrap();
        text.push_str(&self.sharing.toml());
        if let Nodes::Each { at_once } = self.nodes {
            text.push_str("on = \"each-node\"\n");
            if let Some(at_once) = at_once {
                writeln!(text, "max_parallel = {at_once}").unwrap();
            }
        }
        if self.is_at_most_once {
            text.push_str("delivery = \"at-most-once\"\n");
        }
        if self.timeout != 60 * SECOND {
            writeln!(text, "timeout = \"{}ms\"", self.timeout / 1000).unwrap();
        }
        if self.retries > 0 {
            let (limit, delay) = (self.retries, self.retry_delay / 1000);
            let backoff = if self.is_backing_off { "exponential" } else { "fixed" };
            let codes = match self.retried {
                Retried::Any => String::new(),
                Retried::On(codes) => format!(", on = {codes:?}"),
                Retried::NeverOn(codes) => format!(", never_on = {codes:?}"),
            };
            writeln!(
                text,
                "retry = {{ limit = {limit}, delay = \"{delay}ms\", backoff = \"{backoff}\", jitter = false{codes} }}"
            )
            .unwrap();
        }
        let on = match self.check {
            Check::Never => return text,
            Check::OnRetry => "retry",
            Check::Always => "always",
        };
        writeln!(
            text,
            "done_check = {{ command = {:?}, on = \"{on}\" }}",
            script(dir, &["is-done", "0"])
        )
        .unwrap();
        text
    }

    /// Returns its line for `schedctl add --stdin`, if it is due once.
    pub(crate) fn json(&self, dir: &Path) -> Option<Value> {
        let When::Once(due) = self.phases.first()?.when else { return None };
        let at = jiff::Timestamp::from_microsecond(due).ok()?.to_string();
        let delivery = if self.is_at_most_once { "at-most-once" } else { "at-least-once" };
        let mut line = json!({
            "name": self.name, "at": at, "queue": self.queue(), "delivery": delivery, "timeout": "60s",
        });
        let Sharing { unique, priority, requires, .. } = &self.sharing;
        let action = if self.is_pulled {
            json!({"handler": pulled::HANDLER, "payload": self.words().join(" ")})
        } else {
            json!({
                "command": self.command(dir), "kill_grace": "1s",
                "env": {"CHAOS": dir.display().to_string()},
            })
        };
        if let (Some(line), Value::Object(action)) = (line.as_object_mut(), action) {
            line.extend(action);
            line.insert("priority".to_owned(), json!(priority));
            line.extend(unique.map(|key| ("unique".to_owned(), json!(key))));
            line.extend(requires.map(|label| ("requires".to_owned(), json!([label]))));
        }
        Some(line)
    }
}

/// Returns the program of all jobs, with these arguments.
fn script(dir: &Path, args: &[&str]) -> Vec<String> {
    let file = dir.join("job.bash").display().to_string();
    let all = ["/bin/bash", &file, &dir.display().to_string()];
    all.into_iter().chain(args.iter().copied()).map(str::to_owned).collect()
}

/// Returns the part that all tables have in common: short times, and a mark that every process of
/// the test carries.
pub(crate) fn head(dir: &Path, lease: Micros) -> String {
    format!(
        "[daemon]\nlease = \"{}s\"\ntick = \"100ms\"\nshutdown_grace = \"3s\"\n\
         [defaults]\ntimeout = \"60s\"\nkill_grace = \"1s\"\ntz = \"UTC\"\nenv = {{ CHAOS = \"{}\" }}\n\
         [queues.crowd]\nconcurrency = {CROWD_SLOTS}\n[queues.{}]\n{}",
        lease / SECOND,
        dir.display(),
        pulled::QUEUE,
        sharing::head()
    )
}

/// Returns the table of [`head`] and jobs for a namespace with this number of shards.
pub(crate) fn with_shards(text: &str, shards: u32) -> String {
    if shards == 0 {
        return text.to_owned();
    }
    let whole = format!("[redis]\nshards = {shards}\n[queues.{DEFAULT}]\n{text}");
    SPREAD.iter().fold(whole, |text, queue| {
        let section = format!("[queues.{queue}]\n");
        text.replacen(&section, &format!("{section}spread = true\n"), 1)
    })
}

/// Returns the jobs of the file.
pub(crate) fn zoo(rng: &mut Rng, url: &str) -> Vec<Job> {
    let cron = |rng: &mut Rng| When::Seconds([3, 4, 5, 6, 7][rng.usize(..5)]);
    let every = |period| When::Every { period, anchor: (0, 0) };
    let mut jobs = Vec::new();
    for number in 0..4 {
        jobs.push(Job::new(&format!("quick-{number}"), Act::Work, rng.i64(0..900)).due(cron(rng)));
    }
    for (number, catch_up) in ["skip", "latest", "all"].into_iter().enumerate() {
        let job = Job::new(&format!("caught-{catch_up}"), Act::Work, 200)
            .due(every(3 + i64::try_from(number).unwrap()));
        jobs.push(Job { catch_up, ..job });
    }
    // These jobs run longer than the lease, which is renewed meanwhile.
    jobs.push(Job::new("long", Act::Work, rng.i64(7_000..9_000)).due(every(rng.i64(9..14))));
    jobs.push(Job::new("long-cron", Act::Work, rng.i64(6_000..9_000)).due(When::Seconds(15)));
    // This job is so long and frequent that another node always has a run before one ends. A
    // process that is not stopped in time is therefore noticed.
    jobs.push(Job {
        overlap: Overlap::Allow,
        ..Job::new("longest", Act::Work, 19_000).due(every(5))
    });
    jobs.push(Job {
        catch_up: "all",
        spread: 4 * SECOND,
        ..Job::new("spread", Act::Work, 200).due(every(4))
    });
    jobs.push(Job {
        overlap: Overlap::Queue,
        ..Job::new("queueing", Act::Work, rng.i64(2_000..5_500)).due(When::Seconds(4))
    });
    jobs.push(Job {
        overlap: Overlap::Replace,
        ..Job::new("replacing", Act::Work, rng.i64(3_000..8_000)).due(every(6))
    });
    jobs.push(Job {
        overlap: Overlap::Allow,
        ..Job::new("allowing", Act::Work, rng.i64(2_000..6_000)).due(When::Seconds(4))
    });
    jobs.push(Job {
        is_at_most_once: true,
        ..Job::new("once-short", Act::Work, rng.i64(100..2_000)).due(cron(rng))
    });
    jobs.push(Job {
        is_at_most_once: true,
        ..Job::new("once-long", Act::Work, rng.i64(6_000..8_000)).due(every(10))
    });
    jobs.push(Job {
        retries: 3,
        ..Job::new("failing", Act::FailFirst(2), 300).due(every(rng.i64(8..12)))
    });
    // The first job is retried twice and then fails by a code that is not retried. The second is
    // retried unless its code forbids it.
    let backing_off = Job {
        retries: 5,
        retry_delay: SECOND / 2,
        is_backing_off: true,
        ..Job::new("by-code", Act::Exits(&[75, 75, 3]), 100)
    };
    jobs.push(Job { retried: Retried::On(&[75]), ..backing_off }.due(every(rng.i64(8..12))));
    let never = Job {
        retries: 2,
        retry_delay: SECOND / 2,
        ..Job::new("but-by-code", Act::Exits(&[1, 3]), 100)
    };
    jobs.push(Job { retried: Retried::NeverOn(&[3]), ..never }.due(every(rng.i64(8..12))));
    // A run killed before it is done is tried again; a run killed just after is not.
    let checked = Job {
        retries: 3,
        check: Check::OnRetry,
        ..Job::new("checked-retry", Act::FailFirst(1), rng.i64(300..900))
    };
    jobs.push(checked.due(every(rng.i64(4..7))));
    let checked = Job {
        retries: 3,
        check: Check::Always,
        ..Job::new("checked-always", Act::Work, rng.i64(300..3_000))
    };
    jobs.push(checked.due(every(rng.i64(4..7))));
    jobs.push(Job::new("daemonising", Act::Daemonise, 700).due(every(rng.i64(8..16))));
    jobs.push(Job {
        retries: 1,
        ..Job::new("orphaning", Act::Orphan(1), 200).due(every(rng.i64(9..13)))
    });
    jobs.push(Job {
        timeout: 2 * SECOND,
        ..Job::new("deaf", Act::Deaf, 60_000).due(every(rng.i64(10..14)))
    });
    jobs.push(Job::new("probing", Act::Probe, 100).due(every(rng.i64(7..11))));
    jobs.push(Job::new("flooding", Act::Flood(100_000_000), 100).due(When::Seconds(20)));
    for number in 0..3 {
        jobs.push(
            Job::new(&format!("posting-{number}"), Act::Post(url.to_owned()), 0).due(cron(rng)),
        );
    }
    jobs.push(Job::new("by-hand", Act::Work, 400).due(When::ByHand));
    jobs.push(Job::new("pausing", Act::Work, 300).due(When::Seconds(3)));
    jobs.push(Job::new("stopping", Act::Work, 9_000).due(every(12)));
    jobs.push(Job::new("edited", Act::Work, 200).due(When::Seconds(4)));
    // Jobs that leave processes behind, are retried, or are replaced run on the small node too.
    for job in jobs.iter_mut().filter(|job| ASIDE.contains(&&*job.name)) {
        job.sharing.queue = Some("aside");
    }
    jobs.extend(sharing::zoo(rng));
    // The faults of a seed do not depend on these jobs.
    jobs.extend(each_node::zoo(&mut rng.clone()));
    jobs.extend(pulled::zoo(&mut rng.clone()));
    jobs
}

/// Returns `count` jobs, each due once within two seconds from `due`.
pub(crate) fn burst(rng: &mut Rng, number: usize, count: usize, due: Micros) -> Vec<Job> {
    let one = |rng: &mut Rng, at: usize| {
        let due = (due + rng.i64(0..2_000) * 1000) / 1000 * 1000;
        let job = Job::new(&format!("burst{number}-{at}"), Act::Work, rng.i64(0..300))
            .due(When::Once(due));
        Job { is_at_most_once: rng.u32(..4) == 0, ..job }.owed()
    };
    (0..count).map(|at| one(rng, at)).collect()
}

/// Returns `count` jobs of the queue `paced`, all due at the same time.
pub(crate) fn paced(number: usize, count: usize, due: Micros) -> Vec<Job> {
    let sharing = Sharing { queue: Some("paced"), ..Sharing::default() };
    let one = |at| {
        Job::new(&format!("paced{number}-{at}"), Act::Work, 50)
            .due(When::Once(due / 1000 * 1000))
            .owed()
    };
    (0..count).map(|at| Job { sharing: sharing.clone(), ..one(at) }).collect()
}

/// Returns `count` jobs of one unique key, due one soon after the other. While one exists the
/// others are refused.
pub(crate) fn unique(number: usize, count: usize, due: Micros) -> Vec<Job> {
    let sharing = Sharing { unique: Some(INVOICE), ..Sharing::default() };
    let one = |at: usize| {
        let due = due / 1000 * 1000 + i64::try_from(at).unwrap_or(0) * SECOND / 4;
        Job::new(&format!("unique{number}-{at}"), Act::Work, 1_500).due(When::Once(due)).owed()
    };
    (0..count).map(|at| Job { sharing: sharing.clone(), ..one(at) }).collect()
}

/// Returns a job of the queue `crowd` with this due time.
pub(crate) fn crowded(name: &str, due: Micros) -> Job {
    Job {
        is_in_crowd: true,
        ..Job::new(name, Act::Work, 30).due(When::Once(due / 1000 * 1000)).owed()
    }
}

/// Returns a job with this due time that leaves `count` processes behind.
pub(crate) fn forking(name: &str, count: u32, due: Micros) -> Job {
    Job::new(name, Act::Fork(count), 1_000).due(When::Once(due / 1000 * 1000)).owed()
}

/// Returns the job that kills its node in each attempt.
pub(crate) fn poison(due: Micros) -> Job {
    Job::new("poison", Act::Poison, 60_000).due(When::Once(due / 1000 * 1000)).owed()
}

impl Job {
    /// Marks a one-shot as owed from the moment it is accepted.
    pub(crate) fn owed(mut self) -> Self {
        for phase in &mut self.phases {
            phase.sure_from = 0;
        }
        self
    }
}
