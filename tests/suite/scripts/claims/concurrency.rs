//! Many nodes claiming at once: each run goes to one, with a fence of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_store::{
    Address, ClaimOrder, ClaimReply, Keys, LaneAsk, LanePoll, Rev, Store, Successor,
};

use crate::scripts::world::{World, claimant, definition, name, queue, t, token};

const NODES: usize = 16;
const JOBS: i64 = 200;
const EACH: i64 = 10;

/// Claims whatever is due in batches until nothing is left; each job has an occurrence every second, [`EACH`] of them.
async fn claim_all(
    store: Store,
    node: String,
    revs: Arc<BTreeMap<JobName, Rev>>,
) -> Vec<(RunId, Fence)> {
    let mut won = Vec::new();
    loop {
        let poll = store.list_due(&[LaneAsk::new(queue("default"), 25)]).await.unwrap();
        let [LanePoll::Due { due, .. }] = poll.lanes.as_slice() else { panic!("{poll:?}") };
        if due.is_empty() {
            return won;
        }
        let order = |entry: &schedd_store::DueEntry| {
            let run: RunId = entry.member.parse().unwrap();
            let next = run.due().as_i64() - t(0).as_i64() + 1000;
            let successor = (next < EACH * 1000).then(|| Successor::on_time(run.job(), t(next)));
            let rev = revs[run.job()].clone();
            ClaimOrder {
                max_caught_up: None,
                run,
                rev,
                delivery: Delivery::AtLeastOnce,
                overlap: Overlap::Allow,
                max_age: None,
                latest_start: None,
                max_runs: None,
                successor,
                job_lane: queue("default"),
                gates: Vec::new(),
                known_places: Vec::new(),
                per_key: schedd_core::domain::queue::gate::PerKey::default(),
            }
        };
        let orders: Vec<ClaimOrder> = due.iter().map(order).collect();
        let replies = store
            .claim_runs(usize::MAX, &claimant(&node), &queue("default"), &token(), &orders)
            .await
            .unwrap();
        for reply in replies {
            match reply {
                ClaimReply::Claimed(claim) => won.push((claim.run, claim.fence)),
                ClaimReply::Gone => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_thousand_runs_is_claimed_by_one_of_sixteen_nodes() {
    let world = World::new();
    let orders: Vec<_> = (0..JOBS).map(|number| definition(&format!("j{number}"), 0)).collect();
    for batch in orders.chunks(100) {
        assert!(world.at(-1).apply_jobs(batch).await.unwrap().iter().all(Result::is_ok));
    }
    let mut revs = BTreeMap::new();
    for order in &orders {
        revs.insert(order.name.clone(), world.job(order.name.as_str()).await.rev);
    }
    let revs = Arc::new(revs);
    let node = |number: usize| {
        // A connection of its own, as a node has.
        let address = Address::parse(&world.redis.url()).unwrap();
        let store = Store::new(&address, Keys::new("w").unwrap()).unwrap().at(t(EACH * 1000));
        tokio::spawn(claim_all(store, format!("n{number}"), revs.clone()))
    };
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    let (mut runs, mut fences) = (BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        let won = node.await.unwrap();
        assert!(
            won.is_sorted_by(|one, next| one.1 < next.1),
            "fences rise in the order of the claims"
        );
        for (run, fence) in won {
            assert!(runs.insert(run.clone()), "{run} was claimed twice");
            assert!(fences.insert(fence), "{fence} was given twice");
        }
    }
    assert_eq!(i64::try_from(runs.len()).unwrap(), JOBS * EACH);
    assert_eq!(
        world.store.list_open(&name("j0")).await.unwrap().len(),
        usize::try_from(EACH).unwrap()
    );
    world.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_end_recovery_and_cancel_of_a_run_end_it_exactly_once() {
    use schedd_core::domain::run::run_state::RunState;
    use schedd_store::{FinishReply, RecoverReply, Verdict};
    let world = World::new();
    for round in 0..20 {
        let job = format!("j{round}");
        let run = world.plant(&job, 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 1_000_000).await;
        let (lease, order) =
            (super::recovering::expired(&claim, 10_000), world.cancelling(&run, None).await);
        let (one, two, three) = (world.at(20_000), world.at(20_000), world.at(20_000));
        let end = tokio::spawn(async move {
            one.finish_run(&claim, &Verdict::Final(RunState::Succeeded), "", &[], "").await.unwrap()
        });
        let recover = tokio::spawn(async move {
            two.recover_run(&lease, &super::recovering::recovery(None)).await.unwrap()
        });
        let cancel = tokio::spawn(async move { three.cancel_run(&order).await.unwrap() });
        let (end, recover) = (end.await.unwrap(), recover.await.unwrap());
        cancel.await.unwrap();
        assert_eq!(end == FinishReply::Lost, recover != RecoverReply::Gone, "{end:?} {recover:?}");
        world.assert_sound();
    }
}
