//! One row for each way to break an entry: its finding, and what the repair leaves.

use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::Verdict;

use crate::doctor::desk::Desk;
use crate::scripts::world::t;

/// What `RUN`, a run of the job `a` of every minute, does when its entries are broken.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scene {
    Planned,
    Running,
    Over,
    Dead,
    /// It executes, and the next, `NEXT`, waits for it.
    Waiting,
    /// It is to be tried again.
    Retried,
    /// It is asked for by hand.
    Manual,
}

use Scene::{Dead, Manual, Over, Planned, Retried, Running, Waiting};

/// A Redis command with its words in one text.
type Command = &'static str;

/// A row: the scene, the commands that break it, the code and the subject of the finding, and commands with their answers
/// after the repair.
type Row =
    (Scene, &'static [Command], &'static str, &'static str, &'static [(Command, &'static str)]);

const MENDED: [Row; 40] = [
    // The entries of a run.
    (Running, &["DEL leases"], "missing:leases", "RUN", &[("ZSCORE leases RUN#FENCE", "NOW")]),
    (Over, &["ZADD leases 5 RUN#FENCE"], "extra:leases", "RUN", &[("ZCARD leases", "0")]),
    (
        Running,
        &["ZADD leases 5 RUN#BEFORE"],
        "extra:leases",
        "RUN",
        &[("ZSCORE leases RUN#BEFORE", "-"), ("ZCARD leases", "1")],
    ),
    (Over, &["ZADD due:default 5 RUN"], "extra:due", "RUN", &[("ZSCORE due:default RUN", "-")]),
    (Running, &["ZADD due:default 5 RUN"], "extra:due", "RUN", &[("ZSCORE due:default RUN", "-")]),
    (
        Planned,
        &["ZADD due:other DUE RUN"],
        "extra:due",
        "RUN",
        &[("ZSCORE due:default RUN", "DUE"), ("ZCARD due:other", "0")],
    ),
    (
        Planned,
        &["ZADD due:default DUE nobody@5"],
        "extra:due",
        "nobody@5",
        &[("HLEN quarantine", "1")],
    ),
    (
        Retried,
        &["ZREM due:default RUN"],
        "missing:due",
        "RUN",
        &[("ZSCORE due:default RUN", "NOW")],
    ),
    (
        Retried,
        &["ZREM due:default RUN", "ZADD catch_up:a 5 RUN"],
        "missing:due",
        "RUN",
        &[("ZSCORE catch_up:a RUN", "5")],
    ),
    (Retried, &["ZADD leases 5 RUN#FENCE"], "extra:leases", "RUN", &[("ZCARD leases", "0")]),
    (Running, &["DEL open:a"], "missing:open", "RUN", &[("ZSCORE open:a RUN", "DUE")]),
    (Planned, &["ZADD open:a 5 a@5"], "extra:open", "a@5", &[("ZCARD open:a", "0")]),
    (
        Waiting,
        &["ZADD open:a 5 a@5~hand"],
        "unreadable:open",
        "open:a",
        &[("ZCARD open:a", "1"), ("HLEN quarantine", "1")],
    ),
    (
        Manual,
        &["ZADD manual:a 5 a@5"],
        "unreadable:manual",
        "manual:a",
        &[("ZCARD manual:a", "1"), ("HLEN quarantine", "1")],
    ),
    (Manual, &["DEL manual:a"], "missing:manual", "RUN", &[("ZCARD manual:a", "1")]),
    (Manual, &["ZADD manual:a 5 a@5~hand"], "extra:manual", "a@5~hand", &[("ZCARD manual:a", "1")]),
    (
        Waiting,
        &["ZADD waiting:a 5 a@5", "HINCRBY counters waiting 1"],
        "extra:waiting",
        "a@5",
        &[("HGET counters waiting", "1")],
    ),
    (
        Waiting,
        &["ZADD due:default 5 NEXT"],
        "extra:waiting",
        "NEXT",
        &[("ZCARD waiting:a", "0"), ("HGET counters waiting", "0")],
    ),
    (Planned, &["ZADD catch_up:a 5 a@5"], "extra:catch_up", "a@5", &[("ZCARD catch_up:a", "0")]),
    (Over, &["ZADD catch_up:a 5 RUN"], "extra:catch_up", "RUN", &[("ZCARD catch_up:a", "0")]),
    (Running, &["ZADD catch_up:a 5 RUN"], "extra:catch_up", "RUN", &[("ZCARD catch_up:a", "0")]),
    (
        Running,
        &["ZREM running:default RUN"],
        "missing:running",
        "RUN",
        &[("ZCARD running:default", "1")],
    ),
    (
        Running,
        &["ZADD running:other 5 RUN", "HSET queues other 32"],
        "extra:running",
        "RUN",
        &[("ZCARD running:other", "0")],
    ),
    (
        Over,
        &["ZADD running:default 5 RUN"],
        "extra:running",
        "RUN",
        &[("ZCARD running:default", "0")],
    ),
    (
        Over,
        &["ZADD running:default 5 a@5"],
        "extra:running",
        "a@5",
        &[("ZCARD running:default", "0")],
    ),
    (
        Over,
        &["ZADD running:default 5 nobody@5"],
        "extra:running",
        "nobody@5",
        &[("ZCARD running:default", "0")],
    ),
    (
        Over,
        &["HSET stop_requests RUN hand", "HSET stop_requests a@5 hand"],
        "extra:stop_requests",
        "RUN",
        &[("EXISTS stop_requests", "0")],
    ),
    (Over, &["ZREM history RUN"], "missing:history", "RUN", &[("ZSCORE history RUN", "NOW")]),
    (Over, &["ZREM history:a RUN"], "missing:history", "RUN", &[("ZSCORE history:a RUN", "NOW")]),
    (
        Over,
        &["ZADD history 5 a@5", "ZADD history:a 5 a@5"],
        "extra:history",
        "a@5",
        &[("ZCARD history:a", "1")],
    ),
    (Dead, &["DEL dead:a"], "missing:dead", "RUN", &[("ZSCORE dead:a RUN", "NOW")]),
    (Over, &["ZADD dead 5 RUN"], "extra:dead", "RUN", &[("ZCARD dead", "0")]),
    (
        Running,
        &["ZADD dead 5 RUN", "ZADD history:a 5 RUN"],
        "extra:history",
        "RUN",
        &[("ZCARD dead", "0"), ("ZCARD history:a", "0")],
    ),
    // The entries of a job.
    (Planned, &["ZREM jobs a"], "missing:jobs", "job a", &[("ZSCORE jobs a", "DUE")]),
    (Planned, &["ZADD jobs 5 a"], "wrong:jobs", "job a", &[("ZSCORE jobs a", "DUE")]),
    (
        Planned,
        &["ZADD jobs 5 nobody", "ZADD finished 5 nobody"],
        "extra:jobs",
        "job nobody",
        &[("ZCARD finished", "0")],
    ),
    (
        Planned,
        &["ZREM due:default RUN", "HSET job:a pending "],
        "missing:pending",
        "job a",
        &[("HGET job:a pending", "RUN")],
    ),
    (
        Planned,
        &["ZREM due:default RUN"],
        "missing:due",
        "job a",
        &[("ZSCORE due:default RUN", "DUE")],
    ),
    (
        Planned,
        &["HSET job:a paused 5"],
        "extra:pending",
        "job a",
        &[("HGET job:a paused_run", "RUN"), ("ZCARD due:default", "0")],
    ),
    (
        Planned,
        &["HSET job:a ended cancelled ended_at 5"],
        "missing:finished",
        "job a",
        &[("ZCARD due:default", "0")],
    ),
];

/// What a repair leaves as it is, with a word of its advice.
const LEFT: [(Scene, &[Command], &str, &str, &str); 8] = [
    (Planned, &["ZADD due:default DUE a@5"], "extra:due", "a@5", "schedctl cancel a@5"),
    (
        Manual,
        &["ZADD due:default DUE a@5~forged"],
        "extra:due",
        "a@5~forged",
        "schedctl cancel a@5~forged",
    ),
    (Over, &["HSET run:RUN state of_tomorrow"], "unreadable:run", "RUN", "--set-aside"),
    (Running, &["HDEL run:RUN fence", "DEL leases"], "missing:leases", "RUN", "--set-aside"),
    (
        Planned,
        &["HSET run:nobody@5 state scheduled"],
        "missing:due",
        "nobody@5",
        "--set-aside nobody@5",
    ),
    (Planned, &["HSET job:a def {\"every\":"], "unreadable:job", "job a", "--set-aside a"),
    (
        Planned,
        &["HSET job:a def {\"every\":\"1m\",\"shell\":\"true\",\"of_tomorrow\":1}"],
        "unreadable:job",
        "job a",
        "update schedd",
    ),
    (Planned, &["SET of_another x"], "unknown_key", "of_another", "DEL"),
];

/// A scene with its run, and the words that stand for what it has.
struct Stage {
    desk: Desk,
    words: Vec<(&'static str, String)>,
}

impl Stage {
    async fn set(scene: Scene) -> Self {
        let mut desk = Desk::new();
        let run = desk.minutely("a").await;
        let mut words = Vec::new();
        let mut own = run.clone();
        if scene == Manual {
            own = RunId::manual(run.job().clone(), t(desk.now()), "hand").unwrap();
            desk.at(desk.now()).plant_manual(&own, &Lane::default_lane(), None).await.unwrap();
        } else if scene != Planned {
            let claim = desk.win_due(&run).await;
            let fence = claim.fence.as_u64();
            words.extend([("FENCE", fence.to_string()), ("BEFORE", (fence - 1).to_string())]);
            let next = desk.pending("a").await;
            words.push(("NEXT", next.to_string()));
            match scene {
                Waiting => desk.wait_due(&next).await,
                Over => desk.succeed(desk.now(), &claim).await,
                Dead => {
                    desk.finish(desk.now(), &claim, Verdict::Final(RunState::Failed)).await;
                }
                Retried => {
                    desk.finish(
                        desk.now(),
                        &claim,
                        Verdict::Retry(std::time::Duration::from_secs(5)),
                    )
                    .await;
                }
                Planned | Running | Manual => {}
            }
        }
        let now = t(desk.now()).as_i64().to_string();
        words.extend([
            ("RUN", own.to_string()),
            ("DUE", own.due().as_i64().to_string()),
            ("NOW", now),
        ]);
        Self { desk, words }
    }

    fn fill(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    }

    /// Does a command, and gives its answer as a text.
    fn act(&self, command: &str) -> String {
        let command = self.fill(command);
        let words: Vec<&str> = command.split(' ').collect();
        match self.desk.get::<redis::Value>(words[0], words[1], &words[2..]) {
            redis::Value::Nil => "-".to_owned(),
            redis::Value::Int(number) => number.to_string(),
            redis::Value::Double(number) => number.to_string(),
            redis::Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_broken_entry_is_found_and_mended() {
    for (scene, breaks, code, subject, left) in MENDED {
        let stage = Stage::set(scene).await;
        stage.desk.demand_sound(&format!("{scene:?}")).await;
        for command in breaks {
            stage.act(command);
        }
        stage.desk.mend(code, &stage.fill(subject)).await;
        for (command, answer) in left {
            assert_eq!(stage.act(command), stage.fill(answer), "{scene:?} {breaks:?}: {command}");
        }
    }
}

#[tokio::test]
async fn a_broken_entry_that_only_a_user_can_judge_is_left_with_advice() {
    for (scene, breaks, code, subject, advice) in LEFT {
        let stage = Stage::set(scene).await;
        for command in breaks {
            stage.act(command);
        }
        stage.desk.leaves(code, &stage.fill(subject), &stage.fill(advice)).await;
    }
}
