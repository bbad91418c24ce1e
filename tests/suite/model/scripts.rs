//! The scripts of `lua/` in the model, with the same guards, and their effects if a rule is broken.
//!
//! Fences come from a counter outside Redis.
//! The real fences come from Redis' clock, which a failover does not set back.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;

use super::redis::{Call, Job, Lease, ONCE, RUNS, Redis, Reply, Run, Seen, Token, Verdict};
use super::rules::{Broken, Rules};

/// One call of a script.
struct Script<'a> {
    redis: &'a mut Redis,
    seen: &'a mut Seen,
    rules: &'a Rules,
}

/// Does `call` and returns its reply.
pub(super) fn call(redis: &mut Redis, seen: &mut Seen, rules: &Rules, call: Call) -> Reply {
    let mut script = Script { redis, seen, rules };
    match call {
        Call::Add => {
            script.redis.is_once_pending = true;
            script.plant(ONCE);
            Reply::Planted
        }
        Call::Claim { run, token, rev } => script.claim_runs(run.into(), token, rev),
        Call::Renew { run, fence } => script.renew_leases(run.into(), fence),
        Call::Finish { run, fence, verdict } => script.finish_run(run.into(), fence, verdict),
        Call::Recover { run, fence, end, is_poison } => {
            script.recover_run(run.into(), fence, end, is_poison)
        }
        Call::Skip { run } => script.skip_run(run.into()),
        Call::Cancel { run } => script.cancel_run(run.into()),
        Call::Retry { run, fence, rev } => script.retry_run(run.into(), fence, rev),
        Call::Remove => script.remove_job(),
        Call::Readd { is_same } => script.apply_job(is_same),
        Call::Zrem { run } => {
            let was_due = std::mem::take(&mut script.run(run.into()).due);
            if was_due { Reply::Held } else { Reply::Gone }
        }
    }
}

impl Script<'_> {
    fn run(&mut self, run: usize) -> &mut Run {
        &mut self.redis.runs[run]
    }

    /// Returns the runs of a run's job.
    fn job(&self, run: usize) -> std::ops::Range<usize> {
        if run == ONCE { ONCE..RUNS } else { 0..self.rules.occurrences }
    }

    fn plant(&mut self, run: usize) {
        self.run(run).due = true;
        self.seen.planted[run] += 1;
        self.seen.planted_by[run] = self.redis.rev_of(run);
    }

    fn is_pending(&self, run: usize) -> bool {
        if run == ONCE {
            self.redis.is_once_pending
        } else {
            self.redis.pending.is_some_and(|pending| usize::from(pending) == run)
        }
    }

    fn plant_successor(&mut self, run: usize) {
        if run == ONCE {
            self.redis.is_once_pending = false;
        } else if self.job(run).contains(&(run + 1)) {
            self.redis.pending = u8::try_from(run + 1).ok();
            self.plant(run + 1);
        } else {
            self.redis.pending = None;
        }
    }

    fn is_any_open(&self, run: usize) -> bool {
        self.redis.runs[self.job(run)].iter().any(|run| run.open)
    }

    fn first_waiting(&self, run: usize) -> Option<usize> {
        self.job(run).find(|run| self.redis.runs[*run].waiting)
    }

    fn end_run(&mut self, run: usize, state: RunState) {
        self.run(run).record().state = state;
        self.seen.ended[run] += 1;
    }

    /// Applies the effects of every end: the request to stop goes, the first waiting run becomes
    /// ready, a one-shot may be over.
    fn after_end(&mut self, run: usize) {
        self.run(run).stop = false;
        self.run(run).open = false;
        if !self.is_any_open(run)
            && let Some(first) = self.first_waiting(run)
        {
            let first = self.run(first);
            (first.due, first.open, first.waiting) = (true, true, false);
        }
        if run == ONCE && !self.redis.is_once_pending {
            self.redis.is_once_over = true;
        }
    }

    /// Returns true if a run belongs to an earlier job of the cron job's name, or would go on with
    /// another definition.
    fn is_former(&self, run: usize, is_first: bool) -> bool {
        let Job { rev, same_since, .. } = self.redis.cron;
        let of_run = self.redis.runs[run].record.map_or(0, |record| record.rev);
        run != ONCE && of_run > 0 && of_run < if is_first { rev } else { same_since }
    }

    /// Records the definition with which a run is claimed.
    fn note_definition(&mut self, run: usize) {
        let Job { rev, same_since, .. } = self.redis.cron;
        if run == ONCE {
            return;
        }
        match self.seen.begun_as[run] {
            0 => {
                self.seen.is_wrong |= self.seen.planted_by[run] != rev;
                self.seen.begun_as[run] = same_since;
            }
            begun_as => self.seen.is_wrong |= begun_as != same_since,
        }
    }

    fn claim_runs(&mut self, run: usize, token: Token, rev: u8) -> Reply {
        let broken = self.rules.broken;
        let record = self.run(run).record;
        if !self.run(run).due && broken != Some(Broken::ZremFirst) {
            return match record {
                Some(record)
                    if record.state == RunState::Running
                        && record.claim == token
                        && token.number > 0 =>
                {
                    Reply::Claimed(record.fence)
                }
                _ => Reply::Gone,
            };
        }
        if rev != self.redis.rev_of(run) {
            return Reply::Stale;
        }
        let is_pending = self.is_pending(run);
        let is_first = record.is_none_or(|record| record.fence == 0);
        let is_removed = run != ONCE && self.redis.cron.is_removed;
        let is_former = self.is_former(run, is_first) && broken != Some(Broken::FormerBegins);
        let fate = if self.run(run).stop || is_removed && is_first || is_former {
            Some(Reply::Cancelled)
        } else if is_first && !self.run(run).open && self.is_any_open(run) {
            self.blocked(run)
        } else {
            None
        };
        match fate {
            Some(Reply::Waiting) => self.wait(run),
            Some(Reply::Cancelled) => self.end_run(run, RunState::Cancelled),
            Some(_) => self.end_run(run, RunState::Skipped),
            None => {
                self.note_definition(run);
                self.seen.fences += 1;
                let fence = self.seen.fences;
                let record = self.run(run).record();
                (record.state, record.fence, record.claim) = (RunState::Running, fence, token);
                record.attempt += 1;
                self.run(run).lease = Some(Lease { fence, end: 0, has_run_out: false });
                self.run(run).open = true;
            }
        }
        self.run(run).record().rev = rev;
        if is_pending && broken != Some(Broken::SuccessorAtCompletion) {
            self.plant_successor(run);
        }
        self.run(run).due = false;
        match fate {
            Some(Reply::Waiting) => {}
            Some(_) => self.after_end(run),
            None => return Reply::Claimed(self.seen.fences),
        }
        fate.unwrap_or(Reply::Gone)
    }

    fn blocked(&self, run: usize) -> Option<Reply> {
        match self.rules.overlap {
            Overlap::Allow => None,
            Overlap::Skip => Some(Reply::Skipped),
            Overlap::Queue { .. } if self.first_waiting(run).is_some() => Some(Reply::Skipped),
            Overlap::Queue { .. } | Overlap::Replace => Some(Reply::Waiting),
        }
    }

    /// Makes a run wait. Under `replace` all open or waiting runs are asked to stop.
    /// A waiting run becomes due at once, so that its claim ends it.
    fn wait(&mut self, run: usize) {
        if self.rules.overlap == Overlap::Replace {
            let job = self.job(run);
            for other in self.redis.runs[job].iter_mut().filter(|other| other.open || other.waiting)
            {
                other.stop = true;
                other.due |= std::mem::take(&mut other.waiting);
            }
        }
        self.run(run).waiting = true;
        self.run(run).record().state = RunState::Scheduled;
    }

    fn renew_leases(&mut self, run: usize, fence: u8) -> Reply {
        let stop = self.run(run).stop;
        match &mut self.run(run).lease {
            Some(lease) if lease.fence == fence => {
                // A renewal matters only for a lease that was watched to its end.
                lease.end += u8::from(lease.has_run_out);
                lease.has_run_out = false;
                if stop { Reply::Stop } else { Reply::Held }
            }
            _ => Reply::Lost,
        }
    }

    fn finish_run(&mut self, run: usize, fence: u8, verdict: Verdict) -> Reply {
        let found = *self.run(run);
        let Some(record) = found.record else { return Reply::Lost };
        let is_held =
            found.lease.is_some_and(|lease| lease.fence == fence) && record.fence == fence;
        if !is_held && self.rules.broken != Some(Broken::NoTokenCheck) {
            if record.fence != fence || record.settled != Some((fence, verdict)) {
                return Reply::Lost;
            }
            return match (record.state, verdict) {
                (RunState::Scheduled, Verdict::Retry) => Reply::Retrying,
                (RunState::Scheduled, Verdict::Release) => Reply::Released,
                (RunState::Scheduled, Verdict::AskLater) => Reply::AskingLater,
                _ => Reply::Finished,
            };
        }
        self.seen.took_stale_end |= record.fence != fence;
        let record = self.run(run).record();
        record.settled = Some((fence, verdict));
        record.unclear = verdict.unclear_after(record.unclear);
        let (state, reply) = match verdict {
            Verdict::Succeeded => (RunState::Succeeded, Reply::Finished),
            Verdict::Failed => (RunState::Failed, Reply::Finished),
            Verdict::Lost => (RunState::Lost, Reply::Finished),
            Verdict::Retry if !found.stop => (RunState::Scheduled, Reply::Retrying),
            Verdict::Release if !found.stop => (RunState::Scheduled, Reply::Released),
            Verdict::AskLater if !found.stop => (RunState::Scheduled, Reply::AskingLater),
            _ => (RunState::Cancelled, Reply::Finished),
        };
        if state == RunState::Scheduled {
            record.state = state;
            match verdict {
                Verdict::Retry => record.recoveries = 0,
                _ => record.attempt = record.attempt.saturating_sub(1),
            }
            (self.run(run).due, self.run(run).lease) = (true, None);
            return reply;
        }
        self.end_run(run, state);
        self.run(run).lease = None;
        if self.rules.broken == Some(Broken::SuccessorAtCompletion)
            && verdict == Verdict::Succeeded
            && self.is_pending(run)
        {
            self.plant_successor(run);
        }
        self.after_end(run);
        reply
    }

    fn recover_run(&mut self, run: usize, fence: u8, end: u8, is_poison: bool) -> Reply {
        match self.run(run).lease {
            Some(lease) if lease.fence == fence && lease.end == end => {}
            Some(lease) if lease.fence == fence => return Reply::Alive,
            _ => return Reply::Gone,
        }
        let is_stopped = self.run(run).stop;
        let may_not_repeat =
            self.rules.is_at_most_once() && self.rules.broken != Some(Broken::NoStartMark);
        let found = self.run(run);
        found.lease = None;
        let record = found.record();
        record.recoveries += 1;
        record.unclear = 0;
        let state = if may_not_repeat {
            RunState::Lost
        } else if is_poison {
            RunState::Failed
        } else if is_stopped {
            RunState::Cancelled
        } else {
            record.state = RunState::Scheduled;
            found.due = true;
            return Reply::Recovered;
        };
        self.end_run(run, state);
        self.after_end(run);
        Reply::Ended
    }

    fn skip_run(&mut self, run: usize) -> Reply {
        if !self.run(run).due || !self.is_pending(run) {
            return Reply::Gone;
        }
        self.end_run(run, RunState::Skipped);
        self.plant_successor(run);
        self.run(run).due = false;
        if run == ONCE {
            self.redis.is_once_over = true;
        }
        Reply::Skipped
    }

    fn cancel_run(&mut self, run: usize) -> Reply {
        let found = *self.run(run);
        match found.record.map(|record| record.state) {
            Some(RunState::Running) => {
                self.run(run).stop = true;
                return Reply::Requested;
            }
            Some(RunState::Cancelled) => return Reply::Cancelled,
            Some(state) if state != RunState::Scheduled => return Reply::Over,
            _ => {}
        }
        if !found.waiting && !found.due {
            return Reply::Unknown;
        }
        let is_pending = self.is_pending(run);
        self.end_run(run, RunState::Cancelled);
        if is_pending {
            self.plant_successor(run);
        }
        (self.run(run).due, self.run(run).waiting) = (false, false);
        self.after_end(run);
        Reply::Cancelled
    }

    /// Removes the cron job. Open runs go on; waiting runs are asked to stop.
    fn remove_job(&mut self) -> Reply {
        if let Some(pending) = self.redis.pending.take().map(usize::from) {
            if !self.run(pending).is_over() {
                self.end_run(pending, RunState::Cancelled);
            }
            self.run(pending).due = false;
        }
        for run in self.redis.runs[..ONCE].iter_mut().filter(|run| run.waiting) {
            run.stop = true;
        }
        self.redis.cron.is_removed = true;
        Reply::Removed
    }

    /// Adds the cron job again, with the first unknown occurrence as its planned run.
    fn apply_job(&mut self, is_same: bool) -> Reply {
        self.seen.revs += 1;
        let rev = self.seen.revs;
        let same_since = if is_same { self.redis.cron.same_since } else { rev };
        self.redis.cron = Job { rev, same_since, is_removed: false };
        if let Some(next) = self.redis.next_unknown(self.rules.occurrences) {
            self.redis.pending = u8::try_from(next).ok();
            self.plant(next);
        }
        Reply::Planted
    }

    fn retry_run(&mut self, run: usize, fence: u8, rev: u8) -> Reply {
        let found = *self.run(run);
        let Some(record) = found.record else { return Reply::Unknown };
        if !record.state.is_final() {
            return Reply::Already;
        }
        if !found.is_dead() {
            return Reply::Over;
        }
        if record.fence != fence && self.rules.broken != Some(Broken::RetryOfAnyFence) {
            return Reply::Already;
        }
        if run != ONCE && self.redis.cron.is_removed {
            return Reply::NoJob;
        }
        if rev != self.redis.rev_of(run) {
            return Reply::Stale;
        }
        if self.is_former(run, false) {
            return Reply::Former;
        }
        let waits = self.rules.overlap != Overlap::Allow && self.is_any_open(run);
        self.seen.retried[run] += 1;
        let run = self.run(run);
        (run.waiting, run.open, run.due) = (waits, !waits, !waits);
        let record = run.record();
        (record.state, record.recoveries, record.unclear) = (RunState::Scheduled, 0, 0);
        if waits { Reply::Waiting } else { Reply::Retried }
    }
}
