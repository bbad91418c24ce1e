//! `add --stdin`: one job a line, added in batches in the order of the lines.
//!
//! At most [`AHEAD`] batches wait in memory for Redis, so memory is bounded for any input.
//!
//! Invariant: each line is reported once, as added or as refused. An added job stays added, even if
//! the reader of the output is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::add_flags::AddArgs;
use super::add_warnings::LineDoubts;
use super::added_job::AddResult;
use super::clock_skew;
use super::line_adder::{AddedLines, LineAdder};
use super::line_reader::{BATCH, Batch, read_batches};
use super::progress_bar::AddProgress;
use super::stored_doubts::stored_doubts;
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::{Console, JsonArray, rfc3339};
use crate::cli::state::node_presence::warn_if_none_runs;
use schedd::adding::AddPools;
use schedd_core::config::NamedJob;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The number of batches written to Redis at the same time. Redis then works on a batch while the
/// next batch is prepared.
const AT_ONCE: usize = 4;
/// The maximum number of batches that are read before they are written to Redis.
const AHEAD: usize = 8;

/// The exit code for jobs that are there, but on too few replicas.
const NOT_REPLICATED: u8 = 75;

/// Adds the jobs on standard input. Returns the exit code.
pub(super) async fn add_lines(
    global: &Global,
    args: &AddArgs,
    host_zone: Zone,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let lines = JobLines {
        input: match &global.request {
            Some(request) => request.take_input(),
            None => Box::new(std::io::stdin()),
        },
        replaces: args.replace,
        if_absent: args.if_absent,
        allows_past: true,
        form: ResultForm::Command,
    };
    add_from(store, lines, host_zone, console).await
}

/// Lines with one job each, and how they are added.
pub(crate) struct JobLines {
    /// The lines, as JSON.
    pub(crate) input: Box<dyn Read + Send>,
    /// True if a line may change an existing job.
    pub(crate) replaces: bool,
    /// True if a line for an existing job counts as added.
    pub(crate) if_absent: bool,
    /// True if a job whose time is past runs at once. Else such a line is refused.
    pub(crate) allows_past: bool,
    pub(crate) form: ResultForm,
}

/// The form of the results.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResultForm {
    /// The results of a command: accepted lines on standard output, refused lines on standard error.
    Command,
    /// A JSON object for each line on standard output, with the warnings about the line. The function
    /// returns the member `error` of a refused line.
    JsonLines(fn(CliFailure) -> Value),
}

/// Adds the jobs of lines. Returns the exit code.
pub(crate) async fn add_from(
    store: Store,
    lines: JobLines,
    host_zone: Zone,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let pools = async { AddPools::read(&store).await.map_err(CliFailure::from) };
    let (pools, (now, mut skew)) = tokio::try_join!(pools, clock_skew::ask_time(&store))?;
    let (sender, mut batches) = mpsc::channel(AHEAD);
    let zone = host_zone.clone();
    // The thread is not joined, because it may wait for input forever. It ends with the process.
    std::thread::spawn(move || read_batches(lines.input, &zone, &sender));
    let progress = AddProgress::new(console);
    let array = matches!(lines.form, ResultForm::Command).then(JsonArray::default);
    let asked = (now, Instant::now());
    let adder = Arc::new(LineAdder {
        replaces: lines.replaces,
        if_absent: lines.if_absent,
        allows_past: lines.allows_past,
        asked,
        pools,
        host_zone: host_zone.clone(),
    });
    let is_document = matches!(lines.form, ResultForm::JsonLines(_));
    let mut sheet = Sheet {
        asked,
        host_zone,
        form: lines.form,
        array,
        progress,
        doubts: if is_document { LineDoubts::by_line() } else { LineDoubts::default() },
        code: 0,
        added: 0,
        there: 0,
    };
    let mut outcome = Ok(());
    let mut under_way: VecDeque<UnderWay> = VecDeque::new();
    let mut next: Option<(Batch, Words)> = None;
    let mut is_open = true;
    loop {
        let is_free = |words: &Words| under_way.iter().all(|batch| batch.words.is_disjoint(words));
        if let Some((batch, words)) = next.take_if(|(_, words)| is_free(words)) {
            let (lines, bytes) = (batch.lines(), batch.consumed);
            let (adder, store) = (adder.clone(), store.clone());
            let task = tokio::spawn(async move {
                let results = adder.add(batch).await?;
                let stored = if is_document {
                    stored_doubts(&store, &results).await?
                } else {
                    BTreeMap::new()
                };
                Ok((results, stored))
            });
            under_way.push_back(UnderWay { words, lines, bytes, task });
        }
        let takes_more = is_open && next.is_none() && under_way.len() < AT_ONCE;
        tokio::select! {
            biased;
            ended = first_end(&mut under_way), if !under_way.is_empty() => {
                let Some(UnderWay { lines, bytes, .. }) = under_way.pop_front() else { continue };
                match ended {
                    Ok((results, stored)) => sheet.report(results, stored, console),
                    Err(failure) => {
                        is_open = false;
                        next = None;
                        outcome = outcome.and(Err(failure));
                    }
                }
                sheet.progress.add(lines, bytes);
            }
            first = batches.recv(), if takes_more => {
                let Some(first) = first else {
                    is_open = false;
                    continue;
                };
                let is_counted = first.jobs.iter().any(|(_, job)| job.start_in.is_some());
                if let Some(skew) = skew.take_if(|_| is_counted) {
                    console.warn(&skew);
                }
                let batch = gather(first, &mut batches);
                let words = words_of(&batch);
                next = Some((batch, words));
            }
            else => break,
        }
    }
    let doubts = std::mem::take(&mut sheet.doubts);
    drop(sheet.progress);
    if outcome.is_ok() {
        outcome = doubts.end(&store, console).await;
    }
    if let Some(array) = sheet.array.filter(|_| console.is_json()) {
        array.end(console);
    } else if sheet.there > 0 && !console.is_json() {
        console.note(&format!("{} added, {} existed already", sheet.added, sheet.there));
    }
    outcome?;
    // A document is made by a node, which runs.
    if !is_document {
        warn_if_none_runs(&store, console).await;
    }
    Ok(sheet.code)
}

/// Merges the first batch and the batches that are already available into a full batch.
fn gather(mut first: Batch, batches: &mut mpsc::Receiver<Batch>) -> Batch {
    // A batch of the reader has at most as many lines as a full batch.
    while first.lines() <= BATCH / 2
        && let Ok(next) = batches.try_recv()
    {
        first.append(next);
    }
    first
}

/// Waits until the first of the batches has been added.
async fn first_end(under_way: &mut VecDeque<UnderWay>) -> Result<Reported, CliFailure> {
    let Some(batch) = under_way.front_mut() else { return std::future::pending().await };
    match (&mut batch.task).await {
        Ok(results) => results,
        Err(error) => Err(CliFailure::Failed(format!("a batch of lines was not added: {error}"))),
    }
}

/// The names and unique keys in a batch. Batches that share one are added one after the other, so
/// that the later line wins.
type Words = BTreeSet<(&'static str, String)>;

/// A batch that is written to Redis.
struct UnderWay {
    words: Words,
    lines: usize,
    /// The bytes of input that the batch covers.
    bytes: u64,
    task: JoinHandle<Result<Reported, CliFailure>>,
}

/// The results of a batch, and warnings about its lines that depend on other data, by line number.
type Reported = (AddedLines, BTreeMap<usize, Vec<String>>);

/// The state of an `add --stdin`: its results so far.
struct Sheet {
    /// Redis' time, and the instant at which Redis reported that time.
    asked: (UnixMillis, Instant),
    host_zone: Zone,
    form: ResultForm,
    /// The array of all results. `None` if each result is a document of its own.
    array: Option<JsonArray>,
    progress: AddProgress,
    doubts: LineDoubts,
    /// The exit code of the command: 75 if the job of each refused line is stored, on too few replicas; 1
    /// if a line was refused for another reason; else 0.
    code: u8,
    added: usize,
    /// The number of lines whose name or unique key already belonged to another job.
    there: usize,
}

impl Sheet {
    fn report(
        &mut self,
        outcomes: AddedLines,
        mut stored: BTreeMap<usize, Vec<String>>,
        console: &mut Console,
    ) {
        // The bar is hidden while lines are printed.
        let Self { form, array, progress, doubts, code, added, there, host_zone, .. } = self;
        let now = self.asked.0.saturating_add(self.asked.1.elapsed());
        progress.aside(|| {
            for (line, what) in outcomes {
                let what = what.map(|(line_added, job)| {
                    if line_added.1 == "exists" {
                        *there += 1;
                    } else {
                        *added += 1;
                        doubts.warn(line, (&job, &line_added), (now, host_zone), console);
                    }
                    let due = line_added.2.filter(|_| console.is_json());
                    let due = due.map(|at| rfc3339(at, &zone_of_line(&job, host_zone)));
                    (line_added, due)
                });
                match what {
                    Err(why) => {
                        let own = if why.code() == NOT_REPLICATED { NOT_REPLICATED } else { 1 };
                        *code = if [0, own].contains(code) { own } else { 1 };
                        match form {
                            ResultForm::Command => {
                                console.error(&format!("line {line}: {}", why.lines().join("; ")));
                            }
                            ResultForm::JsonLines(error) => {
                                console.json(&json!({"line": line, "error": error(why)}));
                            }
                        }
                    }
                    Ok((added, due)) if console.is_json() => {
                        let warnings = matches!(form, ResultForm::JsonLines(_)).then(|| {
                            let mut warnings = doubts.take();
                            warnings.extend(stored.remove(&line).unwrap_or_default());
                            warnings
                        });
                        let document = LineResult::of(line, &added, due.as_deref(), warnings);
                        match array {
                            Some(array) => array.push(console, &document),
                            None => console.json(&document),
                        }
                    }
                    Ok(_) if console.is_quiet() => {}
                    Ok(((name, ..), _)) => console.line(name.as_str()),
                }
            }
            console.flush();
        });
    }
}

/// Returns the zone of a line's job: its `tz`, or else the zone of this host.
fn zone_of_line(job: &NamedJob, host_zone: &Zone) -> Zone {
    let own = job.spec.tz.as_ref().and_then(|name| Zone::load(name).ok());
    own.unwrap_or_else(|| host_zone.clone())
}

/// The JSON for one added job of `add --stdin`.
#[derive(Serialize)]
struct LineResult<'a> {
    line: usize,
    name: &'a str,
    next_due: Option<&'a str>,
    result: &'static str,
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
}

impl<'a> LineResult<'a> {
    fn of(
        line: usize,
        (name, result, due): &'a AddResult,
        next_due: Option<&'a str>,
        warnings: Option<Vec<String>>,
    ) -> Self {
        let run_id = due.map(|due| RunId::regular(name.clone(), due).to_string());
        Self { line, name: name.as_str(), next_due, result, run_id, warnings }
    }
}

fn words_of(batch: &Batch) -> Words {
    let name = |job: &NamedJob| job.name.as_ref().map(|name| ("name", name.to_string()));
    let key =
        |job: &NamedJob| job.spec.unique.as_ref().map(|unique| ("key", unique.key.to_string()));
    batch.jobs.iter().flat_map(|(_, job)| name(job).into_iter().chain(key(job))).collect()
}
