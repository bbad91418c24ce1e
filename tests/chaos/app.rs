//! An app of the stage: a program with a handler of the Rust library, as a user would write it. It is
//! this program itself, started with `--app`.
//!
//! Invariant: the work of a run happens in this process, as that of any handler does. It reports in
//! the lines of `job.bash`. So whatever happens to the process happens to its handlers.

use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use schedd::{Client, ClientError, Run, RunningWorker};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::evidence::now;
use crate::worker::SLOTS;
use crate::world::pulled::{HANDLER, QUEUE};

/// The words of the log about an end that Redis refused.
pub(crate) const REFUSED: &str = "The result of the run was discarded";
/// The words of the log about a handler that was stopped because its lease was gone.
pub(crate) const STOPPED: &str = "The run lost its lease and was stopped";

/// The interval at which a handler at work reports, as `job.bash` does.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// The wait before the next try to start the worker, while Redis is out of reach.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The time in which a handler that was told to stop has to return.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The arguments of an app, after `--app`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct App<'a> {
    /// The directory of the stage.
    pub(crate) dir: &'a str,
    pub(crate) redis: &'a str,
    pub(crate) name: &'a str,
    /// The lease in seconds.
    pub(crate) lease: &'a str,
}

/// The state that the handlers of an app share.
struct Reports {
    app: String,
    effects: File,
}

/// Runs the app until SIGTERM, which lets its runs end, or SIGINT, which cancels them.
pub(crate) fn main(app: App<'_>) -> ExitCode {
    let log = tracing_subscriber::registry().with(LevelFilter::INFO).with(Log);
    log.init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match runtime.block_on(serve(app)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("app: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(app: App<'_>) -> Result<(), ClientError> {
    let mut term = signal(SignalKind::terminate()).unwrap();
    let mut interrupt = signal(SignalKind::interrupt()).unwrap();
    let Some(worker) = started(app, &mut term, &mut interrupt).await? else { return Ok(()) };
    tokio::select! {
        _ = term.recv() => worker.stop().await,
        _ = interrupt.recv() => worker.stop_now().await,
    }
    Ok(())
}

/// Starts the worker, and tries again while Redis is out of reach. Returns `None` after a signal.
async fn started(
    app: App<'_>,
    term: &mut Signal,
    interrupt: &mut Signal,
) -> Result<Option<RunningWorker>, ClientError> {
    loop {
        let tried = tokio::select! {
            tried = start(app) => tried,
            _ = term.recv() => return Ok(None),
            _ = interrupt.recv() => return Ok(None),
        };
        match tried {
            Ok(worker) => return Ok(Some(worker)),
            Err(error @ (ClientError::Unreachable(_) | ClientError::Failed(_))) => {
                warn!("The worker does not start yet: {error}.");
                tokio::time::sleep(TRY_AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn start(app: App<'_>) -> Result<RunningWorker, ClientError> {
    let effects = File::options().append(true).open(Path::new(app.dir).join("effects")).unwrap();
    schedd::Worker::on(Client::connect(app.redis).await?)
        .name(app.name)
        .queue(QUEUE, u32::try_from(SLOTS).unwrap())
        .lease(Duration::from_secs(app.lease.parse().unwrap()))
        .cancel_grace(CANCEL_GRACE)
        .state(Reports { app: app.name.to_owned(), effects })
        .handle(HANDLER, execute)
        .start()
        .await
}

/// Does what `job.bash` does with these words: `work MILLIS` or `fail-first MILLIS NUMBER`.
async fn execute(words: String, run: Run<Reports>) -> schedd::Result<()> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let (length, failing) = match words[..] {
        ["work", millis] => (millis.parse()?, 0),
        ["fail-first", millis, number] => (millis.parse()?, number.parse()?),
        _ => return Err(format!("no work for this handler: {words:?}").into()),
    };
    let attempt = Work { run, length: Duration::from_millis(length), failing };
    attempt.report("B", "-");
    attempt.run.print(format_args!("at work under fence {}", attempt.run.fence()));
    // Each form of a handler comes to a third of the attempts.
    match attempt.run.fence() % 3 {
        0 => attempt.until_dropped().await,
        1 => attempt.until_cancelled().await,
        _ => tokio::task::spawn_blocking(move || attempt.in_thread()).await?,
    }
}

/// The work of one attempt.
struct Work {
    run: Run<Reports>,
    length: Duration,
    /// The number of first attempts that fail.
    failing: u32,
}

impl Work {
    /// Works without a look at [`Run::cancelled`], so that only the library can stop it.
    async fn until_dropped(self) -> schedd::Result<()> {
        let mut left = self.left();
        while let Some(nap) = left() {
            tokio::time::sleep(nap).await;
            self.report("T", "-");
        }
        self.end()
    }

    /// Works until it is done or [`Run::cancelled`] resolves.
    async fn until_cancelled(self) -> schedd::Result<()> {
        let mut left = self.left();
        while let Some(nap) = left() {
            tokio::select! {
                () = self.run.cancelled() => return Err("stopped half-way".into()),
                () = tokio::time::sleep(nap) => self.report("T", "-"),
            }
        }
        self.end()
    }

    /// Works in a thread, which the library cannot stop, until it is done or cancelled.
    fn in_thread(self) -> schedd::Result<()> {
        let mut left = self.left();
        while let Some(nap) = left() {
            std::thread::sleep(nap);
            if self.run.is_cancelled() {
                return Err("stopped half-way".into());
            }
            self.report("T", "-");
        }
        self.end()
    }

    /// Returns the time until the next report, again and again until the work is done.
    fn left(&self) -> impl FnMut() -> Option<Duration> + use<> {
        let (began, length) = (std::time::Instant::now(), self.length);
        move || {
            let left = length.saturating_sub(began.elapsed());
            (!left.is_zero()).then(|| left.min(REPORT_EVERY))
        }
    }

    /// Reports the end and returns it. There is no `await` between, so that no drop parts them.
    fn end(&self) -> schedd::Result<()> {
        let has_failed = self.run.attempt() <= self.failing;
        self.report("E", if has_failed { "1" } else { "0" });
        if has_failed { Err("the first attempts fail".into()) } else { Ok(()) }
    }

    /// Appends a line in the form of `job.bash`.
    fn report(&self, word: &str, code: &str) {
        let Reports { app, effects } = self.run.state();
        let (id, attempt, fence) = (self.run.id(), self.run.attempt(), self.run.fence());
        let (pid, at) = (std::process::id(), now());
        let line = format!("{word} {id} {attempt} {fence} {app} {pid} {at} 0 {code} -\n");
        let mut file: &File = effects;
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// The log of an app: a line for each event, with the fields of its run.
struct Log;

/// The fields of a span as text.
struct SpanFields(String);

/// Writes fields behind a text.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = String::new();
        attributes.record(&mut Fields(&mut text));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanFields(text));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = format!("{} {}", now(), event.metadata().level());
        event.record(&mut Fields(&mut text));
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(SpanFields(of_span)) = span.extensions().get() {
                text.push_str(of_span);
            }
        }
        eprintln!("{text}");
    }
}
