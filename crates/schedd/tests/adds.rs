//! Adds by many callers of one program at the same time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::time::Duration;

use schedd::testing::Bench;
use schedd::{Add, Added, Client, ClientError};
use tokio::task::JoinSet;

/// Longer than any step takes.
const LONG: Duration = Duration::from_secs(60);

/// Returns an add of a job with this name that is due in an hour.
fn named(name: &str) -> Add {
    Add::to("work", &name).name(name).in_(Duration::from_secs(3_600))
}

/// Adds these jobs at the same time, and returns the name and the result of each.
async fn add_at_once(
    client: &Client,
    adds: Vec<(String, Add)>,
) -> Vec<(String, Result<Added, ClientError>)> {
    let mut callers = JoinSet::new();
    for (name, add) in adds {
        let client = client.clone();
        callers.spawn(async move { (name, client.add(add).await) });
    }
    tokio::time::timeout(LONG, callers.join_all()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_callers_gets_the_result_of_its_own_job() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    let names = (0..300).map(|number| format!("job-{number}"));
    let adds = names.map(|name| {
        let add = named(&name);
        let add = if name.ends_with('7') { add.queue("nowhere") } else { add };
        (name, add)
    });
    let results = add_at_once(&client, adds.collect()).await;
    assert_eq!(results.len(), 300);
    for (name, result) in results {
        match result {
            Ok(Added::Created(job)) => assert!(job.name == name && !name.ends_with('7'), "{name}"),
            Err(ClientError::Invalid(why)) => {
                assert!(why.contains("nowhere") && name.ends_with('7'), "{name}: {why}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_callers_adds_a_name_and_the_others_learn_that_it_exists() {
    let bench = Bench::start().await.unwrap();
    let adds = (0..50).map(|_| ("same".to_owned(), named("same")));
    let results = add_at_once(&bench.client(), adds.collect()).await;
    let created = results.iter().filter(|(_, result)| matches!(result, Ok(Added::Created(_))));
    assert_eq!(created.count(), 1);
    let refused =
        |result: &Result<Added, ClientError>| matches!(result, Err(ClientError::Conflict(_)));
    assert_eq!(results.iter().filter(|(_, result)| refused(result)).count(), 49);
}

#[tokio::test]
async fn a_caller_that_gives_up_holds_up_nobody() {
    let bench = Bench::start().await.unwrap();
    let client = bench.client();
    for number in 0..50 {
        let mut adds: Vec<_> = (0..10)
            .map(|caller| Box::pin(client.add(named(&format!("gone-{number}-{caller}")))))
            .collect();
        // Each add gets to its first wait, and no further.
        for add in &mut adds {
            assert!(futures_util::poll!(add.as_mut()).is_pending());
        }
        drop(adds);
    }
    let added = tokio::time::timeout(LONG, client.add(named("last"))).await.unwrap();
    assert!(matches!(added, Ok(Added::Created(_))), "{added:?}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_runtime_that_ends_before_it_sends_an_add_holds_up_nobody() {
    let kept = runtime();
    let bench = kept.block_on(Bench::start()).unwrap();
    let client = bench.client();
    let ended = runtime();
    ended.block_on(async {
        let mut adds: Vec<_> =
            (0..3).map(|caller| Box::pin(client.add(named(&format!("unsent-{caller}"))))).collect();
        // The third add is to be sent by a task, which the runtime never polls.
        for add in &mut adds {
            assert!(futures_util::poll!(add.as_mut()).is_pending());
        }
    });
    drop(ended);
    // The connection belonged to the runtime that has ended, so a first add may fail.
    let added = kept.block_on(async {
        let add = || tokio::time::timeout(LONG, client.add(named("last")));
        let _ = add().await.unwrap();
        add().await.unwrap()
    });
    assert!(matches!(added, Ok(Added::Created(_)) | Err(ClientError::Conflict(_))), "{added:?}");
}

#[test]
fn a_client_adds_in_another_runtime_when_the_first_has_ended() {
    let kept = runtime();
    let bench = kept.block_on(Bench::start()).unwrap();
    let client = bench.client();
    let ended = runtime();
    ended.block_on(async {
        for number in 0..10 {
            let client = client.clone();
            tokio::spawn(async move { client.add(named(&format!("cut-{number}"))).await });
        }
        tokio::task::yield_now().await;
    });
    drop(ended);
    let added = kept
        .block_on(async { tokio::time::timeout(LONG, client.add(named("last"))).await.unwrap() });
    assert!(matches!(added, Ok(Added::Created(_))), "{added:?}");
}
