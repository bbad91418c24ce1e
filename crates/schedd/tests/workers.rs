//! Workers within a program, each test on a Redis of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use schedd::testing::Bench;
use schedd::{Add, Added, Again, Client, ClientError, Run, RunEnd, RunOutcome, Stop, Worker};
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_core::domain::queue::shard_map::ShardMap;
use schedd_store::{Address, Keys, Section, SectionText, Store};
use serde::Deserialize;
use tokio::sync::{Notify, Semaphore};

/// Longer than any step takes.
const LONG: Duration = Duration::from_secs(60);

/// What a handler saw of its run: id, due time, idempotency key and time left.
type Seen = Arc<Mutex<Option<(String, SystemTime, String, Duration)>>>;

async fn end_of(client: &Client, add: Add) -> RunEnd {
    let added = client.add(add).await.unwrap();
    client.wait(added.job().run.as_deref().unwrap(), LONG).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_last_progress_of_a_handler_is_kept_with_its_run() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = Worker::on(client.clone()).handle("work", async |(): (), run: Run| {
        run.progress(10, "begun");
        run.progress(40, "half of the rows");
        Ok(())
    });
    let worker = worker.start().await.unwrap();
    let end = end_of(&client, Add::to("work", &())).await;
    worker.stop().await;
    let address = Address::parse(&bench.url()).unwrap();
    let store = Store::new(&address, Keys::new("schedd").unwrap()).unwrap();
    let record = store.read_run(&end.run.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(record.progress.unwrap().to_string(), "40 %: half of the rows");
    assert_eq!(store.read_output(&record.run, 1).await.unwrap(), None);
}

#[tokio::test]
async fn a_worker_and_a_client_serve_the_shards_of_the_namespace() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let address = Address::parse(&bench.url()).unwrap();
    let store = Store::new(&address, Keys::new("schedd").unwrap()).unwrap();
    store.record_shards(&ShardMap::Count(3)).await.unwrap();
    let queue = Section::Queue("mail".parse().unwrap());
    let spread = QueueSettings { is_spread: true, ..QueueSettings::default() };
    let source = SourceName::applied("test").unwrap();
    let text = SectionText::Queue(spread);
    store.declare_section(&source, &queue, Some(&text)).await.unwrap();
    let worker =
        Worker::on(client.clone()).queue("mail", 4).handle("work", async |(): (), _: Run| Ok(()));
    let worker = worker.start().await.unwrap();
    // The names are drawn, so that a shard without a job is as good as impossible.
    let adds = (0..100).map(|_| Add::to("work", &()).queue("mail"));
    let added = client.add_all(adds).await.unwrap();
    for added in added {
        let end = client.wait(added.unwrap().job().run.as_deref().unwrap(), LONG).await.unwrap();
        assert!(end.unwrap().is_success());
    }
    for place in store.with_shards().await.unwrap().into_iter().skip(1) {
        assert!(place.read_stats().await.unwrap().history > 0, "{place:?}");
    }
    let later = Add::to("work", &()).queue("mail").name("later").in_(Duration::from_secs(3_600));
    let added = client.add(later).await.unwrap();
    client.cancel_run(added.job().run.as_deref().unwrap()).await.unwrap();
    assert!(client.cancel("later").await.is_err(), "the job is over with its only run");
    worker.stop().await;
}

#[tokio::test]
async fn each_end_of_a_handler_has_its_outcome_and_its_reason() {
    #[derive(Deserialize)]
    struct Payload {
        list: Vec<u8>,
    }
    async fn work(what: String, _: Run) -> schedd::Result<()> {
        match what.as_str() {
            "ok" => Ok(()),
            "panic" => panic!("no {what}"),
            "stop" => Err(Stop::because("no address")),
            error => Err(std::io::Error::other(error.to_owned()).into()),
        }
    }
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = Worker::on(client.clone())
        .handle("work", work)
        .handle("typed", async |payload: Payload, _: Run| {
            assert!(payload.list.is_empty());
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let ends = [
        ("ok", RunOutcome::Succeeded, None),
        ("panic", RunOutcome::Failed, Some("the handler panicked: no panic")),
        ("disk full", RunOutcome::Failed, Some("disk full")),
    ];
    for (what, outcome, error) in ends {
        let end = end_of(&client, Add::to("work", &what)).await;
        assert_eq!((end.outcome, end.error.as_deref()), (outcome, error), "{what}");
    }
    let stopped = end_of(&client, Add::to("work", &"stop").retries(5)).await;
    assert_eq!((stopped.outcome, stopped.attempt), (RunOutcome::Failed, 1));
    assert_eq!(stopped.error.as_deref(), Some("no address"));
    let unfit = serde_json::json!({"list": [1, 2, "three"]});
    let end = end_of(&client, Add::to("typed", &unfit)).await;
    assert_eq!(end.outcome, RunOutcome::Failed);
    let error = end.error.unwrap();
    assert!(error.starts_with("the payload does not fit the handler at list[2]: "), "{error}");
    worker.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_is_retried_and_again_counts_no_attempt() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let starts = Arc::new(AtomicU32::new(0));
    let worker = Worker::on(client.clone())
        .state(starts.clone())
        .handle(
            "fail-twice",
            async |(): (), run: Run<Arc<AtomicU32>>| {
                if run.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
            },
        )
        .handle("later", async |(): (), run: Run<Arc<AtomicU32>>| {
            assert_eq!(run.attempt(), 1);
            match run.state().fetch_add(1, Ordering::Relaxed) {
                0 => Err(Again::after(Duration::ZERO)),
                1 => Err(Again::after(Duration::from_millis(100))),
                _ => Ok(()),
            }
        })
        .start()
        .await
        .unwrap();
    let delay = Duration::from_millis(100);
    let add = Add::to("fail-twice", &()).retries(2).retry_delay(delay);
    let end = end_of(&client, add).await;
    assert_eq!((end.outcome, end.attempt), (RunOutcome::Succeeded, 3));
    // Without a retry: `Again` needs none.
    let end = end_of(&client, Add::to("later", &())).await;
    assert_eq!((end.outcome, end.attempt), (RunOutcome::Succeeded, 1));
    assert_eq!(starts.load(Ordering::Relaxed), 3);
    worker.stop().await;
}

#[tokio::test]
async fn a_run_knows_its_facts_and_its_output_is_kept() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let seen = Arc::new(Mutex::new(None));
    let worker = Worker::on(client.clone())
        .name("mailer-1")
        .state::<Seen>(seen.clone())
        .handle("look", async |(): (), run: Run<Seen>| {
            run.progress(50, "half");
            let facts = (run.id().to_owned(), run.due(), run.idempotency_key(), run.time_left());
            *run.state().lock().unwrap() = Some(facts);
            assert!(run.fence() > 0 && run.deadline() > run.due());
            assert!(!run.is_cancelled() && run.traceparent().is_none());
            Ok(())
        })
        .start()
        .await
        .unwrap();
    assert_eq!(worker.name(), "mailer-1");
    let add = Add::to("look", &()).name("look-7").timeout(Duration::from_secs(100));
    let end = end_of(&client, add).await;
    assert_eq!(end.outcome, RunOutcome::Succeeded, "{end:?}");
    let (id, due, key, left) = seen.lock().unwrap().take().unwrap();
    assert_eq!(id, end.run);
    assert!(due <= end.at.unwrap());
    assert_eq!(key, format!("schedd:{id}"));
    assert!(left <= Duration::from_secs(100) && left > Duration::from_secs(10), "{left:?}");
    worker.stop().await;
}

#[tokio::test]
async fn a_cancelled_run_resolves_cancelled_and_ends_as_cancelled() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let begun = Arc::new(Notify::new());
    let worker = Worker::on(client.clone())
        .state(begun.clone())
        .handle("wait", async |(): (), run: Run<Arc<Notify>>| {
            run.state().notify_one();
            run.cancelled().await;
            Err("stopped half-way".into())
        })
        .start()
        .await
        .unwrap();
    let added = client.add(Add::to("wait", &())).await.unwrap();
    let run = added.job().run.clone().unwrap();
    begun.notified().await;
    client.cancel_run(&run).await.unwrap();
    let end = client.wait(&run, LONG).await.unwrap().unwrap();
    assert_eq!(end.outcome, RunOutcome::Cancelled);
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_over_its_time_is_dropped_and_timed_out() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = Worker::on(client.clone())
        .cancel_grace(Duration::ZERO)
        .handle("hang", async |(): (), _: Run| {
            std::future::pending::<()>().await;
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let add = Add::to("hang", &()).timeout(Duration::from_millis(200));
    let end = end_of(&client, add).await;
    assert_eq!(end.outcome, RunOutcome::TimedOut);
    let error = end.error.unwrap();
    assert_eq!(error, "the attempt exceeded its timeout of 200ms");
    worker.stop().await;
}

#[tokio::test]
async fn a_stop_waits_for_handlers_and_gives_back_what_does_not_end() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let begun = Arc::new(Semaphore::new(0));
    let release = Arc::new(Notify::new());
    let worker = |grace| {
        let state = (begun.clone(), release.clone());
        let worker =
            Worker::on(client.clone()).grace(grace).cancel_grace(Duration::ZERO).state(state);
        worker.handle("work", async |(): (), run: Run<(Arc<Semaphore>, Arc<Notify>)>| {
            let (begun, release) = run.state();
            begun.add_permits(1);
            release.notified().await;
            Ok(())
        })
    };
    let first = worker(LONG).start().await.unwrap();
    let added = client.add(Add::to("work", &())).await.unwrap();
    begun.acquire().await.unwrap().forget();
    let ((), ()) = tokio::join!(first.stop(), async { release.notify_one() });
    let run = added.job().run.as_deref().unwrap();
    let end = client.wait(run, LONG).await.unwrap().unwrap();
    assert_eq!(end.outcome, RunOutcome::Succeeded);

    let second = worker(Duration::ZERO).start().await.unwrap();
    let added = client.add(Add::to("work", &())).await.unwrap();
    begun.acquire().await.unwrap().forget();
    second.stop().await;
    // The run was given back, and starts again elsewhere with the same attempt.
    let third = worker(LONG).start().await.unwrap();
    begun.acquire().await.unwrap().forget();
    release.notify_one();
    let run = added.job().run.as_deref().unwrap();
    let end = client.wait(run, LONG).await.unwrap().unwrap();
    assert_eq!((end.outcome, end.attempt), (RunOutcome::Succeeded, 1));
    third.stop().await;
}

/// The state of the handlers that lose their lease.
#[derive(Default)]
struct OnLease {
    starts: AtomicU32,
    steps: AtomicU32,
    is_at_work: AtomicBool,
}

impl OnLease {
    /// Returns true in the first attempt, which is at work from now on. Fails in a later attempt while
    /// the first is at work.
    fn begins_first(&self) -> schedd::Result<bool> {
        if self.starts.fetch_add(1, Ordering::SeqCst) > 0 {
            let is_alone = !self.is_at_work.load(Ordering::SeqCst);
            return if is_alone { Ok(false) } else { Err("two attempts at once".into()) };
        }
        self.is_at_work.store(true, Ordering::SeqCst);
        Ok(true)
    }
}

/// Returns the end of a run whose first attempt is made while the whole program stands still for
/// longer than its lease, as when the process is stopped.
async fn end_of_stopped_program<W>(
    state: &Arc<OnLease>,
    handler: impl Fn((), Run<Arc<OnLease>>) -> W + Send + Sync + 'static,
) -> RunEnd
where
    W: Future<Output = schedd::Result<()>> + Send + 'static,
{
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = Worker::on(client.clone())
        .lease(Duration::from_secs(1))
        .state(state.clone())
        .handle("work", handler)
        .start()
        .await
        .unwrap();
    // Not at once, so that the answer to the add comes before the program stands still.
    let soon = Add::to("work", &()).in_(Duration::from_millis(500));
    let added = client.add(soon).await.unwrap();
    let run = added.job().run.as_deref().unwrap();
    let end = loop {
        match client.wait(run, LONG).await {
            Ok(end) => break end.unwrap(),
            // A question that was under way while the program stood still.
            Err(ClientError::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    worker.stop().await;
    end
}

#[tokio::test]
async fn a_handler_makes_no_step_after_its_lease_while_the_program_stood_still() {
    let state = Arc::new(OnLease::default());
    let end = end_of_stopped_program(&state, async |(), run| {
        if run.state().starts.fetch_add(1, Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1_500));
            tokio::task::yield_now().await;
            run.state().steps.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    })
    .await;
    assert_eq!((end.outcome, end.attempt), (RunOutcome::Succeeded, 2));
    assert_eq!(state.steps.load(Ordering::SeqCst), 0, "it went on after its lease");
}

#[tokio::test]
async fn a_run_that_lost_its_lease_waits_for_the_threads_of_its_handler() {
    let state = Arc::new(OnLease::default());
    let end = end_of_stopped_program(&state, async |(), run| {
        let state = run.state().clone();
        if !state.begins_first()? {
            return Ok(());
        }
        let thread = tokio::task::spawn_blocking(move || {
            while !run.is_cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The time until a thread looks.
            std::thread::sleep(Duration::from_millis(400));
            run.state().is_at_work.store(false, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(1_500));
        Ok(thread.await?)
    })
    .await;
    assert_eq!((end.outcome, end.error), (RunOutcome::Succeeded, None));
    assert_eq!(state.starts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_attempt_after_a_timeout_waits_for_the_threads_of_the_handler() {
    let (bench, state) = (Bench::start().await.unwrap(), Arc::new(OnLease::default()));
    let worker = Worker::on(bench.client())
        .cancel_grace(Duration::from_millis(100))
        .state(state.clone())
        .handle("work", async |(): (), run: Run<Arc<OnLease>>| {
            let state = run.state().clone();
            if !state.begins_first()? {
                return Ok(());
            }
            let thread = tokio::task::spawn_blocking(move || {
                // It does not look whether it is cancelled.
                std::thread::sleep(Duration::from_secs(4));
                run.state().is_at_work.store(false, Ordering::SeqCst);
            });
            Ok(thread.await?)
        })
        .start()
        .await
        .unwrap();
    let add = Add::to("work", &()).timeout(Duration::from_secs(1)).retries(1);
    let end = end_of(&bench.client(), add.retry_delay(Duration::from_millis(100))).await;
    assert_eq!((end.outcome, end.error, end.attempt), (RunOutcome::Succeeded, None, 2));
    worker.stop().await;
}

#[tokio::test]
async fn a_panic_before_the_work_of_a_handler_fails_the_attempt() {
    struct Bad;
    impl<'de> serde::Deserialize<'de> for Bad {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("no such payload")
        }
    }
    let bench = Bench::start().await.unwrap();
    let is_broken = std::hint::black_box(true);
    let worker = Worker::on(bench.client())
        .handle("at-once", move |(): (), _: Run| {
            assert!(!is_broken, "no such handler");
            async { Ok(()) }
        })
        .handle("payload", async |_: Bad, _: Run| Ok(()))
        .start()
        .await
        .unwrap();
    for (handler, reason) in [("at-once", "no such handler"), ("payload", "no such payload")] {
        let end = end_of(&bench.client(), Add::to(handler, &())).await;
        let error = format!("the handler panicked: {reason}");
        assert_eq!((end.outcome, end.error), (RunOutcome::Failed, Some(error)));
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_that_gives_up_after_its_timeout_gets_no_retry_and_long_reasons_are_cut() {
    let bench = Bench::start().await.unwrap();
    let worker = Worker::on(bench.client())
        .handle("give-up", async |(): (), run: Run| {
            run.cancelled().await;
            Err(Stop::because("it is broken"))
        })
        .handle("long", async |(): (), _: Run| Err("e".repeat(100_000).into()))
        .handle("again", async |(): (), _: Run| Err(Again::after(Duration::from_millis(100))))
        .start()
        .await
        .unwrap();
    let add = Add::to("give-up", &()).timeout(Duration::from_secs(1)).retries(5);
    let end = end_of(&bench.client(), add).await;
    assert_eq!((end.outcome, end.attempt), (RunOutcome::TimedOut, 1));
    let end = end_of(&bench.client(), Add::to("long", &())).await;
    assert_eq!(end.error.map(|error| error.len()), Some(8_192));
    let once = Add::to("again", &()).set("delivery", "at-most-once");
    assert_eq!(end_of(&bench.client(), once).await.outcome, RunOutcome::Lost);
    worker.stop().await;
}

#[tokio::test]
async fn slots_and_concurrency_keys_bound_the_handlers_at_once() {
    #[derive(Default)]
    struct Counts {
        now: AtomicU32,
        most: AtomicU32,
    }
    async fn work(_: u32, run: Run<Counts>) -> schedd::Result<()> {
        let now = run.state().now.fetch_add(1, Ordering::SeqCst) + 1;
        run.state().most.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let most = run.state().most.load(Ordering::SeqCst);
        run.state().now.fetch_sub(1, Ordering::SeqCst);
        if most > 2 { Err(format!("{most} at once").into()) } else { Ok(()) }
    }
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = Worker::on(client.clone())
        .queue("narrow", 2)
        .queue("wide", 20)
        .state(Counts::default())
        .handle("work", work);
    client.declare_queue("narrow").await.unwrap();
    client.declare_queue("wide").await.unwrap();
    let narrow = (0..20).map(|number| Add::to("work", &number).queue("narrow"));
    let added = client.add_all(narrow).await.unwrap();
    let worker = worker.start().await.unwrap();
    for added in added {
        let run = added.unwrap().job().run.clone().unwrap();
        let end = client.wait(&run, LONG).await.unwrap().unwrap();
        assert!(end.is_success(), "{end:?}");
    }
    let keyed = (0..20).map(|number| Add::to("work", &number).queue("wide").key("tenant", 2));
    for added in client.add_all(keyed).await.unwrap() {
        let run = added.unwrap().job().run.clone().unwrap();
        let end = client.wait(&run, LONG).await.unwrap().unwrap();
        assert!(end.is_success(), "{end:?}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn two_workers_share_the_runs_and_each_takes_only_its_handlers() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = async |name: &'static str| {
        let done = Arc::new(Mutex::new(BTreeSet::new()));
        let worker = Worker::on(client.clone())
            .state(done.clone())
            .handle(name, async |number: u32, run: Run<Arc<Mutex<BTreeSet<u32>>>>| {
                let is_new = run.state().lock().unwrap().insert(number);
                if is_new { Ok(()) } else { Err("a second execution".into()) }
            })
            .start()
            .await
            .unwrap();
        (worker, done)
    };
    let ((first, done), (other, of_other)) = (worker("count").await, worker("other").await);
    let adds = (0..200).map(|number| Add::to("count", &number));
    for added in client.add_all(adds).await.unwrap() {
        let run = added.unwrap().job().run.clone().unwrap();
        let end = client.wait(&run, LONG).await.unwrap().unwrap();
        assert!(end.is_success(), "{end:?}");
    }
    assert_eq!(done.lock().unwrap().len(), 200);
    assert!(of_other.lock().unwrap().is_empty());
    first.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_cron_job_runs_at_each_of_its_times_while_the_bench_advances() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let (runs, done) = tokio::sync::mpsc::unbounded_channel();
    let mut done = done;
    let worker = Worker::on(client.clone())
        .state(runs)
        .handle(
            "report",
            async |(): (), run: Run<tokio::sync::mpsc::UnboundedSender<SystemTime>>| {
                Ok(run.state().send(run.due())?)
            },
        )
        .start()
        .await
        .unwrap();
    client.add(Add::to("report", &()).name("report").cron("0 7 * * *")).await.unwrap();
    let day = Duration::from_secs(86_400);
    let mut dues = Vec::new();
    for _ in 0..3 {
        bench.advance(day).await.unwrap();
        dues.push(done.recv().await.unwrap());
    }
    for pair in dues.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).unwrap(), day);
    }
    worker.stop().await;
}

#[tokio::test]
async fn an_add_is_checked_by_the_rules_of_schedctl() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let refused = async |add: Add| match client.add(add).await {
        Err(ClientError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(Add::to("send-mail", &()).queue("mial")).await,
        "queue: queue mial is not known, wanted one of default (a jobs file declares queues by [queues.mial])"
    );
    let why = refused(Add::to("send-mail", &()).cron("61 * * * *")).await;
    assert!(why.starts_with("cron: ") && why.contains("61"), "{why}");
    let why = refused(Add::to("Send Mail", &())).await;
    assert!(why.starts_with("handler: "), "{why}");
    let why = refused(Add::to("send-mail", &()).set("timeuot", "3s")).await;
    assert!(why.contains("timeout"), "{why}");
    let why = refused(Add::to("send-mail", &()).at(SystemTime::UNIX_EPOCH)).await;
    assert!(why.contains("wanted a future time"), "{why}");
}

#[tokio::test]
async fn unique_names_and_keys_answer_what_exists() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let minute = Duration::from_secs(60);
    let first = client.add(Add::to("a", &()).unique("k").in_(minute)).await.unwrap();
    let Added::Created(job) = &first else { panic!("{first:?}") };
    assert!(matches!(
        client.add(Add::to("a", &()).unique("k")).await,
        Err(ClientError::Conflict(why)) if why.contains("is held by job")
    ));
    let again = client.add(Add::to("a", &()).unique("k").if_absent()).await.unwrap();
    assert_eq!(again, Added::Exists(job.clone()));
    let debounced = Add::to("a", &()).debounce("d").in_(minute);
    let first = client.add(debounced.clone()).await.unwrap();
    let second = client.add(debounced).await.unwrap();
    assert!(matches!(second, Added::Updated(_)), "{second:?}");
    assert_eq!(first.job().name, second.job().name);
    let named = Add::to("a", &()).name("n").in_(minute);
    client.add(named.clone()).await.unwrap();
    assert!(matches!(client.add(named.clone()).await, Err(ClientError::Conflict(_))));
    let replaced = client.add(named.retries(3).replace()).await.unwrap();
    assert!(matches!(replaced, Added::Updated(_)), "{replaced:?}");
}
