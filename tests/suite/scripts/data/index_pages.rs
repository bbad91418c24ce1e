//! `read_page`: pages of an index behind a cursor.

use schedd_schedule::names::{JobName, RunId};
use schedd_store::{Ended, IndexCursor, JobIndex};

use crate::scripts::world::{World, name, run_of, t};

/// Reads all pages of `most` jobs, and does `between` after each page.
async fn all_jobs(world: &World, most: usize, between: impl AsyncFn(usize)) -> Vec<JobName> {
    let (mut at, mut found, mut pages) = (IndexCursor::lowest(), Vec::new(), 0);
    loop {
        let page = world.store.page_of_jobs(JobIndex::Defined, &at, most).await.unwrap();
        let Some((last, _)) = page.last() else { return found };
        at = last.clone();
        found.extend(page.into_iter().filter_map(|(_, job)| job));
        between(pages).await;
        pages += 1;
    }
}

#[tokio::test]
async fn a_page_begins_behind_its_cursor_whatever_came_or_went() {
    let world = World::new();
    // Five jobs are due together, so their order is that of their names.
    for job in ["e", "b", "d", "a-b", "a"] {
        world.plant(job, 10).await;
    }
    world.plant("early", 5).await;
    world.plant("late", 20).await;
    let sorted = ["early", "a", "a-b", "b", "d", "e", "late"].map(name);
    for most in [1, 2, 3, 7, 100] {
        assert_eq!(all_jobs(&world, most, async |_| {}).await, sorted, "{most}");
    }
    // The job of the cursor goes, a job before it comes, and a job behind it comes.
    let found = all_jobs(&world, 3, async |page| {
        if page == 0 {
            let _: i64 = world.raw("ZREM", "jobs", &["a-b"]);
            let before = t(1).as_i64().to_string();
            let same = t(10).as_i64().to_string();
            let _: i64 = world.raw("ZADD", "jobs", &[&before, "first", &same, "c"]);
        }
    })
    .await;
    assert_eq!(found, ["early", "a", "a-b", "b", "c", "d", "e", "late"].map(name));
}

#[tokio::test]
async fn ended_runs_are_read_downwards_and_upwards_from_any_place() {
    let world = World::new();
    let ends = [("a", 1), ("b", 1), ("c", 2), ("d", 3)];
    for (job, at) in ends {
        let score = t(at).as_i64().to_string();
        let run = run_of(job, 0).to_string();
        let _: i64 = world.raw("ZADD", "history", &[&score, &run]);
    }
    let down = ["d", "c", "b", "a"].map(|job| run_of(job, 0));
    for most in [1, 2, 3, 10] {
        let (mut at, mut found) = (IndexCursor::below(None), Vec::<RunId>::new());
        loop {
            let page = world.store.page_of_ended(&Ended::history(), &at, most).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            at = last.clone();
            found.extend(page.into_iter().filter_map(|(_, run)| run));
        }
        assert_eq!(found, down, "{most}");
    }
    let since = Ended { since: Some(t(2)), ..Ended::history() };
    let below = IndexCursor::below(Some(t(3)));
    let page = world.store.page_of_ended(&since, &below, 10).await.unwrap();
    assert_eq!(page.into_iter().filter_map(|(_, run)| run).collect::<Vec<_>>(), down[1..2]);
    let after = world.store.ended_after(&IndexCursor::below(Some(t(2))), 10).await.unwrap();
    assert_eq!(
        after.into_iter().filter_map(|(_, run)| run).collect::<Vec<_>>(),
        ["c", "d"].map(|job| run_of(job, 0))
    );
}
