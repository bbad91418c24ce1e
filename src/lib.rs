//! schedd: delayed and cron jobs on Redis. Each due run is executed once, even if hosts fail.
//!
//! # Layers
//!
//! This crate has the programs. The other crates are in the folder `crates`. A module imports only
//! modules of the same or a lower layer; Cargo and `tests/suite/rules.rs` check this.
//!
//! | layer | folder | contains |
//! | --- | --- | --- |
//! | 4 | [`api`] | the HTTP API of a node, on top of the verbs |
//! | 4 | [`dashboard`] | the pages of a node for browsers, made from the documents of the API |
//! | 4 | [`cli`] | the verbs of `schedctl` |
//! | 4 | [`daemon`] | the process `schedd` from start to stop: arguments, file, Redis, signals |
//! | 3 | [`schedd::engine`] | the loops of a node, and the operations on jobs |
//! | 2 | [`executor`] | one attempt of a run: a process started by the keeper, or an HTTP request |
//! | 2 | [`private_redis`] | the redis-server that a schedd without a Redis starts |
//! | 2 | [`secrets`] | credentials and environment files, read when they are used |
//! | 2 | [`schedd::attempts`] | the interface between a node and the code that executes its attempts |
//! | 2 | [`schedd_store`] | the only code that calls Redis: a method and a Lua script for each step |
//! | 2 | [`schedd_keeper`] | the small process that starts, watches and ends the processes of jobs |
//! | 2 | [`schedd_core::config`] | parsing of `jobs.toml`, JSON lines and flags into checked values |
//! | 2 | [`schedd_core::files`] | safe opening of files that no other user may write |
//! | 2 | [`schedd_core::host`] | the clock and the mark that a node and its keeper share |
//! | 1 | [`schedd_core::domain`] | jobs, queues and runs as pure values and rules |
//! | 1 | [`schedd_schedule`] | schedules, their times and names as pure values and rules |
//!
//! # The life of a run
//!
//! 1. Planned: [`schedd::engine::planning`] computes a job's first due time. `apply_job.lua` puts
//!    the run `job@due_ms` into the due set of its lane (a queue, a priority and the required
//!    labels). If the job has a unique key, the same script decides which job has the key. The
//!    script that claims or skips a run also plans the next run of its job.
//! 2. Polled: the ticker of each node asks `list_due.lua` for the runs that are ready by Redis'
//!    clock in the lanes of this node. Then the ticker sleeps until the next ready time.
//!    `engine::dispatch::dispatcher` decides which ready runs to claim, and in which order.
//! 3. Judged: [`schedd_schedule::lateness`] decides whether the run starts, or is skipped together
//!    with the occurrences that are missed too (`skip_run.lua`).
//! 4. Claimed: `claim_runs.lua` moves the run to the leases with an owner, a time limit and a
//!    rising fence, and plans the next run. If an open run of the same job blocks the run, the run
//!    waits or ends as skipped in the same step. If its queue has no room (limit, rate limit or
//!    pause), the run stays in its lane. A poll returns no runs of such a queue. The end of a run
//!    wakes the nodes, because a place in the queue is free again.
//! 5. Executed: the runner gives the run to [`schedd::attempts::Execute`]. If the job has a
//!    `done_check`, this check runs first (`engine::execution::done_check`). The lease keeper
//!    renews the lease. The node counts the lease from the moment before it sends the renewal, and
//!    uses only nine tenths of it. So the job is stopped before another node may take over the run.
//! 6. Finished: `finish_run.lua` writes the end of the run if the fence is still that of the run,
//!    or plans a retry. A node that lost the lease can change nothing.
//! 7. Recovered: a reaper on each node watches leases by the node's own clock. If a lease stays
//!    unchanged for its whole length, the reaper takes the run back with `recover_run.lua`.
//! 8. Retried: if an operator retries a dead letter (`failed`, `timed_out`, `lost`),
//!    `retry_run.lua` puts the same run back to step 2.
//! 9. Trimmed: after the retention time, `forget_runs.lua` removes the run's record and adds the
//!    end of the run to the ledger of its job.
//!
//! Most jobs and runs need no rule beyond their queue. Short scripts take them through steps 1, 4
//! and 6, many in one call: `add_jobs.lua`, `claim_plain_runs.lua` and `finish_plain_runs.lua`.
//!
//! # The code that a due run passes
//!
//! A due run passes these files in this order. If Redis answers a claim that the job has changed,
//! the dispatcher gives the run to step 4 again.
//!
//! 1. `engine/dispatch/ticker.rs` in `crates/schedd` polls at intervals, and when the next run is
//!    ready.
//! 2. `runs/due_poll.rs` in `crates/store` sends the poll.
//! 3. `engine/dispatch/dispatcher/` gets the result of the poll, and decides which runs to claim.
//! 4. `engine/dispatch/claimer/claim_plan.rs` decides about each run, and makes the message that
//!    asks Redis to claim the run.
//! 5. `engine/dispatch/claimer/claim_call.rs` repeats the claim until Redis answers.
//! 6. `runs/claims.rs` in `crates/store` sends the claim.
//! 7. `engine/execution/runner.rs` starts the run in a separate task.
//! 8. `attempts/execute.rs` is the interface to the code that executes an attempt.
//! 9. `protocol/keeper_link.rs` in `crates/keeper` passes a process to the keeper.
//! 10. `engine/execution/verdict.rs` turns the outcome into a verdict.
//! 11. `runs/run_ends.rs` in `crates/store` records the verdict.
//! 12. `engine/execution/after_end.rs` takes the steps that follow the end.
//!
//! # Jobs on each node
//!
//! A job with `on = "each-node"` has no runs. Each node has an instance of it (`clean/web1`): a job
//! of its own whose lane only this node serves. `engine::planning::instances` keeps the instances
//! like their job. So all other code treats an instance as any recurring job, and only `cli` shows
//! the instances as one job.
//!
//! # Workers
//!
//! A job with a `handler` has a lane that no node serves. A worker asks a node for runs over HTTP
//! ([`api`]). `engine::workers` polls these lanes for all waiting workers together, and claims runs
//! by the scripts of steps 4 to 7. The holder of such a run is the worker. So a worker may report to
//! any node, and the reaper of any node takes back the runs of a dead worker. A question that waits
//! belongs to the node that got it last (`engine::workers::ask_turn`).
//!
//! A [`schedd::Worker`] within a program is a node of its own, which serves only the lanes of its
//! handlers. It takes the path of all other runs, and its handlers take the place of the executor.
//! For other nodes its record names no queue, and the worker as one that asks.
//!
//! # Shards
//!
//! A namespace may have shards, which are namespaces of their own ([`schedd_store::Store::with_shards`]).
//! So no script knows of shards. [`schedd::adding::AddPools`] places a one-shot of a spread queue on a
//! shard, and [`schedd_store::Store::place_of_job`] finds it again. A node is
//! [`schedd::engine::NodeEngines`]: an engine for the namespace, and one for each shard. The engines
//! share slots, executors and counters. `engine::dispatch::node_slots` decides which engine takes a free
//! slot. A question of a worker waits at the desk of each shard, and one of them answers it.
//!
//! # Chains
//!
//! A job with parents (`after`) has no planned run. The script that ends a run writes an entry for
//! each child of its job into `chain_ends`. The `engine::chains::chain_planter` of any node gives
//! each entry to its child with `plant_child.lua`, which plans the child's run when all parents
//! have ended. A child's run has the due time of the root, the job at the top of the chain.
//!
//! An occurrence has the rules and parents of the time at which it began: the first end of the
//! root's run. Each end carries this time. So a job keeps its former texts of parents
//! (`former_after`), and a removed link stays in `chains` with the time of its removal.
//!
//! # The gates of a run
//!
//! A gate ([`schedd_core::domain::queue::gate`]) is a concurrency key, a group, or a job that must
//! not run at the same time. `claim_runs.lua` checks the gates of a run in a fixed order, after all
//! other checks. A run that finds a gate without a free place leaves its lane and waits at this gate
//! (`gate_waiters:G`). The run keeps the places (`gate_holders:G`) that it already got at earlier
//! gates.
//!
//! When a run's lease ends for any reason, the run gives up its places. The script that ends the
//! lease only marks the gate (`gate_timers`) and notifies every node. Then the
//! `engine::dispatch::gatekeeper` of any node calls `open_gate.lua`. This script gives the free
//! place to the first waiter, and puts that run back into its lane. Only this script admits
//! waiters, and any node may call it at any time. So no wake-up is lost if a node fails.
//!
//! Waiters are also stored by lane (`gate_waiter_lanes:G` has the first waiter of each lane). So
//! all waiters of a lane that no node serves are skipped at once. The gatekeeper asks
//! [`schedd_store::Takers`] which lanes no node serves. The field `places` in the record of a run
//! names its gates, because a script must know all its keys before it writes.
//!
//! # When data is lost
//!
//! Each poll returns the epoch and the highest fence. If these differ from the values that this
//! node knows, the module `loss` of [`schedd::engine`] finds out what happened. It then begins a
//! new epoch (`begin_epoch.lua`), and restores the ends of runs from the journal of its node
//! (`restore_run.lua`). A node that was executing a lost run gives the run back (`return_run.lua`).
//! Meanwhile no run is ready.
//!
//! # Decisions and their reasons
//!
//! - The claim is the start mark of an at-most-once run, because Redis acknowledges the claim
//!   before the process starts. If the lease of such a run expires, the run is `lost`, although it
//!   may not have started. This saves a call to Redis, and never starts a run twice. Only the node
//!   that claimed the run may give it back, if the answer to the claim never came.
//! - A run that was claimed before may have started. Its attempt number does not show this, because
//!   a run that was handed back keeps the number. So a claim stores whether an earlier claim
//!   existed. If the same claim is sent again, it gets the same answer.
//! - The count of unclear answers of a `done_check` starts again after a clear answer or a lost
//!   node.
//! - A run at a gate is woken in two steps. The script that frees a place marks the gate, and a
//!   node opens the gate a moment later. The mark stays until then, so no wake-up is lost. Only the
//!   script that opens gates needs to know which waiter is next.
//! - The `rev` of a job is `max(rev + 1, TIME in microseconds)`. So if a job name is used again, no
//!   old definition has the same number.
//! - After a data loss, no run is claimed for the length of a lease. A node without a
//!   connection may continue its runs for this time.
//! - Removed and finished jobs keep their records for a while, so that their open runs end by the
//!   rules of their jobs.

pub mod api;
pub mod cli;
pub mod daemon;
pub mod dashboard;
pub mod executor;
pub mod private_redis;
pub mod secrets;
