//! `queue`: changes, pauses and resumes queues by hand. `queues`: lists the queues.

mod overview;
mod queue_depths;
mod tagged_runs;

use std::collections::BTreeSet;

use clap::Subcommand;
use serde_json::json;

pub(crate) use overview::{QueueOverview, QueuesArgs, queues, standings, standings_with_nodes};
pub(crate) use queue_depths::queue_depths;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::render::Console;
use super::shell::completion;
use schedd_core::config;
use schedd_schedule::names::QueueName;
use schedd_store::{QueueReply, QueueSwitch, Store, StoreError};

pub(crate) const QUEUE_HELP: &str = "\
Examples:
  schedctl queue set mail limit=5 rate=100/1m
  schedctl queue pause mail";

const SET_EXAMPLES: &str = "\
Examples:
  schedctl queue set mail limit=5 rate=100/1m
  schedctl queue set mail rate=none concurrency=8

Keys: concurrency (maximum number of running runs on each node), limit (maximum number of running
runs on all nodes together), rate (RUNS/DURATION that may start on all nodes together), burst
(maximum number of runs that start at one time under rate), weight or strict (the queue's share of a
node), warn_depth and warn_oldest (number of due runs, and age of the oldest of them, from which the
queue has a backlog), on_backlog (job that runs when a backlog begins). KEY=none removes a setting.
A change applies at once, and until [queues.X] of a jobs file is edited.";

const SWITCH_EXAMPLES: &str = "\
Examples:
  schedctl queue pause mail
  schedctl queue resume mail

Running runs continue. Runs that become due wait and start when the queue is resumed. Editing a jobs
file does not end a pause.";

/// The beginnings of settings that a shell offers.
const SETTINGS: &[&str] = &[
    "burst=",
    "concurrency=",
    "limit=",
    "on_backlog=",
    "rate=",
    "strict=true",
    "strict=false",
    "warn_depth=",
    "warn_oldest=",
    "weight=",
];

/// The change to make to a queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// Change the settings of a queue
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Name of the queue
        #[arg(add = completion::queues())]
        queue: String,
        /// The settings: limit=5, rate=100/1m, burst=20, concurrency=8, weight=3, strict=true;
        /// KEY=none removes a setting
        #[arg(required = true, value_name = "KEY=VALUE", add = completion::words(SETTINGS))]
        changes: Vec<String>,
    },
    /// Pause queues: no run of these queues starts
    #[command(after_help = SWITCH_EXAMPLES)]
    Pause {
        /// Names of queues
        #[arg(required = true, value_name = "QUEUE", add = completion::queues())]
        queues: Vec<String>,
    },
    /// Resume paused queues
    #[command(after_help = SWITCH_EXAMPLES)]
    Resume {
        /// Names of queues
        #[arg(required = true, value_name = "QUEUE", add = completion::queues())]
        queues: Vec<String>,
    },
}

/// Changes, pauses or resumes queues. Returns the exit code.
pub(crate) async fn queue(
    global: &Global,
    verb: &QueueVerb,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    match verb {
        QueueVerb::Set { queue, changes } => set(global, queue, changes, console).await,
        QueueVerb::Pause { queues } => switch(global, queues, QueueSwitch::Pause, console).await,
        QueueVerb::Resume { queues } => switch(global, queues, QueueSwitch::Resume, console).await,
    }
}

async fn set(
    global: &Global,
    queue: &str,
    changes: &[String],
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let queue = queue_name(queue)?;
    let mut pairs = Vec::new();
    for change in changes {
        let pair = change.split_once('=');
        let (key, value) = pair.ok_or_else(|| {
            CliFailure::Invalid(format!(
                "setting {change:?} has no =, wanted KEY=VALUE such as limit=5"
            ))
        })?;
        pairs.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    let joined = |problems: Vec<config::Problem>| {
        let joined: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliFailure::Invalid(joined.join("; "))
    };
    let store = connect(global, console).await?;
    let read = store.read_queue_settings(std::slice::from_ref(&queue)).await?;
    let read = read.into_iter().next().map(|record| record.settings).unwrap_or_default();
    let change = config::change_queue(&read, &pairs).map_err(joined)?;
    let places = places_of(&store, &queue).await?;
    let reply = store.set_queue(&queue, &change).await?;
    let mut silent = Vec::new();
    for shard in places.iter().skip(1) {
        if let Err(error) = shard.set_queue(&queue, &change).await {
            silent.push((shard, error));
        }
    }
    all_reached(&queue, &silent)?;
    match reply {
        QueueReply::Unknown => Err(no_such_queue(&store, &queue).await),
        QueueReply::Done | QueueReply::Already => {
            if console.is_json() {
                console.json(&json!({"queue": queue.as_str(), "result": "set"}));
            } else if !console.is_quiet() {
                console.line(&format!("queue {queue} set: {}", changes.join(" ")));
            }
            Ok(0)
        }
    }
}

async fn switch(
    global: &Global,
    names: &[String],
    to: QueueSwitch,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let names: Vec<QueueName> =
        names.iter().map(|text| queue_name(text)).collect::<Result<_, _>>()?;
    let store = connect(global, console).await?;
    let (mut worst, mut document) = (0, Vec::new());
    let (done, before) = match to {
        QueueSwitch::Pause => ("paused", "was already paused"),
        QueueSwitch::Resume => ("resumed", "was not paused"),
    };
    for name in names {
        let (result, sentence) = match switch_queue(&store, &name, to).await? {
            QueueReply::Done => (done, format!("queue {name} {done}")),
            QueueReply::Already => ("already", format!("queue {name} {before}")),
            QueueReply::Unknown => {
                worst = console.failure(&no_such_queue(&store, &name).await).max(worst);
                continue;
            }
        };
        if console.is_json() {
            document.push(json!({"queue": name.as_str(), "result": result}));
        } else if !console.is_quiet() {
            console.line(&sentence);
        }
    }
    if console.is_json() {
        console.json(&document);
    }
    Ok(worst)
}

/// Pauses or resumes a queue, in each place that has runs of the queue.
pub(crate) async fn switch_queue(
    home: &Store,
    queue: &QueueName,
    to: QueueSwitch,
) -> Result<QueueReply, CliFailure> {
    let places = places_of(home, queue).await?;
    let mut reply = home.switch_queue(queue, to).await?;
    let mut silent = Vec::new();
    for shard in places.iter().skip(1) {
        match shard.switch_queue(queue, to).await {
            Ok(QueueReply::Done) => reply = QueueReply::Done,
            // A shard without the queue has no runs of it.
            Ok(QueueReply::Already | QueueReply::Unknown) => {}
            Err(error) => silent.push((shard, error)),
        }
    }
    all_reached(queue, &silent)?;
    Ok(reply)
}

/// Fails if the change of a queue did not reach these shards. All others have the change.
fn all_reached(queue: &QueueName, silent: &[(&Store, StoreError)]) -> Result<(), CliFailure> {
    let Some((_, error)) = silent.first() else { return Ok(()) };
    let numbers: Vec<String> = silent
        .iter()
        .filter_map(|(shard, _)| shard.shard_number())
        .map(|it| it.to_string())
        .collect();
    Err(CliFailure::Unreachable(format!(
        "queue {queue} is changed but for shard {}, which does not answer ({error}); run the command again when it does",
        numbers.join(" and ")
    )))
}

/// Returns the places that may have runs of a queue: all for a spread queue, else only the namespace
/// itself.
async fn places_of(home: &Store, queue: &QueueName) -> Result<Vec<Store>, CliFailure> {
    let places = home.with_shards().await?;
    if places.len() > 1 && home.read_spread(&BTreeSet::from([queue.clone()])).await?.is_empty() {
        return Ok(vec![home.clone()]);
    }
    Ok(places)
}

fn queue_name(text: &str) -> Result<QueueName, CliFailure> {
    text.parse()
        .map_err(|error: schedd_schedule::names::IdError| CliFailure::Invalid(error.to_string()))
}

/// Returns the failure for a queue that no file declares. The message includes the nearest name.
async fn no_such_queue(store: &Store, queue: &QueueName) -> CliFailure {
    let known = match store.read_queues().await {
        Ok(known) => known,
        Err(error) => return error.into(),
    };
    let names = known.keys().map(QueueName::as_str).chain(["default"]);
    let hint = match config::nearest(queue.as_str(), names) {
        Some(meant) => format!("did you mean {meant}?"),
        None if queue.is_of_host() => {
            "the queue of a host exists only after its first run".to_owned()
        }
        None => "schedctl queues lists the queues".to_owned(),
    };
    CliFailure::NotFound(format!("no queue {queue} in namespace {}: {hint}", store.namespace()))
}
