//! schedd: delayed and cron jobs on Redis. Each due run is done once, although hosts die.
//!
//! # Layers
//!
//! Imports only go down; `tests/suite/rules.rs` enforces this.
//!
//! | layer | folder | owns |
//! | --- | --- | --- |
//! | 4 | [`cli`] | the verbs of `schedctl` |
//! | 4 | [`daemon`] | the course of the process `schedd`: arguments, file, Redis, signals |
//! | 3 | [`engine`] | the loops of a node, and what operators and files ask of jobs |
//! | 2 | [`store`] | the only code that speaks Redis; a method and a Lua script for each step |
//! | 2 | [`private_redis`] | the Redis that a schedd starts for itself alone |
//! | 2 | [`executor`] | one attempt: a process through the keeper, or an HTTP request |
//! | 2 | [`secrets`] | credentials and files of variables, read at the moment of use |
//! | 2 | [`files`] | opening files that schedd obeys, and the check who else may write them |
//! | 2 | [`keeper`] | the small process beside the daemon that owns the jobs' processes |
//! | 2 | [`config`] | from `jobs.toml`, JSON lines and flags to checked values, or every problem |
//! | 1 | [`domain`] | jobs, runs and schedules as pure values and rules |
//!
//! # The life of a run
//!
//! 1. Planted: [`engine::planning`] computes a job's first due time. `apply_job.lua` puts the run
//!    `job@due_ms` into the due set of its lane: a queue, a priority and the labels it requires. If
//!    the job names a unique key, the same script judges who owns the key. The claim or skip of a
//!    run plants the next run, in the same script.
//! 2. Polled: each node's ticker asks `list_due.lua` what is ready by Redis' clock in the lanes
//!    the node serves. Then it sleeps until the next ready time. `engine::dispatch::dispatcher` says
//!    which ready runs are claimed, and in which order.
//! 3. Judged: [`domain::schedule::lateness`] says whether the run starts or a missed range is skipped
//!    (`skip_run.lua`).
//! 4. Claimed: `claim_runs.lua` moves the run to the leases with an owner, a time limit and a
//!    rising fence, and plants the next run. A run blocked by an open run of its job waits, or ends
//!    as skipped, in the same step. A run for which its queue has no room (limit, rate, pause)
//!    stays in its lane. A poll shows nothing of such a queue; the end of a run wakes the nodes for
//!    the freed place.
//! 5. Executed: the engine's runner hands the run to [`executor::Execute`]. If the job has a
//!    `done_check`, that is asked first (`engine::execution::done_check`). The lease keeper renews the lease.
//!    Every deadline is counted from before the renewal was sent, so the job is stopped before any
//!    node may take the run over.
//! 6. Finished: `finish_run.lua` writes the run's end under the fence, or puts the run back for a
//!    retry. A stale holder of the lease changes nothing.
//! 7. Recovered: a reaper watches leases by its own clock. If a lease stays unchanged for its whole
//!    length, the reaper gives the run to `recover_run.lua`.
//! 8. Retried: a dead letter (`failed`, `timed_out`, `lost`) that an operator asks for again goes
//!    back to step 2 as the same run, by `retry_run.lua`.
//! 9. Trimmed: when retention ends, `forget_runs.lua` removes the run's record and writes how the
//!    run ended into its job's ledger.
//!
//! # The path of a due run
//!
//! A due run passes these files in this order. It goes back only if a claim answers that its job
//! changed: the dispatcher then gives the run to step 4 again.
//!
//! 1. `engine/dispatch/ticker.rs` polls, at the latest when the next run is ready.
//! 2. `store/runs/due_poll.rs` sends the poll.
//! 3. `engine/dispatch/dispatcher/` is told what the poll saw, and answers what to claim. It is pure.
//! 4. `engine/dispatch/claimer/claim_plan.rs` decides about each run, and makes the claim order.
//! 5. `engine/dispatch/claimer/claim_call.rs` repeats the claim until Redis answers.
//! 6. `store/runs/claims.rs` sends the claim.
//! 7. `engine/execution/runner.rs` starts the run in a task of its own.
//! 8. `executor/execute.rs` is the interface of execution.
//! 9. `keeper/protocol/keeper_link.rs` passes a process to the keeper.
//! 10. `engine/execution/verdict.rs` turns the outcome into a verdict.
//! 11. `store/runs/run_ends.rs` records the verdict.
//! 12. `engine/execution/after_end.rs` takes the steps after the end.
//!
//! # The gates of a run
//!
//! A [`domain::queue::gate`] is a key, a group, or a job that must not run at the same time.
//! `claim_runs.lua` judges gates in one fixed order, after everything else. A run that finds a gate
//! shut leaves its lane and waits there (`gate_waiters:G`). It keeps the places (`gate_holders:G`) that it has at
//! the gates before.
//!
//! Whatever ends a run's lease or takes it away gives its places up. That step only marks the gate
//! (`gate_wakes`, announced to every node). `open_gate.lua`, called by any node's
//! `engine::dispatch::gatekeeper`, gives a free place to the first waiter and puts that run back into its
//! lane with that place. So one piece of code admits waiters, it may be called at any time, and no
//! wake-up is lost with a node.
//!
//! Waiters are also stored by lane (`gate_waiter_lanes:G` has the first waiter of each lane), so that a
//! lane that takes nothing is passed at once. The gatekeeper asks [`store::Takers`] which lanes no
//! node serves. The field `places` of a run's record names the gates of that run. Each script gets
//! their keys before it changes anything.
//!
//! # When data is lost
//!
//! Each poll returns the epoch and the fence counter. If these differ from what this node knows,
//! [`engine`]'s `loss` judges what happened to the data. It then marks the data anew
//! (`begin_epoch.lua`) and restores the ends of runs from the node's own journal
//! (`restore_run.lua`). The node that runs a run which was cut short puts it back
//! (`return_run.lua`). Nothing is ready meanwhile.
//!
//! # Where the design page left the choice
//!
//! - A claim is the start mark of an at-most-once run. It is acknowledged before the spawn. A run
//!   whose claim is found expired is `lost`, though it may never have started. This saves a step
//!   and never starts a run twice. Only the node that claimed may know better: it hands back a run
//!   that it won by a call whose answer never came.
//! - Whether a run may have started is decided by its claims, not by its attempt, because a run
//!   handed back keeps the attempt's number. A claim records whether there was an earlier claim, so
//!   that it answers the same when repeated.
//! - A row of unclear answers of a `done_check` ends with any clear answer, and with a lost node.
//! - A run blocked at a gate is woken in two steps. The script that frees its blocker marks the
//!   gate, and a node opens the gate a moment later. The mark is kept, so nothing is lost between.
//!   No other script needs to know whom to wake, by which rule, or in which lane.
//! - A job's `rev` is `max(rev + 1, TIME in microseconds)`. So a name used again never meets an old
//!   definition stored under the same number.
//! - After a loss nothing is claimed for a whole lease: a node that is cut off may keep its runs
//!   going for that long.
//! - Removed and finished jobs keep their record for a while, so that their open runs end by the
//!   job's own rules.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod domain;
pub mod engine;
pub mod executor;
pub mod files;
pub mod keeper;
pub mod private_redis;
pub mod secrets;
pub mod store;
