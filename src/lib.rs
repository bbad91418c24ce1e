//! schedd: delayed and cron jobs on Redis, each due run done once although hosts die.
//!
//! # Layers
//!
//! Imports only go down; `tests/suite/rules.rs` holds them to it.
//!
//! | layer | folder | owns |
//! | --- | --- | --- |
//! | 4 | [`cli`] | the verbs of `schedctl` |
//! | 4 | [`daemon`] | the story of the process `schedd`: arguments, file, Redis, signals |
//! | 3 | [`engine`] | the loops of a node, and what people and files ask of jobs |
//! | 2 | [`store`] | the only code that speaks Redis; one method and one script in `lua/` for each step |
//! | 2 | [`executor`] | one attempt: a process through the keeper, or an HTTP request |
//! | 2 | [`secrets`] | credentials and files of variables, read in the moment of use |
//! | 2 | [`files`] | opening files whose words are obeyed, and who else may write them |
//! | 2 | [`keeper`] | the small process beside the daemon that owns the jobs' processes |
//! | 2 | [`config`] | `jobs.toml`, JSON lines and flags to checked values, or every problem at once |
//! | 1 | [`domain`] | what a job, a run and a schedule are; pure |
//!
//! # The life of a run
//!
//! 1. Planted: [`engine::planting`] computes a job's first due time and `apply_job.lua` puts the run `job@due_ms` into the due set
//!    of its lane: a queue, a priority, the labels it requires. Of a job that names a unique key
//!    the same script judges who holds it. Later ones are planted by the claim or skip of their predecessor, in the same script.
//! 2. Polled: each node's ticker asks `list_ripe.lua` what is ripe by Redis' clock in the lanes the node serves, and sleeps until
//!    the next. [`domain::dispatch`] says which ripe run comes first.
//! 3. Judged: [`domain::lateness`] says whether it runs or a missed stretch is skipped (`skip_run.lua`).
//! 4. Claimed: `claim_runs.lua` moves it to the leases with an owner, a time limit and a rising fence, and plants the next. A run
//!    blocked by an open one of its job waits, or ends skipped, in the same step. One its queue has no room for (limit, rate, pause)
//!    stays where it is, and a poll shows nothing of such a queue: the end of a run wakes the nodes for its place.
//! 5. Executed: the engine's runner hands it to [`executor::Executors`], where the job says so after asking whether it is done
//!    already (`engine::done_check`). The lease keeper renews, and every deadline is counted from before the renewal was sent,
//!    so the job is stopped before any node may take the run over.
//! 6. Finished: `finish_run.lua` writes its end under the fence, or puts it back for a retry. A stale holder changes nothing.
//! 7. Recovered: a reaper that has watched the lease unchanged for its whole length by its own clock gives it to
//!    `recover_run.lua`.
//! 8. Retried: a dead letter (`failed`, `timed_out`, `lost`) that a person asks for again goes back to 2 as the same run, by
//!    `retry_run.lua`.
//! 9. Trimmed: past its bounds its record goes, and how it ended goes into its job's ledger, by `forget_runs.lua`.
//!
//! # What a run has to pass
//!
//! A [`domain::gate`] is a key, a group, or a job others are not to run beside. `claim_runs.lua` judges them, in one fixed order, after
//! everything else: a run that finds one shut leaves its lane and waits there (`queued:G`), keeping the places (`held:G`) it has at
//! those before. Whatever ends its lease or takes it away gives its places up, which only marks the gate (`gate_wakes`, told to every node):
//! `open_gate.lua`, called by any node's `engine::gatekeeper`, gives a free place to the first that waits and puts it back into its lane
//! with it. So there is one piece of code that lets in those that wait, it may be called at any time, and no wake-up is lost with a node.
//! Those that wait stand there by lane as well (`queued_lanes:G` has the first of each), so that a lane that takes nothing is passed at
//! once. Which lanes no node serves the gatekeeper asks [`store::Takers`].
//! Its record's `places` names the gates a run stands at, whose keys each script is told before it changes anything.
//!
//! # When data is lost
//!
//! Each poll brings the epoch and the fence counter. If they are not what this node knows, [`engine`]'s `loss` judges what the data
//! is, marks it anew (`begin_epoch.lua`), and gives back from the node's own journal how runs ended (`restore_run.lua`). A run
//! cut short is put back by its holder (`return_run.lua`). Nothing is ripe meanwhile.
//!
//! # Where the design page left the choice
//!
//! - A claim is the start mark of an at-most-once run: it is acknowledged before the spawn, and a run whose claim is found
//!   expired is `lost` though it may never have started. One step less, and never a second start. Only the node whose claim it
//!   was may know better: a run it won by a call whose answer never came is handed back.
//! - Whether a run may have started is told by its claims, not by its attempt: one handed back keeps the attempt's number. A claim
//!   writes down whether there was one before, so that it answers the same when repeated.
//! - A row of unclear answers of a `done_check` ends with any clear one, and with a lost node.
//! - A run blocked at a gate is woken in two steps, not in the script that frees its blocker: that one marks the gate, and a node opens it
//!   a moment later. The mark is kept, so nothing is lost between, and no other script need know whom to wake, by which rule, in which lane.
//! - A job's `rev` is `max(rev + 1, TIME in microseconds)`, so that a name used again never meets an old definition kept
//!   somewhere under the same number.
//! - After a loss nothing is claimed for a lease, not for a moment: a node that is cut off may hold what it ran so long.
//! - Removed and finished jobs keep their record for a while, so that what is still open of them ends by its own rules.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod domain;
pub mod engine;
pub mod executor;
pub mod files;
pub mod keeper;
pub mod secrets;
pub mod store;
