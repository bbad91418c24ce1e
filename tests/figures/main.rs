//! The figures of this machine, printed: lateness, adding, an idle node, a burst, how long a killed node's run waits, what
//! history and its trimming cost, what each kind of job and a claim cost Redis, how runs that wait at a gate hold up others, how long an explanation
//! takes over a long history, next occurrences a second, the HTTP API beside a million jobs, runs of workers, what waiting for
//! replicas costs, the slowest texts of each parser, and what shards cost.
//! By their names only: `peers` is schedd beside its peers, `simulation` a simulation of 10,000 nodes.
//! Run by `script/bench` in the release profile. Nothing here is asserted but that the work was done.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

mod api;
mod bounds;
mod claims;
mod crowd;
mod durability;
mod handlers;
#[path = "../suite/api/http_probe.rs"]
#[allow(dead_code, reason = "the suite's client, of which figures need a part")]
mod http_probe;
mod kinds;
mod limits;
mod next;
mod peers;
mod shards;
mod simulation;
#[allow(dead_code, reason = "the tests' support, of which figures need a part")]
#[path = "../suite/support/mod.rs"]
mod support;
mod workers;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_store::RunRecord;
use serde_json::json;
use support::daemon::Schedd;
use support::effects::Effects;
use support::eye::Eye;
use support::redis::TestRedis;
use support::wait::until;

const PATIENCE: Duration = Duration::from_secs(180);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some((_, rest)) = words.split_first().filter(|(first, _)| *first == "peers") {
        return peers::peers(rest);
    }
    if words.iter().any(|word| word == "simulation") {
        return simulation::simulation();
    }
    let asked: Vec<String> = words.into_iter().filter(|word| !word.starts_with('-')).collect();
    let figures: [(&str, fn()); 18] = [
        ("lateness", lateness),
        ("add", add),
        ("idle", idle),
        ("burst", burst),
        ("recovery", recovery),
        ("bounds", bounds::bounds),
        ("crowd", crowd::crowd),
        ("kinds", kinds::kinds),
        ("claim", claims::claim),
        ("gates", gates),
        ("explain", explain),
        ("next", next::next),
        ("api", api::api),
        ("workers", workers::workers),
        ("handlers", handlers::handlers),
        ("durability", durability::durability),
        ("limits", limits::limits),
        ("shards", shards::shards),
    ];
    if let Some(word) = asked.iter().find(|word| figures.iter().all(|(name, _)| name != word)) {
        let names: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "figures: found {word:?}, wanted peers, simulation or some of {}",
            names.join(", ")
        );
        std::process::exit(2);
    }
    for (name, figure) in figures {
        if asked.is_empty() || asked.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            figure();
        }
    }
}

/// Feeds lines to `schedctl add --stdin`; gives how long it took.
fn add_lines(redis: &TestRedis, lines: &str) -> Duration {
    let started = Instant::now();
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_schedctl"))
        .args(["add", "--stdin", "--quiet", "--redis", &redis.url()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    ctl.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(ctl.wait().unwrap().success());
    started.elapsed()
}

/// Adds lines though a busy machine answers too late at times: those that are there already are left.
fn insist_on_lines(redis: &TestRedis, lines: &str) {
    for some in lines.lines().collect::<Vec<_>>().chunks(5_000) {
        until("the lines are added", PATIENCE, || {
            let mut ctl = Command::new(env!("CARGO_BIN_EXE_schedctl"))
                .args(["add", "--stdin", "--quiet", "--if-absent", "--redis", &redis.url()])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let written = ctl.stdin.take().unwrap().write_all(some.join("\n").as_bytes());
            Some(()).filter(|()| ctl.wait().unwrap().success() && written.is_ok())
        });
    }
}

/// Waits until Redis has executed few commands for two seconds: the node has looked at its new data.
fn settle(redis: &TestRedis) {
    const COMMANDS: u64 = 200;
    let mut connection = redis.connection();
    until("the node is idle", PATIENCE, || {
        let before = info(&mut connection, "total_commands_processed:");
        std::thread::sleep(Duration::from_secs(2));
        let spent = info(&mut connection, "total_commands_processed:") - before;
        Some(()).filter(|()| spent < COMMANDS)
    });
}

/// Runs that ended, newest first, at most `limit`.
fn ended(eye: &Eye, limit: usize) -> Vec<RunRecord> {
    eye.ask(eye.store().read_history(None, 0, limit)).unwrap().runs
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((sorted.len() as f64 - 1.0) * share).round() as usize;
    sorted[at]
}

/// 600 one-shots, ten a second, each telling by itself when it began.
fn lateness() {
    let (redis, effects) = (TestRedis::everysec(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("Started.");
    let now = eye.ask(eye.store().now()).unwrap().as_i64();
    let mut lines = String::new();
    for number in 0..600 {
        let at = jiff::Timestamp::from_millisecond(now + 3_000 + number * 100).unwrap();
        let job = json!({"name": format!("n{number}"), "at": at.to_string(), "shell": effects.shell("true")});
        writeln!(lines, "{job}").unwrap();
    }
    add_lines(&redis, &lines);
    until("600 runs have begun", PATIENCE, || Some(()).filter(|()| effects.all().len() == 600));
    let due = |run: &str| run.split('@').nth(1).unwrap().parse::<f64>().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds shown in ms with two digits")]
    let mut by_job: Vec<f64> =
        effects.all().iter().map(|effect| effect.began as f64 / 1e6 - due(&effect.run)).collect();
    until("600 runs have ended", PATIENCE, || {
        Some(()).filter(|()| ended(&eye, 1_000).len() == 600)
    });
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let mut by_claim: Vec<f64> = ended(&eye, 1_000)
        .iter()
        .map(|run| (run.started_at.unwrap().as_i64() - run.run.due().as_i64()) as f64)
        .collect();
    for (what, late) in [
        ("claimed after due", &mut by_claim),
        ("shell's first command's end after due", &mut by_job),
    ] {
        late.sort_by(f64::total_cmp);
        println!(
            "{what}, ms: p50 {:.2}  p99 {:.2}  max {:.2}  min {:.2}",
            percentile(late, 0.5),
            percentile(late, 0.99),
            percentile(late, 1.0),
            percentile(late, 0.0)
        );
    }
}

/// 50,000 jobs far in the future through one `schedctl add --stdin`.
fn add() {
    for (redis, file) in [(TestRedis::start(), "off"), (TestRedis::everysec(), "on")] {
        let mut lines = String::new();
        for number in 0..50_000 {
            writeln!(lines, "{}", json!({"name": format!("n{number}"), "in": format!("{}s", 86_400 + number), "shell": "true"}))
                .unwrap();
        }
        let took = add_lines(&redis, &lines);
        let mut connection = redis.connection();
        let bytes = memory(&mut connection);
        println!(
            "{:.0} jobs/s, {} bytes of Redis memory a job (append-only file: {})",
            50_000.0 / took.as_secs_f64(),
            bytes / 50_000,
            file
        );
    }
}

fn memory(connection: &mut redis::Connection) -> u64 {
    info(connection, "used_memory:")
}

fn info(connection: &mut redis::Connection, field: &str) -> u64 {
    let info: String = redis::cmd("INFO").query(connection).unwrap();
    info.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().parse().unwrap()
}

/// CPU ticks (of 10 ms) a process and its keeper have used, and their resident KiB (proc(5)).
fn usage(pid: u32) -> (u64, u64) {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let all = children.split_whitespace().map(|child| child.parse().unwrap()).chain([pid]);
    all.fold((0, 0), |(ticks, kib), pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let used: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        (ticks + used, kib + resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap())
    })
}

/// A node with 100,000 jobs far in the future, watched for 20 s.
fn idle() {
    let redis = TestRedis::start();
    let mut lines = String::new();
    for number in 0..100_000 {
        writeln!(lines, "{}", json!({"name": format!("n{number}"), "in": format!("{}s", 86_400 + number), "shell": "true"}))
            .unwrap();
    }
    add_lines(&redis, &lines);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("Started.");
    let mut connection = redis.connection();
    let window = Duration::from_secs(20);
    std::thread::sleep(Duration::from_secs(3));
    let (ticks, commands) =
        (usage(node.pid()).0, info(&mut connection, "total_commands_processed:"));
    std::thread::sleep(window);
    let (ticks_after, kib) = usage(node.pid());
    // One INFO of ours lies in between.
    let commands = info(&mut connection, "total_commands_processed:") - commands - 1;
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let (rate, cpu) = (
        commands as f64 / window.as_secs_f64(),
        (ticks_after - ticks) as f64 / window.as_secs_f64(),
    );
    println!(
        "{rate:.1} Redis commands/s (those inside scripts too), {cpu:.2} % CPU, {:.1} MiB RSS, daemon and keeper",
        kib / 1024
    );
}

/// 2,000 one-shots of /bin/true due at one moment.
fn burst() {
    let redis = TestRedis::everysec();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("Started.");
    let at =
        jiff::Timestamp::from_millisecond(eye.ask(eye.store().now()).unwrap().as_i64() + 3_000)
            .unwrap();
    let mut lines = String::new();
    for number in 0..2_000 {
        writeln!(
            lines,
            "{}",
            json!({"name": format!("n{number}"), "at": at.to_string(), "command": ["/bin/true"]})
        )
        .unwrap();
    }
    add_lines(&redis, &lines);
    until("2,000 runs have ended", PATIENCE, || {
        let stats = eye.ask(eye.store().read_stats()).unwrap();
        Some(()).filter(|()| stats.totals.get("succeeded") == Some(&2_000))
    });
    let last = ended(&eye, 1)[0].finished_at.unwrap().as_i64();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let took = (last - at.as_millisecond()) as f64 / 1e3;
    println!(
        "{:.0} runs/s of /bin/true from due to end, concurrency 32, append-only file on",
        2_000.0 / took
    );
}

/// From kill -9 of a node to the next start of its run: on another node after the lease, and on the same one started again.
fn recovery() {
    for again in [false, true] {
        let (redis, effects) = (TestRedis::everysec(), Effects::new());
        let eye = Eye::on(&redis);
        let mut first = Schedd::on(&redis).node("first").start();
        first.wait_for_log("Started.");
        eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 2")}));
        until("it runs", PATIENCE, || effects.all().into_iter().next());
        let other = (!again).then(|| Schedd::on(&redis).node("second").start());
        if let Some(other) = &other {
            other.wait_for_log("Started.");
        }
        let killed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        first.kill9();
        if again {
            first.start_again();
        }
        let next = until("it runs again", PATIENCE, || effects.all().into_iter().nth(1));
        #[expect(clippy::cast_precision_loss, reason = "seconds with two digits")]
        let seconds = (next.began - killed) as f64 / 1e9;
        println!(
            "{seconds:.2} s from kill -9 to the next start, {}",
            if again { "the same node started again" } else { "another node, lease 10 s" }
        );
    }
}

/// 100,000 runs that find their key taken, all due in one instant, and free runs behind them, without gates and with a key of their own,
/// some of those in the shard of the others: how late they start while the others are moved aside, and when they all wait.
fn gates() {
    const BLOCKED: usize = 100_000;
    const FREE: i64 = 100;
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let soon = |ms: i64| eye.ask(eye.store().now()).unwrap().as_i64() + ms;
    let lines = |count: usize,
                 name: &str,
                 at: &dyn Fn(usize) -> i64,
                 key: &dyn Fn(usize) -> serde_json::Value| {
        let mut lines = String::new();
        for number in 0..count {
            let at = jiff::Timestamp::from_millisecond(at(number)).unwrap().to_string();
            let job = json!({"name": format!("{name}{number}"), "at": at, "shell": "true", "key": key(number)});
            let job: serde_json::Map<_, _> = job
                .as_object()
                .unwrap()
                .clone()
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            writeln!(lines, "{}", serde_json::Value::Object(job)).unwrap();
        }
        lines
    };
    // Keys of runs that stand in the same shard as those that are blocked.
    let shard = |key: &str| Lane::default_lane().shard_for(&Gate::of_key(&key.parse().unwrap()));
    let beside: Vec<String> = (0..10_000)
        .map(|number| format!("beside-{number}"))
        .filter(|key| shard(key) == shard("k"))
        .take(100)
        .collect();
    let free = |round: &str, begin: i64| {
        let at = |number: usize| begin + 1 + i64::try_from(number).unwrap() * 50;
        let count = usize::try_from(FREE).unwrap();
        insist_on_lines(
            &redis,
            &lines(count, &format!("free{round}"), &at, &|_| serde_json::Value::Null),
        );
        insist_on_lines(
            &redis,
            &lines(count, &format!("own{round}"), &at, &|number| {
                json!(format!("customer-{number}"))
            }),
        );
        insist_on_lines(
            &redis,
            &lines(count, &format!("beside{round}"), &at, &|number| json!(beside[number])),
        );
    };
    let late = |round: &str, when: &str| {
        for (what, name) in [
            ("without gates", "free"),
            ("with a key of its own", "own"),
            ("with a key of its own, in their shard,", "beside"),
        ] {
            let ends =
                |number: i64| eye.wait_for_history(&format!("{name}{round}{number}"), 1).remove(0);
            #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
            let mut late: Vec<f64> = (0..FREE)
                .map(ends)
                .map(|run| run.started_at.unwrap().since(run.run.due()).as_millis() as f64)
                .collect();
            late.sort_by(f64::total_cmp);
            let (middle, most) = (percentile(&late, 0.5), percentile(&late, 1.0));
            println!(
                "a free run {what} behind those starts late by p50 {middle:.0} ms  max {most:.0} ms, {when}"
            );
        }
    };
    let begin = soon(180_000);
    insist_on_lines(&redis, &lines(BLOCKED, "mass", &|_| begin, &|_| json!("k")));
    free("a", begin);
    eye.add(
        &json!({"name": "holder", "in": "0s", "key": "k", "shell": effects.shell("sleep 3600")}),
    );
    let _node = Schedd::on(&redis).start();
    until("the key is taken", PATIENCE, || effects.of("holder").into_iter().next());
    let mut connection = redis.connection();
    let wait = begin - soon(0);
    assert!(wait > 2_000, "the others were added too late");
    std::thread::sleep(Duration::from_millis(u64::try_from(wait).unwrap()));
    let (started, before) = (Instant::now(), cpu_seconds(&mut connection));
    until("all wait", Duration::from_secs(300), || {
        let queued: usize = redis::cmd("ZCARD")
            .arg("{schedd}:gate_waiters:key:k")
            .query(&mut redis.connection())
            .unwrap();
        (queued == BLOCKED).then_some(())
    });
    let (took, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds(&mut connection) - before);
    println!(
        "{BLOCKED} runs whose key is taken, due in one instant, wait at its gate after {took:.1} s, {cpu:.1} s of them Redis' CPU"
    );
    late("a", "while they are moved there");
    free("b", soon(10_000));
    std::thread::sleep(Duration::from_secs(15));
    late("b", "when they all wait");
}

/// CPU time Redis has used: unlike the time its commands took, not that of others on this machine.
fn cpu_seconds(connection: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(connection).unwrap();
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim()
            .parse::<f64>()
            .unwrap()
    };
    field("used_cpu_user_main_thread:") + field("used_cpu_sys_main_thread:")
}

/// A job with 1,000,000 runs in history, explained in four ways by `schedctl`, twenty times each.
fn explain() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "j", "every": "1s", "shell": "true"}));
    let mut connection = redis.connection();
    let now = eye.ask(eye.store().now()).unwrap().floor_to_second().as_i64();
    let write = "for n = ARGV[1], ARGV[1] + 9999 do
      local due = string.format('%.0f', ARGV[2] - n * 1000)
      local id = 'j@' .. due
      redis.call('HSET', '{schedd}:run:' .. id, 'job', 'j', 'due', due, 'queue', 'default', 'kind', 'regular', 'state', 'succeeded',
        'attempt', 1, 'fence', due, 'node', 'n1', 'started_at', due, 'finished_at', due, 'reason', '', 'exit_code', '0')
      redis.call('ZADD', '{schedd}:history:j', due, id)
      redis.call('ZADD', '{schedd}:history', due, id)
    end";
    for first in (1..1_000_000).step_by(10_000) {
        let () = redis::cmd("EVAL")
            .arg(write)
            .arg(0)
            .arg(first)
            .arg(now)
            .query(&mut connection)
            .unwrap();
    }
    let at = |seconds: i64, ms: i64| {
        jiff::Timestamp::from_millisecond(now - seconds * 1000 + ms).unwrap().to_string()
    };
    let (middle, between) = (at(500_000, 0), at(500_000, 500));
    let ways: [(&str, &[&str]); 4] = [
        ("the job", &[]),
        ("--last", &["--last"]),
        ("--at a run", &["--at", &middle]),
        ("--at none", &["--at", &between]),
    ];
    for (what, words) in ways {
        let mut took: Vec<f64> = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            let mut ctl = Command::new(env!("CARGO_BIN_EXE_schedctl"));
            ctl.args(["explain", "j", "--json", "--redis", &redis.url()]).args(words);
            let output = ctl.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            took.push(started.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        println!(
            "explain {what}, the whole command: p50 {:.1} ms  max {:.1} ms",
            percentile(&took, 0.5),
            percentile(&took, 1.0)
        );
    }
}
