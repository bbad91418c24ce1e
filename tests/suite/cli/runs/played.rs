//! A node without a daemon: it claims what is due and ends it as the test says.

use std::time::Duration;

use schedd::engine::Definition;
use schedd::engine::planning::planting;
use schedd::engine::planning::planting::{Applied, Request};
use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::zone::Zone;
use schedd_store::{
    Address, BeatFacts, Claim, ClaimOrder, ClaimReply, Claimant, Existing, FinishReply, Keys,
    LanePoll, NameClaim, NodeBeat, OutputFrames, OutputStream, Section, SectionText, SourceKind,
    Store, Successor, Verdict,
};
use tokio::runtime::{Builder, Runtime};

use crate::support::facts::node_facts;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// Fields of a run's record, as the end of an attempt writes them.
pub(crate) type Facts<'a> = &'a [(&'a str, &'a str)];

pub(crate) struct Played {
    runtime: Runtime,
    store: Store,
}

impl Played {
    pub(crate) fn on(redis: &TestRedis) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store =
            Store::new(&Address::parse(&redis.url()).unwrap(), Keys::new("schedd").unwrap())
                .unwrap();
        Self { runtime, store }
    }

    /// Applies a job of a file of the node `web-1`.
    pub(crate) fn apply_file_job(&self, name: &str, json: &str) {
        let job = schedd_core::config::job_from_json(json, &Zone::utc()).unwrap();
        let spec = job.spec;
        let request = Request {
            name: name.parse().unwrap(),
            is_drawn: false,
            spec,
            start_in: None,
            kind: SourceKind::File,
            source: "web-1".to_owned(),
            existing: Existing::Edit,
            seen: None,
        };
        let applied = self
            .runtime
            .block_on(planting::apply_one(&self.store, &Zone::utc(), &request))
            .unwrap();
        assert!(matches!(applied, Applied::Created(_)), "{applied:?}");
    }

    /// Waits until a run of `job` is due in the queue `default`, and claims it.
    #[track_caller]
    pub(crate) fn claim(&self, job: &str) -> Claim {
        until(&format!("a run of {job} is due"), LONG, || {
            self.runtime.block_on(self.try_claim(job))
        })
    }

    async fn try_claim(&self, job: &str) -> Option<Claim> {
        let queue = Lane::default_lane();
        let poll =
            self.store.list_due(&[schedd_store::LaneAsk::new(queue.clone(), 100)]).await.unwrap();
        let Some(LanePoll::Due { due, .. }) = poll.lanes.into_iter().next() else { return None };
        let runs = due.iter().map(|entry| entry.member.parse::<RunId>().unwrap());
        let run = runs.into_iter().find(|run| run.job().as_str() == job)?;
        let definition =
            Definition::of(self.store.read_job(run.job()).await.unwrap().unwrap()).unwrap();
        let order = ClaimOrder {
            max_caught_up: None,
            run: run.clone(),
            rev: definition.record.rev.clone(),
            delivery: Delivery::AtLeastOnce,
            overlap: Overlap::Allow,
            max_age: None,
            latest_start: None,
            max_runs: None,
            successor: definition
                .next_after(run.due().max(poll.now))
                .map(|due| Successor::on_time(run.job(), due)),
            job_lane: queue.clone(),
            gates: Vec::new(),
            known_places: Vec::new(),
            per_key: schedd_core::domain::queue::gate::PerKey::default(),
        };
        let claimant = Claimant {
            holder: "web-1".to_owned(),
            incarnation: "i1".to_owned(),
            lease: Duration::from_secs(60),
            claim_note: None,
        };
        let token = format!("{run}-{}", poll.now);
        match self
            .store
            .claim_runs(usize::MAX, &claimant, &queue, &token, &[order])
            .await
            .unwrap()
            .pop()
        {
            Some(ClaimReply::Claimed(claim)) => Some(claim),
            other => panic!("{run} was not claimed: {other:?}"),
        }
    }

    /// Gives all ends of runs to the children that wait for them.
    pub(crate) fn give_chain_ends(&self) {
        let give = async {
            loop {
                let (ends, _) = self.store.list_chain_ends(0, 100).await.unwrap();
                if ends.is_empty() {
                    return;
                }
                for end in &ends {
                    let given = [(end, Lane::default_lane())];
                    self.store.plant_children(&given).await.unwrap().remove(0).unwrap();
                }
            }
        };
        self.runtime.block_on(give);
    }

    /// Ends a run in `state`, with facts of the attempt.
    #[track_caller]
    pub(crate) fn finish(&self, claim: &Claim, state: RunState, facts: Facts<'_>) {
        let reply = self.end(claim, &Verdict::Final(state), facts, "");
        assert!(matches!(reply, FinishReply::Finished(_)), "{reply:?}");
    }

    /// Ends a run in `state` for this reason.
    #[track_caller]
    pub(crate) fn finish_because(&self, claim: &Claim, state: RunState, reason: &str) {
        let reply = self
            .runtime
            .block_on(self.store.finish_run(claim, &Verdict::Final(state), reason, &[], ""))
            .unwrap();
        assert!(matches!(reply, FinishReply::Finished(_)), "{reply:?}");
    }

    /// Ends an attempt after which another is made in `delay`.
    #[track_caller]
    pub(crate) fn retry(&self, claim: &Claim, delay: Duration, exit_code: i32) {
        let past = serde_json::json!({
            "attempt": claim.attempt, "state": "failed", "fence": claim.fence.as_u64(), "node": "web-1",
            "started_at_ms": claim.claimed_at.as_i64(), "exit_code": exit_code, "signal": null, "http_status": null, "error": null,
        });
        let code = exit_code.to_string();
        let reply =
            self.end(claim, &Verdict::Retry(delay), &[("exit_code", &code)], &past.to_string());
        assert!(matches!(reply, FinishReply::Retrying(_)), "{reply:?}");
    }

    /// Starts nothing: its `done_check` is to be asked again in an hour.
    #[track_caller]
    pub(crate) fn ask_later(&self, claim: &Claim, reason: &str) {
        let facts = [("exit_code", String::new()), ("unclear", "1".to_owned())];
        let verdict = Verdict::AskLater(Duration::from_secs(3_600));
        let reply = self
            .runtime
            .block_on(self.store.finish_run(claim, &verdict, reason, &facts, ""))
            .unwrap();
        assert!(matches!(reply, FinishReply::AskingLater(_)), "{reply:?}");
    }

    fn end(&self, claim: &Claim, verdict: &Verdict, facts: Facts<'_>, past: &str) -> FinishReply {
        let facts: Vec<(&str, String)> =
            facts.iter().map(|(field, value)| (*field, (*value).to_owned())).collect();
        let reason = if matches!(verdict, Verdict::Retry(_)) { "retry" } else { "" };
        self.runtime.block_on(self.store.finish_run(claim, verdict, reason, &facts, past)).unwrap()
    }

    /// Writes what an attempt printed.
    pub(crate) fn write(&self, claim: &Claim, stdout: &[u8], stderr: &[u8], dropped: u64) {
        let mut frames = OutputFrames::new(dropped);
        frames.push_head(OutputStream::Stdout, stdout);
        frames.push_head(OutputStream::Stderr, stderr);
        self.runtime.block_on(self.store.write_output(claim, &frames)).unwrap().unwrap();
    }

    /// Gives a sign of life of the node `web-1`.
    pub(crate) fn beat(&self, config_error: &str) {
        let now = self.runtime.block_on(self.store.now()).unwrap();
        let facts = BeatFacts {
            config_error: config_error.to_owned(),
            host: "h".to_owned(),
            running: 2,
            ..node_facts(now)
        };
        let node = "web-1".parse().unwrap();
        let beat = NodeBeat {
            node: &node,
            incarnation: "i1",
            gone_after: Duration::from_secs(15),
            claim: NameClaim::Take,
            facts: &facts,
        };
        self.runtime.block_on(self.store.beat_node(&beat)).unwrap();
    }

    /// Declares a queue.
    pub(crate) fn declare_queue(&self, name: &str) {
        let queue =
            SectionText::Queue(QueueSettings { concurrency: 4, ..QueueSettings::default() });
        let section = Section::Queue(name.parse().unwrap());
        self.runtime
            .block_on(self.store.declare_section(&"web-1".parse().unwrap(), &section, Some(&queue)))
            .unwrap();
    }
}
