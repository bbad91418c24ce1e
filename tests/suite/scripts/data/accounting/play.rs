//! A job that lives through steps: what is done to it, and which schedule held when.

use std::collections::BTreeSet;

use schedd::engine::Definition;
use schedd::engine::dispatch::orphans;
use schedd::engine::planning::planting;
use schedd::engine::planning::planting::{Applied, Request};
use schedd::engine::planning::{job_operations, passed_ranges};
use schedd::engine::recovery::restored_ends;
use schedd_core::config;
use schedd_core::domain::job::job_spec::gates_of;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness;
use schedd_schedule::lateness::{Decision, Due};
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;
use schedd_store::{
    Claim, ClaimOrder, ClaimReply, Existing, LaneAsk, LanePoll, ManualReply, RecoverReply,
    RestoreOrder, SkipOrder, SkipReply, SourceKind, SpreadOrder, SpreadReply, StopRunning,
    Successor, Verdict,
};
use serde_json::{Value, json};

use super::Step;
use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::data::losing::{LATER, restoring};
use crate::scripts::world::{LEASE, World, claimant, name, queue, t, token};

/// A time in which one schedule held.
pub(super) struct Version {
    pub(super) timetable: Timetable,
    pub(super) from: UnixMillis,
    /// To the end, this one included; none = it still holds.
    pub(super) until: Option<UnixMillis>,
}

pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) now: i64,
    pub(super) rules: Value,
    pub(super) edits: u32,
    pub(super) schedule: usize,
    pub(super) versions: Vec<Version>,
    pub(crate) running: Vec<(Claim, i64)>,
    pub(super) is_allowed: bool,
    pub(super) is_forgotten: bool,
    /// The occurrences that were given back.
    pub(super) given_back: BTreeSet<UnixMillis>,
}

impl Play {
    /// A job of these rules, just added.
    pub(crate) async fn begin(rules: Value) -> Self {
        let world = World::new();
        let is_allowed = rules["overlap"] == "allow";
        let mut play = Self {
            world,
            now: 0,
            rules,
            edits: 0,
            schedule: 0,
            versions: Vec::new(),
            running: Vec::new(),
            is_allowed,
            is_forgotten: false,
            given_back: BTreeSet::new(),
        };
        let spec = play.spec();
        play.apply(&spec).await;
        play
    }

    pub(super) fn instant(&self) -> UnixMillis {
        t(self.now)
    }

    pub(super) async fn definition(&self) -> Option<Definition> {
        self.world
            .store
            .read_job(&name("a"))
            .await
            .unwrap()
            .map(|record| Definition::of(record).unwrap())
    }

    pub(super) fn spec(&self) -> Value {
        let mut spec = self.rules.clone();
        let keys = spec.as_object_mut().unwrap();
        keys.insert("name".to_owned(), json!("a"));
        keys.insert("shell".to_owned(), json!("true"));
        keys.insert("timeout".to_owned(), json!(format!("{}s", 60 + self.edits)));
        let (key, value) = match self.schedule {
            0 => ("every", json!("1m")),
            1 => ("every", json!("47s")),
            2 => ("cron", json!("* * * * *")),
            3 => ("cron", json!(["*/2 * * * *", "*/3 * * * *"])),
            _ => ("at", json!(t(self.now + 100_000).to_string())),
        };
        keys.insert(key.to_owned(), value);
        spec
    }

    async fn apply(&mut self, spec: &Value) {
        let job = config::job_from_value(spec, &Zone::utc()).unwrap();
        let request = Request {
            name: name("a"),
            is_drawn: false,
            spec: job.spec,
            start_in: None,
            kind: SourceKind::Api,
            source: "api".to_owned(),
            existing: Existing::Edit,
            seen: None,
        };
        let before = self.definition().await.filter(|old| old.record.is_live());
        let applied =
            planting::apply_one(&self.world.at(self.now), &Zone::utc(), &request).await.unwrap();
        let after = self.definition().await.unwrap();
        let is_same = before.is_some_and(|before| before.spec.schedule == after.spec.schedule);
        match applied {
            Applied::Updated(_) if is_same => {}
            Applied::Created(_) | Applied::Updated(_) => {
                let now = self.instant();
                if let Some(version) =
                    self.versions.last_mut().filter(|version| version.until.is_none())
                {
                    version.until = Some(now);
                }
                self.versions.push(Version { timetable: after.timetable, from: now, until: None });
            }
            _ => {}
        }
    }

    pub(crate) async fn step(&mut self, step: &Step) {
        self.now += 1;
        let store = self.world.at(self.now);
        match step {
            Step::Advance(by) => self.now += by,
            Step::Claim => self.claim_all().await,
            Step::Finish(at) => self.settle(*at, Verdict::Final(RunState::Succeeded)).await,
            Step::Fail(at) => {
                self.settle(*at, Verdict::Retry(std::time::Duration::from_secs(30))).await;
            }
            Step::Die(at) => self.settle(*at, Verdict::Final(RunState::Failed)).await,
            Step::Lose(at) => {
                if *at < self.running.len() {
                    let (claim, claimed) = self.running.remove(*at);
                    let end = claimed + i64::try_from(LEASE.as_millis()).unwrap();
                    self.now = self.now.max(end + 1);
                    let reply = self
                        .world
                        .at(self.now)
                        .recover_run(&expired(&claim, end), &recovery(None))
                        .await
                        .unwrap();
                    assert!(
                        matches!(reply, RecoverReply::Recovered | RecoverReply::Ended),
                        "{reply:?}"
                    );
                }
            }
            Step::Pause => drop(job_operations::pause(&store, &name("a")).await.unwrap()),
            Step::Resume => drop(job_operations::resume(&store, &name("a")).await.unwrap()),
            Step::EditSchedule(which) => {
                (self.schedule, self.edits) = (*which, self.edits + 1);
                let spec = self.spec();
                self.apply(&spec).await;
            }
            Step::EditRest => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live())
                else {
                    return;
                };
                let mut spec: Value = serde_json::from_str(&definition.record.definition).unwrap();
                self.edits += 1;
                spec["name"] = json!("a");
                spec["timeout"] = json!(format!("{}s", 60 + self.edits));
                self.apply(&spec).await;
            }
            Step::Cancel(at) => self.cancel(*at).await,
            Step::GiveBack(which) => self.give_back(*which).await,
            Step::Trim(most) => {
                while store.forget_runs(Some(&name("a")), UnixMillis::EPOCH, *most).await.unwrap()
                    > 0
                {}
            }
            Step::Manual => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live())
                else {
                    return;
                };
                let run = RunId::manual(name("a"), self.instant(), "hand").unwrap();
                assert_eq!(
                    store.plant_manual(&run, &definition.record.lane, None).await.unwrap(),
                    ManualReply::Planted
                );
            }
            Step::Remove => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live())
                else {
                    return;
                };
                let planned = definition.record.pending.or(definition.record.paused_run);
                job_operations::cancel_job(&store, &name("a"), StopRunning::Yes, "by a test")
                    .await
                    .unwrap();
                let now = self.instant();
                let version = self.versions.last_mut().unwrap();
                // Of what would have come after a planned run that is not due nothing is owed any more.
                let before =
                    |due: UnixMillis| due.saturating_sub(std::time::Duration::from_millis(1));
                version.until = Some(planned.map_or(now, |run| match run.due() {
                    due if due <= now => now,
                    due if definition.record.is_once => due,
                    due => before(due),
                }));
            }
        }
    }

    pub(crate) async fn settle(&mut self, at: usize, verdict: Verdict) {
        if at < self.running.len() {
            let (claim, _) = self.running.remove(at);
            self.world.finish(self.now, &claim, verdict).await;
        }
    }

    /// Gives back that one of the occurrences so far was executed, which Redis does not know of. None that executes: its holder
    /// ends it.
    async fn give_back(&mut self, which: usize) {
        if self.is_forgotten {
            return;
        }
        let now = self.instant();
        let mut dues = BTreeSet::new();
        for version in &self.versions {
            let all = std::iter::successors(version.timetable.next_after(version.from), |at| {
                version.timetable.next_after(*at)
            });
            dues.extend(all.take_while(|due| *due <= version.until.unwrap_or(now).min(now)));
        }
        for (claim, _) in &self.running {
            dues.remove(&claim.run.due());
        }
        let Some(due) = dues.iter().nth(which % dues.len().max(1)) else { return };
        let run = RunId::regular(name("a"), *due);
        let orders = [RestoreOrder { finished_at: now, ..restoring(&run, "", LATER) }];
        let given = restored_ends::give_back(&self.world.at(self.now), &orders, |run, error| {
            panic!("{run}: {error}")
        })
        .await
        .unwrap();
        assert_eq!(given.restored + given.known, 1, "{run}: {given:?}");
        if given.restored == 1 {
            self.given_back.insert(*due);
        }
    }

    /// Cancels a run that is due, waits or runs.
    async fn cancel(&mut self, at: usize) {
        let mut ids: Vec<String> = self.world.raw(
            "ZRANGE",
            "due:default",
            &["-inf", &t(self.now).as_i64().to_string(), "BYSCORE"],
        );
        ids.extend(self.world.at_gates().0.into_keys());
        ids.extend(self.world.raw::<Vec<String>>("ZRANGE", "waiting:a", &["0", "-1"]));
        ids.extend(self.running.iter().map(|(claim, _)| claim.run.to_string()));
        if let Some(id) = ids.get(at) {
            job_operations::cancel_run(&self.world.at(self.now), &id.parse().unwrap(), "by a test")
                .await
                .unwrap();
        }
    }

    /// Takes what is due as a node does, until nothing more is.
    async fn claim_all(&mut self) {
        for _ in 0..60 {
            self.world.open_all(self.now).await;
            let poll = self
                .world
                .at(self.now)
                .list_due(&[LaneAsk::new(queue("default"), 50)])
                .await
                .unwrap();
            let LanePoll::Due { due, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
            if due.is_empty() {
                return;
            }
            for entry in due {
                self.take(&entry.member.parse().unwrap()).await;
            }
        }
        panic!("the queue does not drain");
    }

    async fn take(&mut self, run: &RunId) {
        let mut taken = UnixMillis::EPOCH;
        while let Some(occupied) = self.take_once(run, taken).await {
            assert!(occupied > taken, "{run} finds no next one past {taken}");
            taken = occupied;
        }
    }

    /// The same, with what comes next past `taken`; an occurrence that would come next and has a record, if that is so.
    #[expect(clippy::too_many_lines, reason = "one reply of the claim after the other")]
    async fn take_once(&mut self, run: &RunId, taken: UnixMillis) -> Option<UnixMillis> {
        let store = self.world.at(self.now);
        let Some(definition) = self.definition().await else {
            // Its job was forgotten: it ends in history, as a node ends it.
            self.is_forgotten = true;
            assert!(orphans::end_orphan(&store, run).await.unwrap(), "{run} is left to quarantine");
            return None;
        };
        let (record, spec) = (&definition.record, &definition.spec);
        let mut order = ClaimOrder {
            max_caught_up: None,
            run: run.clone(),
            rev: record.rev.clone(),
            delivery: spec.delivery,
            overlap: spec.overlap,
            max_age: spec.catch_up.max_age,
            latest_start: None,
            max_runs: None,
            successor: None,
            job_lane: record.lane.clone(),
            gates: gates_of(run.job(), spec, false),
            known_places: store
                .read_run(run)
                .await
                .unwrap()
                .map_or_else(Vec::new, |record| record.places),
            per_key: spec.per_key,
        };
        let next = |due: Option<UnixMillis>| due.map(|due| Successor::on_time(run.job(), due));
        if !run.is_manual() {
            let due = Due {
                not_before: UnixMillis::EPOCH,
                timetable: &definition.timetable,
                since: definition.since(),
                taken,
                catch_up: &spec.catch_up,
                skip_if_late: None,
                late_after: spec.late_after,
                due: run.due(),
                now: self.instant(),
            };
            match lateness::judge(due) {
                Decision::Skip { last, count, successor } => {
                    let skipped_range = (last, count, successor);
                    let (last, count, successor) = passed_ranges::up_to_recorded(
                        &store,
                        &definition,
                        run,
                        skipped_range,
                        (taken, definition.since()),
                    )
                    .await
                    .unwrap();
                    let skip = SkipOrder {
                        run: run.clone(),
                        rev: record.rev.clone(),
                        lane: record.lane.clone(),
                        reason: "missed",
                        last_due: last,
                        count,
                        successor: next(successor),
                    };
                    match store.skip_run(&skip).await.unwrap() {
                        SkipReply::Skipped => return None,
                        SkipReply::Occupied => return successor,
                        SkipReply::Gone => order.overlap = spec.overlap_when_missed(),
                        other @ (SkipReply::Stale | SkipReply::Over) => panic!("{other:?}"),
                    }
                }
                Decision::Run { is_missed: true, .. } if spec.catch_up.spread.is_some() => {
                    let missed = lateness::missed_from(due, 4);
                    let ready = |place: usize| {
                        self.instant()
                            .saturating_add(std::time::Duration::from_millis(200 * place as u64))
                    };
                    let runs = missed.dues.iter().enumerate();
                    let spread = SpreadOrder {
                        name: name("a"),
                        rev: record.rev.clone(),
                        lane: record.lane.clone(),
                        window: record.window.clone(),
                        next_window: None,
                        runs: runs
                            .map(|(at, due)| Successor {
                                run: RunId::regular(name("a"), *due),
                                ready: ready(at),
                            })
                            .collect(),
                        successor: next(missed.successor),
                    };
                    match store.spread_runs(&spread).await.unwrap() {
                        SpreadReply::Spread => return None,
                        SpreadReply::Occupied => return missed.successor,
                        SpreadReply::Gone => order.overlap = spec.overlap_when_missed(),
                        other @ SpreadReply::Stale => panic!("{other:?}"),
                    }
                }
                Decision::Run { successor, is_missed } => {
                    order.successor = next(successor);
                    if is_missed {
                        order.overlap = spec.overlap_when_missed();
                    }
                }
            }
        }
        let next = order.successor.as_ref().map(|next| next.run.due());
        let is_first =
            self.world.raw::<Option<String>>("HGET", &format!("run:{run}"), &["fence"]).is_none();
        let replies = store
            .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &[order])
            .await
            .unwrap();
        match replies.into_iter().next().unwrap() {
            ClaimReply::Claimed(claim) => {
                let others =
                    self.running.iter().filter(|(other, _)| !other.run.is_manual()).count();
                assert!(
                    self.is_allowed || !is_first || run.is_manual() || others == 0,
                    "{run} beside {:?}",
                    self.running
                );
                self.running.push((claim, self.now));
            }
            ClaimReply::Blocked(_) | ClaimReply::Gone => {}
            ClaimReply::Occupied => return next,
            other => panic!("{run}: {other:?}"),
        }
        None
    }

    /// Forgets the job if it is over and idle.
    pub(crate) async fn forget_job(&mut self) {
        self.world.at(self.now).forget_jobs(UnixMillis::EPOCH, 0).await.unwrap();
        self.is_forgotten |= self.definition().await.is_none();
    }
}
