//! The connection: each call ends within its limit whatever the server does, says what is wrong in one line, and the next
//! works as soon as the server does, with the same store.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Address, Keys, LeaseWord, Store, StoreError};

use crate::scripts::world::{LEASE, World, t};
use crate::support::redis::TestRedis;
use crate::support::wait::LONG;

/// No call takes longer: two seconds for a connection, one for the answer, and some for a busy machine.
const CALL_LIMIT: Duration = Duration::from_secs(5);

fn store_at(url: &str) -> Store {
    Store::new(&Address::parse(url).unwrap(), Keys::new("w").unwrap()).unwrap()
}

#[track_caller]
fn assert_one_line(error: &StoreError, words: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 300, "{text:?}");
    assert!(words.iter().all(|word| text.contains(word)), "{text:?} without {words:?}");
}

async fn until_it_works(store: &Store) {
    let started = Instant::now();
    while let Err(error) = store.read_stats().await {
        assert!(started.elapsed() < LONG, "{error}");
        assert!(error.is_passing(), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_read_of_nothing_keeps_the_connection() {
    let world = World::new();
    world.store.read_stats().await.unwrap();
    let made = world.store.connections_made();
    assert!(world.store.read_spread(&BTreeSet::new()).await.unwrap().is_empty());
    assert!(world.store.read_runs(&[]).await.unwrap().is_empty());
    world.store.read_stats().await.unwrap();
    assert_eq!(world.store.connections_made(), made);
}

#[tokio::test]
async fn leases_are_renewed_over_the_first_connection_if_a_second_cannot_be_made() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    // The store has one connection, and this test has the other.
    let mut connection = world.redis.connection();
    let set = ["SET", "maxclients", "2"];
    let () = redis::cmd("CONFIG").arg(&set).query(&mut connection).unwrap();
    let claims = [(run, claim.fence)];
    for at in [1, 2] {
        let words = world.at(at).renew_leases(LEASE, &claims).await.unwrap();
        assert_eq!(words, [LeaseWord::Extended]);
    }
    let end: i64 = redis::cmd("ZSCORE")
        .arg(world.key("leases"))
        .arg(format!("{}#{}", claims[0].0, claims[0].1.as_u64()))
        .query(&mut connection)
        .unwrap();
    assert_eq!(UnixMillis::new(end), Some(t(2).saturating_add(LEASE)));
}

#[tokio::test]
async fn calls_to_a_killed_server_fail_in_time_and_work_again_when_it_is_back() {
    let mut world = World::on(TestRedis::durable(), "w");
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    world.redis.kill9();
    for _ in 0..5 {
        let asked = Instant::now();
        let error = world.store.read_stats().await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(
            world
                .at(1)
                .renew_leases(LEASE, &[(run.clone(), claim.fence)])
                .await
                .unwrap_err()
                .is_passing()
        );
        assert!(asked.elapsed() < CALL_LIMIT * 2, "{:?}", asked.elapsed());
    }
    world.redis.restart();
    until_it_works(&world.store).await;
    // Its scripts are gone with the process.
    assert_eq!(
        world.at(1).renew_leases(LEASE, &[(run, claim.fence)]).await.unwrap(),
        [LeaseWord::Extended]
    );
    world.succeed(2, &claim).await;
    world.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_stopped_server_fail_in_time_in_any_number_and_later_work_again() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    world.redis.stop_signal(Signal::STOP);
    let stopped = Instant::now();
    while stopped.elapsed() < Duration::from_secs(3) {
        let calls: Vec<_> = (0..30)
            .map(|_| {
                let store = world.store.clone();
                tokio::spawn(async move {
                    let asked = Instant::now();
                    (store.read_stats().await, asked.elapsed())
                })
            })
            .collect();
        for call in calls {
            let (answer, took) = call.await.unwrap();
            assert!(matches!(answer.unwrap_err(), StoreError::Unavailable { .. }));
            assert!(took < CALL_LIMIT, "{took:?}");
        }
    }
    world.redis.stop_signal(Signal::CONT);
    until_it_works(&world.store).await;
    world.succeed(1, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_claim_that_ran_although_its_call_timed_out_is_found_by_its_token() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let orders = [world.order(&run).await];
    let ask = || {
        let (store, orders) = (world.at(0), orders.clone());
        async move {
            store
                .claim_runs(
                    usize::MAX,
                    &crate::scripts::world::claimant("n1"),
                    &crate::scripts::world::queue("default"),
                    "one",
                    &orders,
                )
                .await
        }
    };
    world.redis.stop_signal(Signal::STOP);
    assert!(matches!(ask().await.unwrap_err(), StoreError::Unavailable { .. }));
    world.redis.stop_signal(Signal::CONT);
    until_it_works(&world.store).await;
    let claim = World::won(ask().await.unwrap().remove(0));
    assert_eq!(claim.attempt, 1, "one attempt, not two");
    world.assert_sound();
}

#[tokio::test]
async fn a_connection_somebody_killed_is_replaced_by_the_next_call() {
    let world = World::new();
    for _ in 0..3 {
        until_it_works(&world.store).await;
        let killed: i64 = world.server(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(killed > 0);
        // The one that meets the dead connection may fail; the one after it does not.
        let _ = world.store.read_stats().await;
        world.store.read_stats().await.unwrap();
    }
}

#[tokio::test]
async fn a_password_that_is_wrong_or_missing_is_reported_as_such_and_never_shown() {
    let redis = TestRedis::start();
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "right"])
        .query(&mut redis.connection())
        .unwrap();
    let error = store_at(&format!("{}?pass=s3cret", redis.url())).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert_one_line(&error, &["the user name or password is wrong"]);
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    let error = store_at(&redis.url()).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert_one_line(&error, &["requires a password"]);
    store_at(&format!("{}?pass=right", redis.url())).read_stats().await.unwrap();
}

#[tokio::test]
async fn a_client_without_the_right_to_a_command_is_reported_so() {
    let redis = TestRedis::start();
    let rules = ["SETUSER", "weak", "on", ">pw", "~*", "+@all", "-zcard"];
    let () = redis::cmd("ACL").arg(&rules).query(&mut redis.connection()).unwrap();
    let error =
        store_at(&format!("{}?user=weak&pass=pw", redis.url())).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert_one_line(&error, &["zcard"]);
}

/// A server on a port of its own that answers whatever comes with `answer`, for as long as the test's process lives.
fn stranger(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = peer.read(&mut buffer) {
                    if peer.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_is_no_redis_is_reported_in_one_line() {
    for answer in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n"]
    {
        let error = store_at(&stranger(answer)).read_stats().await.unwrap_err();
        assert_one_line(&error, &["does not use the Redis protocol"]);
    }
    let asked = Instant::now();
    let error = store_at(&stranger(b"")).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(asked.elapsed() < CALL_LIMIT);
}

#[tokio::test]
async fn nobody_at_the_address_is_reported_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("redis://{free}"), "unix:///tmp/schedd-test-nobody.sock".to_owned()] {
        let asked = Instant::now();
        let error = store_at(&url).read_stats().await.unwrap_err();
        assert_one_line(&error, &[&url, "cannot be reached"]);
        assert!(asked.elapsed() < CALL_LIMIT);
    }
}

#[tokio::test]
async fn a_replica_is_refused_also_when_it_becomes_one_later() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let _: () = world.server(&["REPLICAOF", "127.0.0.1", "1"]);
    let order = [world.order(&run).await];
    let claim = || async {
        world
            .at(0)
            .claim_runs(
                usize::MAX,
                &crate::scripts::world::claimant("n1"),
                &crate::scripts::world::queue("default"),
                "x",
                &order,
            )
            .await
    };
    assert_one_line(&claim().await.unwrap_err(), &["replica", "primary"]);
    let error = claim().await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
    let error = store_at(&world.redis.url()).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
    let _: () = world.server(&["REPLICAOF", "NO", "ONE"]);
    World::won(claim().await.unwrap().remove(0));
    world.assert_sound();
}

#[tokio::test]
async fn a_server_that_drops_keys_is_refused_and_one_that_forgets_is_warned_of() {
    let redis = TestRedis::start();
    let warnings = store_at(&redis.url()).findings().await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("append-only"), "{warnings:?}");
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory-policy", "allkeys-lru"])
        .query(&mut redis.connection())
        .unwrap();
    let error = store_at(&redis.url()).read_stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
    assert_one_line(&error, &["allkeys-lru", "noeviction"]);
    let durable = TestRedis::everysec();
    assert_eq!(store_at(&durable.url()).findings().await.unwrap().warnings, [""; 0]);
}
