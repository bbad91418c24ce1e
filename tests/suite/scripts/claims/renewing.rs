//! `renew_leases`: a lease moves only under its fence, and the answer tells who is asked to stop.

use schedd_schedule::names::Fence;
use schedd_store::{LeaseWord, StoreError};

use crate::scripts::world::{LEASE, World, run_of};

#[tokio::test]
async fn a_renewal_reports_of_each_lease_whether_it_is_held_stopped_or_lost() {
    let world = World::new();
    let mut held = Vec::new();
    for job in ["a", "b", "c"] {
        let run = world.plant(job, 0).await;
        let claim = world.win(0, &run).await;
        held.push((claim.run, claim.fence));
    }
    world.at(1).cancel_run(&world.cancelling(&held[1].0, None).await).await.unwrap();
    held[2].1 = Fence::new(held[2].1.as_u64() + 1).unwrap();
    held.push((run_of("nobody", 5), Fence::new(5).unwrap()));
    let words = world.at(4_000).renew_leases(LEASE, &held).await.unwrap();
    assert_eq!(
        words,
        [
            LeaseWord::Extended,
            LeaseWord::Stop("by a test".to_owned()),
            LeaseWord::Lost,
            LeaseWord::Lost
        ]
    );
    assert_eq!(world.score("leases", &format!("{}#{}", held[0].0, held[0].1)), Some(14_000));
    assert_eq!(
        world.score("leases", &format!("{}#{}", held[1].0, held[1].1)),
        Some(14_000),
        "it runs until it has stopped"
    );
    let words = world.at(5_000).renew_in_move(LEASE, &held).await.unwrap();
    let held_ones = [LeaseWord::Extended, LeaseWord::Extended];
    assert_eq!(
        (&words[..2], &words[2..]),
        (&held_ones[..], &[LeaseWord::Lost, LeaseWord::Lost][..])
    );
    assert_eq!(world.score("leases", &format!("{}#{}", held[0].0, held[0].1)), Some(15_000));
    assert_eq!(world.store.list_leases(10).await.unwrap().len(), 3, "a renewal makes no lease");
    world.assert_sound();
}

#[tokio::test]
async fn renewing_nothing_is_answered_by_nothing() {
    let world = World::new();
    assert_eq!(world.at(0).renew_leases(LEASE, &[]).await.unwrap(), []);
    assert!(world.snapshot().is_empty());
}

#[tokio::test]
async fn leases_that_are_no_set_are_reported_by_name() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    let _: i64 = world.raw("DEL", "leases", &[]);
    let _: i64 = world.raw("RPUSH", "leases", &["x"]);
    let error = world.at(1).renew_leases(LEASE, &[(claim.run, claim.fence)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::WrongType { found, .. } if found == "list"), "{error}");
    let error = world.at(1).list_leases(10).await.unwrap_err();
    assert!(matches!(&error, StoreError::WrongType { key, .. } if key == "{w}:leases"), "{error}");
}
