//! The slots of a node, which its shards share.

use schedd_core::domain::queue::shard_map::ShardMap;

use super::await_shards;
use super::shard_scene::{SPREAD, ShardScene};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The number of runs of the queue that the node executes at once.
const SLOTS: usize = 4;
/// The number of runs of each shard.
const RUNS: usize = 40;

#[test]
fn two_shards_with_a_backlog_come_to_equal_parts_of_the_slots_and_never_exceed_them() {
    let redis = TestRedis::start();
    let file =
        format!("[redis]\nurl = {:?}\nshards = 2\n{SPREAD}concurrency = {SLOTS}\n", redis.url());
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    await_shards(&node, 2);
    let jobs_of = |shard: u32| -> Vec<String> {
        let map = ShardMap::Count(2);
        let names = (0..).map(|number| format!("job{number}"));
        names.filter(|name| map.shard_of(name) == shard).take(RUNS).collect()
    };
    let (first, second) = (jobs_of(0), jobs_of(1));
    let shell = scene.effects.shell("sleep 0.1");
    // The backlog of the first shard is there before that of the second.
    for jobs in [&first, &second] {
        scene.add(jobs, "0s", &[("shell", &shell)]).good();
    }
    let effects = || -> Vec<_> {
        scene.effects.all().into_iter().filter(|effect| effect.ended.is_some()).collect()
    };
    until("all have run", LONG, || (effects().len() == 2 * RUNS).then_some(()));
    let effects = effects();
    for effect in &effects {
        let beside = effects.iter().filter(|other| {
            other.began <= effect.began && other.ended.is_some_and(|end| end > effect.began)
        });
        assert!(beside.count() <= SLOTS, "too many runs beside {effect:?}");
    }
    let is_of = |jobs: &[String], run: &str| {
        jobs.iter().any(|job| run.split('@').next() == Some(job.as_str()))
    };
    // From the first run of the second shard until one backlog is done, both get about the same.
    let begin = effects.iter().position(|effect| is_of(&second, &effect.run)).unwrap();
    let shared = &effects[begin..begin + (RUNS - begin) * 3 / 2];
    let of_second = shared.iter().filter(|effect| is_of(&second, &effect.run)).count();
    let part = of_second * 100 / shared.len();
    assert!((30..=70).contains(&part), "the second shard got {part} % of {}", shared.len());
}
