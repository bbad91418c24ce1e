//! Jobs as HTTP requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schedd::attempts::{Attempt, StopReason};
use schedd_core::domain::job::job_spec::{Action, HttpRequest};
use schedd_core::domain::job::webhook::SigningSecret;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::chain::chain_end::ParentEnd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::attempt::{Bench, attempt};
use crate::support::host::http_sink::{Answer, HttpSink};
use crate::support::wait::eventually;

fn request(method: &str, url: String) -> HttpRequest {
    HttpRequest {
        method: method.to_owned(),
        url,
        headers: BTreeMap::new(),
        body: String::new(),
        expect: vec![],
        redirects: 0,
    }
}

fn of(request: HttpRequest) -> Attempt {
    attempt(Action::Http(request))
}

fn signing_secret() -> SigningSecret {
    SigningSecret::Given("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap())
}

#[tokio::test]
async fn a_request_carries_the_jobs_fields_and_the_facts_of_its_run() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([Answer::status(204)]).await;
    let mut job = request("POST", sink.url("/ping?a=1"));
    job.body = r#"{"a": 1}"#.to_owned();
    let own = [("X-From", "here"), ("User-Agent", "mine"), ("Schedd-Fence", "0")];
    job.headers =
        own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let attempt = of(job);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(
        outcome,
        AttemptOutcome { http_status: Some(204), ..AttemptOutcome::bare(Ending::Succeeded) }
    );
    let requests = sink.requests();
    let [sent] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        (sent.method.as_str(), sent.target.as_str(), sent.body.as_str()),
        ("POST", "/ping?a=1", r#"{"a": 1}"#)
    );
    let wanted = [
        ("x-from", "here".to_owned()),
        ("user-agent", "mine".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", attempt.run.to_string()),
        ("schedd-job", "backup".to_owned()),
        ("schedd-due", attempt.run.due().to_string()),
        ("schedd-attempt", "2".to_owned()),
        ("schedd-fence", attempt.fence.to_string()),
    ];
    for (name, value) in wanted {
        assert_eq!(sent.header(name), Some(&*value), "{name}");
    }
    assert_eq!(sent.headers.iter().filter(|(name, _)| name == "schedd-fence").count(), 1);
}

#[tokio::test]
async fn a_request_carries_the_ends_of_the_parents_of_its_run_in_4_kib() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([]).await;
    let end = |at: usize| ParentEnd {
        job: format!("{at:0>63}").parse().unwrap(),
        run: format!("{at:0>63}@1790000000000~backfill").parse().unwrap(),
        state: "timed_out".to_owned(),
        reason: "überlang\n".repeat(1000),
        exit_code: Some(-2_147_483_648),
    };
    let parents: Vec<ParentEnd> = (0..16).map(end).collect();
    let attempt = Attempt { parents, ..of(request("POST", sink.url("/"))) };
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let requests = sink.requests();
    let text = requests[0].header("schedd-parents").unwrap();
    assert!(text.len() <= 4096, "{}", text.len());
    let sent: serde_json::Value = serde_json::from_str(text).unwrap();
    let last = serde_json::json!({
        "job": attempt.parents[15].job.as_str(), "run_id": attempt.parents[15].run.to_string(),
        "state": "timed_out", "exit_code": -2_147_483_648_i64,
    });
    assert_eq!(sent[15], last);
    let states = requests[0].header("schedd-parent-states").unwrap();
    assert!(states.ends_with("15=timed_out"), "{states}");
    bench.run(&of(request("POST", sink.url("/")))).await;
    assert_eq!(sink.requests()[1].header("schedd-parents"), None);
}

#[tokio::test]
async fn what_a_job_does_not_say_has_a_default() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([]).await;
    let mut job = request("POST", sink.url("/"));
    job.body = "not json".to_owned();
    bench.run(&of(job)).await;
    bench.run(&of(request("GET", sink.url("/")))).await;
    let requests = sink.requests();
    assert_eq!(requests[0].header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(
        requests[0].header("user-agent"),
        Some(concat!("schedd/", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(requests[1].header("content-type"), None);
}

#[tokio::test]
async fn a_status_that_is_not_wanted_fails_and_says_which_was() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([
        Answer::status(500).body("sorry"),
        Answer::status(200),
        Answer::status(404),
    ])
    .await;
    let (outcome, output) = bench.run(&of(request("GET", sink.url("/")))).await;
    assert_eq!(
        outcome,
        AttemptOutcome {
            http_status: Some(500),
            ..AttemptOutcome::failed("status 500, wanted 2xx")
        }
    );
    assert_eq!(output.snapshot().stream(ExcerptStream::Stdout), b"sorry");
    let mut job = request("GET", sink.url("/"));
    job.expect = vec![204, 404];
    let (outcome, _) = bench.run(&of(job.clone())).await;
    assert_eq!(outcome.error.as_deref(), Some("status 200, wanted 204, 404"));
    let (outcome, _) = bench.run(&of(job)).await;
    assert_eq!((outcome.ending, outcome.http_status), (Ending::Succeeded, Some(404)));
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_the_job_says_and_secrets_stay_at_home() {
    let bench = Bench::start().await;
    let away = HttpSink::start([Answer::status(200).body("there")]).await;
    let answers = [
        Answer::status(302).header("location", "/not-followed"),
        Answer::status(307).header("location", "/next"),
        Answer::status(303).header("location", away.url("/away")),
    ];
    let sink = HttpSink::start(answers).await;
    let mut job = request("POST", sink.url("/"));
    job.body = "text".to_owned();
    job.headers = BTreeMap::from([("Authorization".to_owned(), "Bearer secret".to_owned())]);
    let (outcome, _) = bench.run(&of(job.clone())).await;
    assert_eq!(outcome.error.as_deref(), Some("status 302, wanted 2xx"));
    job.redirects = 2;
    let (outcome, output) = bench.run(&of(job)).await;
    assert_eq!((outcome.ending, outcome.http_status), (Ending::Succeeded, Some(200)));
    assert_eq!(output.snapshot().stream(ExcerptStream::Stdout), b"there");
    let next = &sink.requests()[2];
    assert_eq!(
        (next.method.as_str(), next.target.as_str(), next.body.as_str()),
        ("POST", "/next", "text")
    );
    assert_eq!(next.header("authorization"), Some("Bearer secret"));
    let last = &away.requests()[0];
    assert_eq!(
        (last.method.as_str(), last.body.as_str(), last.header("authorization")),
        ("GET", "", None)
    );
    assert!(last.header("idempotency-key").is_some());
}

#[tokio::test]
async fn another_origin_gets_no_secret_header_by_a_redirect() {
    let bench = Bench::start().await;
    for status in [301, 302, 303, 307, 308] {
        let away = HttpSink::start([]).await;
        let sink =
            HttpSink::start([Answer::status(status).header("location", away.url("/away"))]).await;
        let mut job = request("GET", sink.url("/"));
        job.redirects = 1;
        job.headers =
            ["AUTHORIZATION", "Cookie", "x-api-key", "X-Consul-Token", "X-Secret", "X-Auth"]
                .map(|name| (name.to_owned(), "s3cret".to_owned()))
                .into();
        job.headers.insert("X-Other".to_owned(), "kept".to_owned());
        let mut attempt = of(job);
        attempt.webhook_secrets = vec![signing_secret()];
        let (outcome, _) = bench.run(&attempt).await;
        assert_eq!(
            (outcome.ending, outcome.http_status),
            (Ending::Succeeded, Some(200)),
            "{status}"
        );
        assert!(sink.requests()[0].header("webhook-signature").is_some());
        let sent = &away.requests()[0];
        assert_eq!((sent.header("x-other"), sent.body.as_str()), (Some("kept"), ""), "{status}");
        assert!(sent.header("idempotency-key").is_some(), "{status}");
        let reported = sent
            .headers
            .iter()
            .find(|(name, value)| value == "s3cret" || name.starts_with("webhook-"));
        assert_eq!(reported, None, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_that_would_send_the_body_to_another_origin_ends_the_attempt() {
    let bench = Bench::start().await;
    let away = HttpSink::start([]).await;
    for (method, status) in [("POST", 307), ("PUT", 308), ("GET", 302), ("GET", 307)] {
        let sink =
            HttpSink::start([Answer::status(status).header("location", away.url("/away"))]).await;
        let mut job = request(method, sink.url("/"));
        (job.redirects, job.body) = (5, "text".to_owned());
        let (outcome, _) = bench.run(&of(job)).await;
        let reported = format!(
            "status {status} redirects to another origin ({}), which must not get the request body",
            away.url("")
        );
        let error = outcome.error.unwrap();
        assert!(
            error.starts_with(&reported)
                && error.contains("wanted the URL of that origin in the job"),
            "{method}: {error}"
        );
        assert_eq!(outcome.ending, Ending::Failed);
    }
    assert!(away.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_that_leads_to_no_answer_is_none() {
    let bench = Bench::start().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let sink =
        HttpSink::start([Answer::status(302).header("location", format!("http://{closed}/"))])
            .await;
    let mut job = request("GET", sink.url("/"));
    job.redirects = 1;
    let (outcome, _) = bench.run(&of(job)).await;
    assert_eq!(outcome, AttemptOutcome::failed("cannot connect: connection refused"));
}

#[tokio::test]
async fn how_long_a_refusal_asks_to_be_left_alone_is_named_and_a_success_asks_for_nothing() {
    let bench = Bench::start().await;
    let sink = HttpSink::start(
        [503, 429, 200].map(|status| Answer::status(status).header("retry-after", "120")),
    )
    .await;
    for (status, wanted) in [(503, Some(120)), (429, Some(120)), (200, None)] {
        let (outcome, _) = bench.run(&of(request("GET", sink.url("/")))).await;
        assert_eq!(
            (outcome.http_status, outcome.retry_after),
            (Some(status), wanted.map(Duration::from_secs))
        );
    }
}

#[tokio::test]
async fn an_answer_asks_for_the_time_of_the_next_run() {
    let bench = Bench::start().await;
    let answers = [200, 500].map(|status| Answer::status(status).header("schedd-next", " 5m "));
    let sink = HttpSink::start(answers).await;
    for _ in 0..2 {
        let (outcome, _) = bench.run(&of(request("GET", sink.url("/")))).await;
        assert_eq!(outcome.next, Some(Ok("5m".to_owned())), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_long_body_is_cut_and_counted_and_an_endless_one_is_not_read_to_its_end() {
    let bench = Bench::start().await;
    let endless =
        Answer { claimed_length: Some(10 << 30), ..Answer::status(200).body(vec![b'x'; 4 << 20]) };
    let sink = HttpSink::start([Answer::status(200).body(vec![b'a'; 100_000]), endless]).await;
    let (outcome, output) = bench.run(&of(request("GET", sink.url("/")))).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let kept = output.snapshot();
    assert_eq!(
        (kept.stream(ExcerptStream::Stdout).len(), kept.dropped_bytes),
        (65_536, 100_000 - 65_536)
    );
    let (outcome, output) = bench.run(&of(request("GET", sink.url("/")))).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    assert!(output.snapshot().dropped_bytes >= (1 << 20) - 65_536);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_failure_that_says_so() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([Answer {
        claimed_length: Some(1000),
        ..Answer::status(200).body("half")
    }])
    .await;
    let (outcome, _) = bench.run(&of(request("GET", sink.url("/")))).await;
    assert_eq!((outcome.ending, outcome.http_status), (Ending::Failed, Some(200)));
    assert!(outcome.error.unwrap().starts_with("status 200, but the response body broke off: "));
}

#[tokio::test]
async fn the_time_out_is_the_whole_attempts() {
    let bench = Bench::start().await;
    let sink = HttpSink::start([Answer::status(200).after(Duration::from_secs(60))]).await;
    let mut attempt = of(request("GET", sink.url("/")));
    attempt.timeout = Duration::from_millis(300);
    let begun = Instant::now();
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(
        (outcome.ending, outcome.error.as_deref()),
        (Ending::TimedOut, Some("the attempt exceeded its timeout of 300ms"))
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_stop_or_a_passed_lease_ends_the_request() {
    let bench = Bench::start().await;
    let slow = || Answer::status(200).after(Duration::from_secs(60));
    let sink = HttpSink::start([slow(), slow()]).await;
    let running = bench.begin(&of(request("GET", sink.url("/"))));
    eventually("the request is sent", || (sink.requests().len() == 1).then_some(())).await;
    running.stop.send_replace(Some(StopReason::Cancelled));
    assert_eq!(running.task.await.unwrap(), AttemptOutcome::bare(Ending::Stopped));
    let running = bench.begin(&of(request("GET", sink.url("/"))));
    eventually("the request is sent", || (sink.requests().len() == 2).then_some(())).await;
    running.deadline.send_replace(BootInstant::now());
    assert_eq!(running.task.await.unwrap().ending, Ending::MaybeAlive);
}

#[tokio::test]
async fn on_a_passed_lease_not_even_a_connection_is_made() {
    let bench = Bench::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let attempt = of(request("GET", format!("http://{}/", listener.local_addr().unwrap())));
    let outcome = bench.begin_until(BootInstant::now(), &attempt).task.await.unwrap();
    assert_eq!(outcome.ending, Ending::NotStarted);
    let accepted = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(accepted.is_err(), "a connection came");
}

#[tokio::test]
async fn errors_are_words_without_the_secrets_of_the_url() {
    let bench = Bench::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (outcome, _) =
        bench.run(&of(request("GET", format!("http://{address}/?token=secret")))).await;
    assert_eq!(outcome, AttemptOutcome::failed("cannot connect: connection refused"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/?token=secret", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 This is no TLS\r\n\r\n").await.unwrap();
        // Held open: a reset could overtake what was written.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let (outcome, _) = bench.run(&of(request("GET", url))).await;
    let error = outcome.error.unwrap();
    assert!(error.starts_with("TLS: ") && !error.contains("secret"), "{error}");
}
