//! The examples at work, each on a Redis of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::time::Duration;

use schedd::testing::Bench;
use schedd::{Add, Client, RunOutcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[allow(dead_code, reason = "its main is not called")]
#[path = "../examples/axum_service.rs"]
mod axum_service;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../examples/enqueue_only.rs"]
mod enqueue_only;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../examples/many_handlers.rs"]
mod many_handlers;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../examples/outbox.rs"]
mod outbox;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../examples/steps.rs"]
mod steps;

const LONG: Duration = Duration::from_secs(60);

async fn outcome(client: &Client, add: Add) -> RunOutcome {
    let added = client.add(add).await.unwrap();
    client.wait(added.job().run.as_deref().unwrap(), LONG).await.unwrap().unwrap().outcome
}

#[tokio::test]
async fn a_program_only_adds_jobs() {
    let bench = Bench::start().await.unwrap();
    enqueue_only::run(bench.client()).await.unwrap();
    // The named job exists once, however often the program starts.
    enqueue_only::run(bench.client()).await.unwrap();
    assert!(bench.client().cancel("digest").await.is_ok());
    assert!(bench.client().cancel("digest").await.is_err());
}

#[tokio::test]
async fn many_handlers_share_a_state_and_add_jobs() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = many_handlers::worker(client.clone()).start().await.unwrap();
    let charge = |cents| many_handlers::Charge { customer: 7, cents };
    let paid = Add::to("charge", &charge(500)).queue("billing");
    assert_eq!(outcome(&client, paid).await, RunOutcome::Succeeded);
    let nowhere = many_handlers::Mail { to: "nowhere".to_owned() };
    let refused = Add::to("send-mail", &nowhere).queue("mail").retries(5);
    assert_eq!(outcome(&client, refused).await, RunOutcome::Failed);
    worker.stop().await;
}

#[tokio::test]
async fn a_web_service_adds_jobs_and_executes_them() {
    let bench = Bench::start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let until = async {
        let _ = stopped.await;
    };
    let client = bench.client();
    let service = async { axum_service::serve(client.clone(), listener, until).await.unwrap() };
    let request = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text =
            "POST /users/ann HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        stop.send(()).unwrap();
        answer
    };
    let ((), answer) = tokio::join!(service, request);
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test]
async fn the_outbox_adds_each_job_once() {
    let bench = Bench::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let shop = outbox::Shop::open(&dir.path().join("shop.redb")).unwrap();
    shop.place(1, "a book", "ann@example.org").unwrap();
    shop.place(2, "a pen", "bob@example.org").unwrap();
    assert!(shop.place(1, "a book", "ann@example.org").is_err());
    let client = bench.client();
    // The relay dies before it forgets the jobs.
    assert_eq!(outbox::relay(&shop, &client, true).await.unwrap(), 2);
    assert_eq!(outbox::relay(&shop, &client, false).await.unwrap(), 0);
    assert!(shop.waiting().unwrap().is_empty());
}

#[tokio::test]
async fn an_import_goes_on_where_its_first_attempt_failed() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let worker = steps::worker(client.clone()).start().await.unwrap();
    let added = client.add(steps::add(5, Some(3))).await.unwrap();
    let run = added.job().run.clone().unwrap();
    let end = client.wait(&run, LONG).await.unwrap().unwrap();
    assert_eq!((end.outcome, end.attempt), (RunOutcome::Succeeded, 2));
    worker.stop().await;
}
