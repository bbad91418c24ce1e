//! A namespace of a test's own with the time in the test's hand, short forms of what tests do to it, and the check that it
//! is sound: whatever was done, indexes, counters and records say the same.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Connection, FromRedisValue};
use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::queue::gate::{Gate, PerKey};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    Address, ApplyOrder, ApplyReply, CancelOrder, Claim, ClaimOrder, ClaimReply, Claimant,
    DefinitionChange, Existing, FinishReply, JobRecord, Keys, RunRecord, SourceKind, Store,
    Successor, Takers, Verdict,
};

use crate::support::redis::TestRedis;
use crate::support::snapshot::snapshot;

/// How long the tests' leases last.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The score in `jobs` of a job without a next run.
const PARKED: i64 = 4_102_444_800_000;

pub(crate) struct World {
    pub(crate) redis: TestRedis,
    pub(crate) store: Store,
    namespace: String,
    /// The connection of the tests' own commands, made at the first command.
    connection: RefCell<Option<Connection>>,
}

/// The instant `offset` ms from the tests' zero.
pub(crate) fn t(offset: i64) -> UnixMillis {
    UnixMillis::new(1_790_000_000_000 + offset).unwrap()
}

/// The regular run of `job` due at [`t`] of `offset`.
pub(crate) fn run_of(job: &str, offset: i64) -> RunId {
    RunId::regular(job.parse().unwrap(), t(offset))
}

pub(crate) fn name(text: &str) -> JobName {
    text.parse().unwrap()
}

pub(crate) fn queue(text: &str) -> Lane {
    text.parse().unwrap()
}

pub(crate) fn gate(name: &str) -> Gate {
    Gate::from_name(name).unwrap()
}

pub(crate) fn successor(job: &str, offset: i64) -> Successor {
    Successor::on_time(&name(job), t(offset))
}

/// A word no other call of this process has.
pub(crate) fn token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("token{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn claimant(node: &str) -> Claimant {
    Claimant {
        holder: node.to_owned(),
        incarnation: format!("{node}-1"),
        lease: LEASE,
        claim_note: None,
    }
}

/// A definition that differs from all others by `version` alone. The first is that of [`definition`].
pub(crate) fn version(version: &str) -> String {
    if version == "v1" { "{}".to_owned() } else { format!(r#"{{"version":"{version}"}}"#) }
}

/// A new recurring job of the command line, first due at [`t`] of `offset`.
pub(crate) fn definition(job: &str, offset: i64) -> ApplyOrder {
    ApplyOrder {
        name: name(job),
        definition: version("v1"),
        read: None,
        kind: SourceKind::Api,
        source: "schedctl add".to_owned(),
        token: token(),
        tz: "UTC".to_owned(),
        lane: Lane::default_lane(),
        is_once: false,
        delay: None,
        max_runs: None,
        not_while: BTreeSet::new(),
        after: String::new(),
        notify: String::new(),
        change: DefinitionChange::Schedule,
        planted: Some(successor(job, offset)),
        anchor: t(0),
        existing: Existing::Edit,
        planned: None,
        passed: None,
        schedules: None,
        unique: None,
        old_key: None,
        old_gates: Vec::new(),
        gated: None,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(TestRedis::start(), "w")
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn on(redis: TestRedis, namespace: &str) -> Self {
        let store =
            Store::new(&Address::parse(&redis.url()).unwrap(), Keys::new(namespace).unwrap())
                .unwrap();
        Self { redis, store, namespace: namespace.to_owned(), connection: RefCell::default() }
    }

    /// The store at the instant `offset` ms from zero.
    pub(crate) fn at(&self, offset: i64) -> Store {
        self.store.at(t(offset))
    }

    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.namespace)
    }

    /// A command on the key `rest` of the namespace.
    #[track_caller]
    pub(crate) fn raw<T: FromRedisValue>(&self, command: &str, rest: &str, args: &[&str]) -> T {
        self.query(redis::cmd(command).arg(self.key(rest)).arg(args))
    }

    #[track_caller]
    fn query<T: FromRedisValue>(&self, command: &redis::Cmd) -> T {
        self.connected(|connection| command.query(connection)).unwrap()
    }

    /// Does `work` with the one connection, or with a new connection if the server was restarted.
    fn connected<T>(
        &self,
        work: impl Fn(&mut Connection) -> redis::RedisResult<T>,
    ) -> redis::RedisResult<T> {
        let mut own = self.connection.borrow_mut();
        let connection = own.get_or_insert_with(|| self.redis.connection());
        match work(connection) {
            Err(error) if error.is_unrecoverable_error() => {
                work(own.insert(self.redis.connection()))
            }
            done => done,
        }
    }

    #[track_caller]
    pub(crate) fn server<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.query(redis::cmd(words[0]).arg(&words[1..]))
    }

    /// The whole content of this Redis, less the counters of changes: these only say that nodes
    /// should look again, and a script may count a change that another of the same effect does not.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, String> {
        let mut all = self.connected(snapshot).unwrap();
        all.retain(|key, _| !key.ends_with(":nudge"));
        all
    }

    /// The score of `member` in the key `rest`, as whole ms from zero; none if it is not there.
    pub(crate) fn score(&self, rest: &str, member: &str) -> Option<i64> {
        let score: Option<String> = self.raw("ZSCORE", rest, &[member]);
        score.map(|score| score.parse::<i64>().unwrap() - t(0).as_i64())
    }

    /// The score of `member` in the key `rest` as it stands there; none if it is not there.
    pub(crate) fn score_text(&self, rest: &str, member: &str) -> Option<String> {
        self.raw("ZSCORE", rest, &[member])
    }

    /// When `job` stands in the index of jobs, as ms from zero; none = without a next run.
    pub(crate) fn indexed(&self, job: &str) -> Option<i64> {
        self.score("jobs", job).filter(|score| *score != PARKED - t(0).as_i64())
    }

    pub(crate) fn total(&self, word: &str) -> i64 {
        self.raw::<Option<i64>>("HGET", "counters", &[word]).unwrap_or(0)
    }

    pub(crate) async fn plant(&self, job: &str, offset: i64) -> RunId {
        self.plant_as(definition(job, offset)).await
    }

    pub(crate) async fn plant_once(&self, job: &str, offset: i64) -> RunId {
        self.plant_as(ApplyOrder { is_once: true, ..definition(job, offset) }).await
    }

    /// Applies the definition of a new job, a second before zero.
    pub(crate) async fn plant_as(&self, order: ApplyOrder) -> RunId {
        assert_eq!(self.at(-1000).apply_job(&order).await.unwrap(), ApplyReply::Created);
        order.planted.unwrap().run
    }

    /// Plants a manual run of `job` at `offset`.
    pub(crate) async fn by_hand(&self, job: &str, offset: i64) -> RunId {
        let run = RunId::manual(name(job), t(offset), "hand").unwrap();
        let reply = self.at(offset).plant_manual(&run, &Lane::default_lane(), None).await.unwrap();
        assert_eq!(reply, schedd_store::ManualReply::Planted);
        run
    }

    pub(crate) async fn job(&self, job: &str) -> JobRecord {
        self.store.read_job(&name(job)).await.unwrap().unwrap()
    }

    pub(crate) async fn run(&self, run: &RunId) -> RunRecord {
        self.store.read_run(run).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, run: &RunId) -> RunState {
        self.run(run).await.state
    }

    /// An order for a run of a job as it is now: overlap skip, no successor.
    pub(crate) async fn order(&self, run: &RunId) -> ClaimOrder {
        let job = self.job(run.job().as_str()).await;
        ClaimOrder {
            run: run.clone(),
            rev: job.rev,
            delivery: Delivery::AtLeastOnce,
            overlap: Overlap::Skip,
            max_caught_up: None,
            max_age: None,
            latest_start: None,
            max_runs: None,
            successor: None,
            job_lane: job.lane,
            gates: Vec::new(),
            known_places: Vec::new(),
            per_key: PerKey::default(),
        }
    }

    /// The same for one that has to pass these gates.
    pub(crate) async fn order_at(&self, run: &RunId, gates: &[&str]) -> ClaimOrder {
        ClaimOrder { gates: gates.iter().map(|name| gate(name)).collect(), ..self.order(run).await }
    }

    /// Claims a run for sure through these gates.
    pub(crate) async fn win_at(&self, offset: i64, run: &RunId, gates: &[&str]) -> Claim {
        Self::won(self.claim(offset, &self.order_at(run, gates).await).await)
    }

    /// Gives the free places of a gate to those that wait; how many there were.
    pub(crate) async fn open(&self, offset: i64, name: &str) -> u64 {
        self.at(offset).open_gate(&gate(name), &[], &mut Takers::default()).await.unwrap().given
    }

    /// Looks at every gate that is to be looked at, as a node does.
    pub(crate) async fn open_all(&self, offset: i64) {
        for _ in 0..1_000 {
            let poll = self.at(offset).list_due(&[]).await.unwrap();
            if poll.gates.is_empty() {
                return;
            }
            for gate in poll.gates {
                self.at(offset).open_gate(&gate, &[], &mut Takers::default()).await.unwrap();
            }
        }
        panic!("the gates are to be looked at for ever");
    }

    /// The same with the overlap rule and the successor's due as ms from zero.
    pub(crate) async fn order_with(&self, run: &RunId, overlap: Overlap, next: i64) -> ClaimOrder {
        ClaimOrder {
            overlap,
            successor: Some(successor(run.job().as_str(), next)),
            ..self.order(run).await
        }
    }

    pub(crate) async fn claim(&self, offset: i64, order: &ClaimOrder) -> ClaimReply {
        let at = self.at(offset);
        let replies = at
            .claim_runs(
                usize::MAX,
                &claimant("n1"),
                &order.job_lane,
                &token(),
                std::slice::from_ref(order),
            )
            .await;
        replies.unwrap().pop().unwrap()
    }

    #[track_caller]
    pub(crate) fn won(reply: ClaimReply) -> Claim {
        match reply {
            ClaimReply::Claimed(claim) => claim,
            other => panic!("not claimed: {other:?}"),
        }
    }

    /// Claims a run for sure: overlap skip, no successor.
    pub(crate) async fn win(&self, offset: i64, run: &RunId) -> Claim {
        Self::won(self.claim(offset, &self.order(run).await).await)
    }

    /// Claims a run for sure and plants its successor.
    pub(crate) async fn win_with(
        &self,
        offset: i64,
        run: &RunId,
        overlap: Overlap,
        next: i64,
    ) -> Claim {
        Self::won(self.claim(offset, &self.order_with(run, overlap, next).await).await)
    }

    pub(crate) async fn finish(&self, offset: i64, claim: &Claim, verdict: Verdict) -> FinishReply {
        self.at(offset)
            .finish_run(claim, &verdict, "", &[("exit_code", "0".to_owned())], "{\"x\":1}")
            .await
            .unwrap()
    }

    pub(crate) async fn succeed(&self, offset: i64, claim: &Claim) {
        let reply = self.finish(offset, claim, Verdict::Final(RunState::Succeeded)).await;
        assert!(matches!(reply, FinishReply::Finished(_)), "{reply:?}");
    }

    /// An order to cancel a run, as the engine makes it.
    pub(crate) async fn cancelling(&self, run: &RunId, next: Option<i64>) -> CancelOrder {
        let job = self.job(run.job().as_str()).await;
        let record = self.store.read_run(run).await.unwrap();
        CancelOrder {
            run: run.clone(),
            lane: record.map_or_else(|| job.lane.clone(), |record| record.lane),
            job: Some((job.rev, job.lane)),
            successor: next.map(|next| successor(run.job().as_str(), next)),
            reason: "by a test".to_owned(),
        }
    }

    fn members(&self, rest: &str) -> BTreeMap<String, i64> {
        let flat: Vec<(String, f64)> = self.raw("ZRANGE", rest, &["0", "-1", "WITHSCORES"]);
        #[expect(clippy::cast_possible_truncation, reason = "scores are ms")]
        flat.into_iter().map(|(member, score)| (member, score as i64)).collect()
    }

    fn names_under(&self, prefix: &str) -> Vec<String> {
        let start = self.key(prefix);
        let keys: Vec<String> = self.server(&["KEYS", &format!("{start}*")]);
        let mut names: Vec<String> =
            keys.iter().filter_map(|key| key.strip_prefix(&start).map(str::to_owned)).collect();
        names.sort_unstable();
        names
    }

    /// Where runs wait at gates, and where they hold places; each with the names of the gates.
    #[track_caller]
    pub(crate) fn at_gates(&self) -> (BTreeMap<String, String>, BTreeMap<String, Vec<String>>) {
        let (mut queued, mut held) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
        for name in self.names_under("gate_waiters:") {
            for run in self.members(&format!("gate_waiters:{name}")).into_keys() {
                assert_eq!(queued.insert(run, name.clone()), None, "one waits at two gates");
            }
        }
        let families =
            ["gate_waiters", "gate_waiters_by_job", "gate_waiters_by_lane", "gate_waiter_lanes"];
        let names: BTreeSet<String> =
            families.iter().flat_map(|family| self.names_under(&format!("{family}:"))).collect();
        for name in &names {
            self.assert_orders_sound(name);
        }
        for name in self.names_under("gate_holders:") {
            for run in self.members(&format!("gate_holders:{name}")).into_keys() {
                held.entry(run).or_default().push(name.clone());
            }
        }
        (queued, held)
    }

    /// Fails unless the orders by job and by lane of a gate name those that wait there and no others.
    #[track_caller]
    fn assert_orders_sound(&self, name: &str) {
        let state: BTreeMap<String, String> = self.raw("HGETALL", &format!("gate:{name}"), &[]);
        let (mut by_job, mut firsts) =
            (BTreeSet::new(), BTreeMap::<(String, String), String>::new());
        for run in self.members(&format!("gate_waiters:{name}")).into_keys() {
            let lane = state
                .get(&format!("lane:{run}"))
                .unwrap_or_else(|| panic!("nobody knows where {run} goes from {name}"));
            let id: RunId = run.parse().unwrap();
            let dated = format!("{:015} {run}", id.due().as_i64());
            by_job.insert(format!("{} {lane} {dated}", id.job()));
            let first =
                firsts.entry((lane.clone(), id.job().to_string())).or_insert_with(|| dated.clone());
            *first = dated.min(first.clone());
        }
        let by_lane: BTreeSet<String> =
            firsts.iter().map(|((lane, _), dated)| format!("{lane} {dated}")).collect();
        let mut lanes = BTreeMap::new();
        for (lane, dated) in firsts.into_iter().map(|((lane, _), dated)| (lane, dated)) {
            let first = lanes.entry(lane).or_insert_with(|| dated.clone());
            *first = dated.min(first.clone());
        }
        let lanes: BTreeMap<String, i64> = lanes
            .into_iter()
            .map(|(lane, dated)| {
                let (due, run) = dated.split_once(' ').unwrap();
                let stuck = state
                    .get(&format!("stuck:{lane}"))
                    .map(|mark| -mark.split_once(' ').unwrap().1.parse::<i64>().unwrap());
                (format!("{run} {lane}"), stuck.unwrap_or_else(|| due.parse().unwrap()))
            })
            .collect();
        let names = |family: &str| {
            self.members(&format!("{family}:{name}")).into_keys().collect::<BTreeSet<_>>()
        };
        assert_eq!(names("gate_waiters_by_job"), by_job, "those that wait at {name} by job");
        assert_eq!(
            names("gate_waiters_by_lane"),
            by_lane,
            "the first of each job and lane at {name}"
        );
        assert_eq!(
            self.members(&format!("gate_waiter_lanes:{name}")),
            lanes,
            "the first of each lane at {name}"
        );
    }

    /// Fails unless whoever stands at a gate is to by its record.
    #[track_caller]
    fn assert_gates_sound(
        &self,
        queued: &BTreeMap<String, String>,
        held: &BTreeMap<String, Vec<String>>,
    ) {
        for (run, gates) in held {
            let [places, state]: [Option<String>; 2] =
                self.raw("HMGET", &format!("run:{run}"), &["places", "state"]);
            assert!(
                ["running", "scheduled"].contains(&state.as_deref().unwrap_or("none")),
                "{run} holds {gates:?} and is {state:?}"
            );
            let places: Vec<&str> = places.as_deref().unwrap_or("").split(' ').collect();
            assert!(
                gates.iter().all(|name| places.contains(&name.as_str())),
                "{run} holds {gates:?}, its record says {places:?}"
            );
        }
        for (run, gate) in queued {
            let [places, state]: [Option<String>; 2] =
                self.raw("HMGET", &format!("run:{run}"), &["places", "state"]);
            assert_eq!(state.as_deref(), Some("scheduled"), "{run} waits at {gate}");
            assert!(
                places.as_deref().unwrap_or("").ends_with(gate.as_str()),
                "{run} waits at {gate}, its record says {places:?}"
            );
        }
    }

    /// Fails unless indexes, counters and records agree.
    #[track_caller]
    #[expect(clippy::too_many_lines, reason = "one step for each index")]
    pub(crate) fn assert_sound(&self) {
        let over_or_gone = self.stale_entries();
        assert!(over_or_gone.is_empty(), "indexes name what is over or gone: {over_or_gone:#?}");
        let (queued, held) = self.at_gates();
        self.assert_gates_sound(&queued, &held);
        let (jobs, leases) = (self.members("jobs"), self.members("leases"));
        let mut due: BTreeMap<String, i64> = BTreeMap::new();
        for queue in self.names_under("due:") {
            for (run, ready) in self.members(&format!("due:{queue}")) {
                assert_eq!(due.insert(run.clone(), ready), None, "{run} is due in two queues");
            }
        }
        let mut live = BTreeSet::new();
        let mut waiting_in_all = i64::try_from(queued.len()).unwrap();
        for job in self.names_under("job:") {
            let [pending, ended, paused]: [Option<String>; 3] =
                self.raw("HMGET", &format!("job:{job}"), &["pending", "ended", "paused"]);
            let pending = pending.filter(|id| !id.is_empty());
            if ended.is_none() {
                let wanted = pending
                    .as_ref()
                    .map_or(PARKED, |id| id.parse::<RunId>().unwrap().due().as_i64());
                assert_eq!(
                    jobs.get(&job),
                    Some(&wanted),
                    "index of {job} with pending {pending:?}"
                );
                live.insert(job.clone());
            } else {
                assert_eq!(pending, None, "{job} has ended");
                assert!(self.members("finished").contains_key(&job), "{job} has ended");
            }
            if let Some(id) = &pending {
                assert!(due.contains_key(id), "pending {id} is not due");
                assert_eq!(paused, None, "{job} is paused with a pending run");
            }
            for (run, due_at) in self.members(&format!("open:{job}")) {
                assert_eq!(run.parse::<RunId>().unwrap().due().as_i64(), due_at);
                let is_leased = leases.keys().any(|lease| lease.starts_with(&format!("{run}#")));
                let stands = [is_leased, due.contains_key(&run), queued.contains_key(&run)];
                assert_eq!(
                    stands.iter().filter(|is_there| **is_there).count(),
                    1,
                    "open {run} is [leased, due, at a gate]: {stands:?}"
                );
            }
            for run in self.members(&format!("catch_up:{job}")).keys() {
                assert!(due.contains_key(run), "spread {run} is not due");
                assert_ne!(pending.as_ref(), Some(run), "spread and pending");
            }
            let waiting = self.members(&format!("waiting:{job}"));
            waiting_in_all += i64::try_from(waiting.len()).unwrap();
            assert!(
                waiting.keys().all(|run| !due.contains_key(run)),
                "waiting and due: {waiting:?}"
            );
            let open = self.members(&format!("open:{job}"));
            let is_manual_out = due
                .keys()
                .chain(leases.keys())
                .chain(queued.keys())
                .any(|run| run.starts_with(&format!("{job}@")) && run.contains('~'));
            assert!(
                waiting.is_empty() || !open.is_empty() || is_manual_out,
                "nothing will free {waiting:?}"
            );
        }
        for letter in self.members("dead").keys() {
            let state: Option<String> = self.raw("HGET", &format!("run:{letter}"), &["state"]);
            assert!(
                state.is_some_and(|state| state.parse::<RunState>().unwrap().is_dead()),
                "{letter} is no dead letter"
            );
        }
        assert_eq!(jobs.keys().cloned().collect::<BTreeSet<_>>(), live, "the index of jobs");
        assert_eq!(self.total("waiting"), waiting_in_all, "totals.waiting");
        let mut counted = BTreeMap::new();
        for name in self.names_under("running:") {
            for run in self.members(&format!("running:{name}")).into_keys() {
                assert_eq!(
                    counted.insert(run.clone(), name.clone()),
                    None,
                    "{run} is counted in two queues"
                );
            }
        }
        let executing = leases.keys().filter_map(|lease| lease.split_once('#')).map(|(run, _)| {
            let lane: Option<String> = self.raw("HGET", &format!("run:{run}"), &["queue"]);
            (
                run.to_owned(),
                lane.unwrap_or_default()
                    .split(['!', '~', '+'])
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )
        });
        assert_eq!(counted, executing.collect::<BTreeMap<_, _>>(), "what is counted as running");
        for lease in leases.keys() {
            let (run, fence) = lease.split_once('#').unwrap();
            let record: [Option<String>; 2] =
                self.raw("HMGET", &format!("run:{run}"), &["state", "fence"]);
            assert_eq!(
                record,
                [Some("running".to_owned()), Some(fence.to_owned())],
                "lease {lease}"
            );
        }
        for run in self.names_under("run:") {
            let state: String = self.raw("HGET", &format!("run:{run}"), &["state"]);
            let state: RunState = state.parse().unwrap();
            let (is_final, is_dead) = (state.is_final(), state.is_dead());
            let job = run.split_once('@').unwrap().0;
            let ended_at: Option<i64> = self.raw("HGET", &format!("run:{run}"), &["finished_at"]);
            for index in ["history".to_owned(), format!("history:{job}")] {
                let is_there = self.members(&index).contains_key(&run);
                // A dead letter may have left history, and is kept all the same.
                assert!(
                    is_final == is_there || is_dead,
                    "{run} is {state}, in {index}: {is_there}"
                );
            }
            for index in ["dead".to_owned(), format!("dead:{job}")] {
                assert_eq!(
                    self.members(&index).get(&run).copied(),
                    ended_at.filter(|_| is_dead),
                    "{run} is {state}, in {index}"
                );
            }
            assert!(is_final || ended_at.is_none(), "{run} is {state} and has ended");
            if run.contains('~') {
                let is_listed = self.members(&format!("manual:{job}")).contains_key(&run);
                assert_eq!(
                    is_listed, !is_final,
                    "manual run {run} is {state} and listed: {is_listed}"
                );
            }
            if is_final {
                assert!(!due.contains_key(&run), "{run} is over and due");
                assert_eq!(
                    self.raw::<Option<String>>("HGET", "stop_requests", &[&run]),
                    None,
                    "{run} is over"
                );
            }
        }
    }
}
