//! The parts of a node, and the choice of the parts that each loop gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chains::chain_planter;
use super::dispatch::abandoned_claims::AbandonedClaims;
use super::dispatch::claimer::Claimer;
use super::dispatch::definitions::ZoneReadings;
use super::dispatch::node_limits::NodeLimits;
use super::dispatch::nudges;
use super::dispatch::slots::Slots;
use super::dispatch::ticker::Ticker;
use super::execution::end_recorder::EndRecorder;
use super::execution::lease_keeper;
use super::execution::lease_keeper::LeaseKeeper;
use super::execution::runner::Runner;
use super::execution::running_leases::RunningLeases;
use super::loops::Loops;
use super::maintenance::background_check::BackgroundCheck;
use super::maintenance::backlog_watch::BacklogWatch;
use super::maintenance::janitor::Janitor;
use super::maintenance::presence::Presence;
use super::maintenance::reaper::Reaper;
use super::maintenance::retained_bounds::{RetainedBounds, Retention};
use super::maintenance::{background_check, backlog_watch, janitor, presence};
use super::node_context::NodeContext;
use super::node_share::NodeShare;
use super::notification::deadline_watch::DeadlineWatch;
use super::notification::{deadline_watch, notice_planter};
use super::planning::boot_plan::BootPlanner;
use super::planning::corrections::replan::Replanner;
use super::planning::corrections::zone_change::ZoneCheck;
use super::planning::corrections::{replan, zone_change};
use super::planning::file_change::sections_of;
use super::planning::instances::InstancePlanner;
use super::planning::reconciler::Reconciler;
use super::planning::recurring_jobs::RecurringJobs;
use super::planning::wanted_file::{Removal, WantedFile, WantedJobs};
use super::planning::{boot_plan, instances, reconciler};
use super::recovery::journal::Journal;
use super::recovery::loss;
use super::recovery::loss::LossRecovery;
use super::recovery::loss::job_catalog;
use super::recovery::loss::job_catalog::JobCatalog;
use super::recovery::loss::loss_watch::LossWatch;
use super::settings::EngineSettings;
use super::status::node_health::NodeHealth;
use super::status::note_writer;
use super::status::note_writer::NoteWriter;
use super::workers::worker_claims::{ClaimedRuns, WorkerClaims};
use super::workers::worker_desk::WorkerDesk;
use super::workers::worker_reports::WorkerReports;
use crate::attempts::Execute;
use schedd_core::config::{Config, ServingConfig};
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The parts of a node that several of its loops use.
pub(super) struct NodeParts {
    pub(super) node: Arc<NodeContext>,
    pub(super) slots: Slots,
    pub(super) limits: Arc<NodeLimits>,
    pub(super) leases: Arc<RunningLeases>,
    pub(super) retention: Arc<Retention>,
    pub(super) health: Arc<NodeHealth>,
    pub(super) loss_watch: Arc<LossWatch>,
    pub(super) zone_readings: Arc<ZoneReadings>,
    pub(super) wanted: Arc<WantedFile>,
}

impl NodeParts {
    pub(super) fn new(
        store: Store,
        journal: Journal,
        settings: EngineSettings,
        share: NodeShare,
    ) -> Self {
        let health = Arc::new(NodeHealth::new(settings.started_at, settings.lease));
        let loss_watch = Arc::new(LossWatch::new(journal, store.address()));
        let place = store.shard_number();
        let node = Arc::new(NodeContext::new(store, settings, share.counters));
        let slots = Slots::new(node.wakeups.ticker.clone(), share.slots, place);
        node.counters.declare([&QueueName::default_queue()]);
        if let Some(worker) = &node.settings.worker {
            slots.set_worker(worker);
        } else {
            slots.set_host(QueueName::of_host(&node.settings.host.host));
            slots.set_serving(
                node.settings.serving.over(&Serving::default(), &node.settings.node),
                None,
            );
        }
        Self {
            node,
            slots,
            limits: Arc::default(),
            leases: Arc::default(),
            retention: Arc::default(),
            health,
            loss_watch,
            zone_readings: Arc::default(),
            wanted: Arc::default(),
        }
    }

    pub(super) fn configure(&self, config: &Config, removal: Removal) {
        let queues: BTreeMap<_, _> =
            config.queues.iter().map(|(name, queue)| (name.clone(), queue.concurrency)).collect();
        let sections = sections_of(config);
        self.health.problems.set_file(String::new());
        self.health.applied_file.set(self.health.notes.now(), &config.metrics);
        self.node.counters.declare(queues.keys());
        self.retention.set_bounds(RetainedBounds {
            history: config.history.clone(),
            output: config.output.clone(),
        });
        self.slots.set_own(queues);
        let ServingConfig { serving, flow } = &config.serving;
        let settings = &self.node.settings;
        self.slots.set_serving(settings.serving.over(serving, &settings.node), flow.max_running);
        self.limits.set_limits(*flow);
        self.node.wakeups.presence.notify_one();
        self.node.wakeups.instances.notify_one();
        self.wanted.set(WantedJobs { jobs: config.jobs.clone(), sections, removal });
        self.node.wakeups.reconciler.notify_one();
    }

    pub(super) fn reaper(&self, abandoned: Arc<AbandonedClaims>) -> Reaper {
        Reaper {
            node: self.node.clone(),
            leases: self.leases.clone(),
            abandoned,
            loss_watch: self.loss_watch.clone(),
            health: self.health.clone(),
        }
    }

    pub(super) fn ticker(
        &self,
        executors: Arc<dyn Execute>,
        abandoned: Arc<AbandonedClaims>,
    ) -> Ticker {
        let runner = Runner {
            node: self.node.clone(),
            slots: self.slots.clone(),
            executors,
            leases: self.leases.clone(),
            ends: Arc::new(EndRecorder::new(self.node.clone())),
            loss_watch: self.loss_watch.clone(),
            retention: self.retention.clone(),
        };
        Ticker {
            node: self.node.clone(),
            limits: self.limits.clone(),
            health: self.health.clone(),
            abandoned,
            zone_readings: self.zone_readings.clone(),
            runner: Arc::new(runner),
        }
    }

    /// Returns the claims for workers, and the place where workers ask and report.
    pub(super) fn workers(
        &self,
        abandoned: Arc<AbandonedClaims>,
    ) -> (Arc<WorkerClaims>, WorkerDesk) {
        let claimer = Claimer::new(
            self.node.clone(),
            self.loss_watch.clone(),
            abandoned,
            self.health.clone(),
            self.zone_readings.clone(),
            Arc::<ClaimedRuns>::default(),
        );
        let (node, slots, watch) = (&self.node, &self.slots, &self.loss_watch);
        let claims =
            Arc::new(WorkerClaims::new(node.clone(), slots.clone(), watch.clone(), claimer));
        let reports = Arc::new(WorkerReports {
            node: node.clone(),
            claims: claims.clone(),
            ends: Arc::new(EndRecorder::new(node.clone())),
            loss_watch: watch.clone(),
            retention: self.retention.clone(),
        });
        (claims.clone(), WorkerDesk::new(node.clone(), claims, reports))
    }

    fn presence(&self, executors: Arc<dyn Execute>) -> Presence {
        Presence {
            node: self.node.clone(),
            slots: self.slots.clone(),
            limits: self.limits.clone(),
            leases: self.leases.clone(),
            executors,
            health: self.health.clone(),
        }
    }

    /// Starts the loops that plan, check and clean up. These loops end at the start of a stop.
    pub(super) fn spawn_intake(&self, loops: &Loops, host_zone: Zone) {
        let (node, health) = (|| self.node.clone(), || self.health.clone());
        let janitor = Janitor { node: node(), retention: self.retention.clone(), health: health() };
        loops.spawn("janitor", Arc::new(janitor), janitor::run);
        loops.spawn(
            "consistency check",
            Arc::new(BackgroundCheck { node: node(), health: health() }),
            background_check::run,
        );
        loops.spawn(
            "deadline watch",
            Arc::new(DeadlineWatch { node: node(), health: health() }),
            deadline_watch::run,
        );
        loops.spawn("notice planter", node(), notice_planter::run);
        loops.spawn("chain planter", node(), chain_planter::run);
        let watch = BacklogWatch { node: node(), slots: self.slots.clone(), health: health() };
        loops.spawn("backlog watch", Arc::new(watch), backlog_watch::run);
        let recurring = Arc::new(RecurringJobs::default());
        loops.spawn(
            "replanner",
            Arc::new(Replanner { node: node(), health: health(), recurring: recurring.clone() }),
            replan::run,
        );
        let zone_check = ZoneCheck { node: node(), recurring: recurring.clone() };
        loops.spawn("zone check", Arc::new(zone_check), zone_change::run);
        let loss_watch = self.loss_watch.clone();
        let recovery = LossRecovery {
            node: node(),
            loss_watch: loss_watch.clone(),
            retention: self.retention.clone(),
        };
        loops.spawn("loss recovery", Arc::new(recovery), loss::run);
        loops.spawn(
            "job catalog",
            Arc::new(JobCatalog { node: node(), loss_watch }),
            job_catalog::run,
        );
        if self.node.settings.worker.is_some() {
            // Jobs of a file, of a boot and of each node are those of daemons.
            return;
        }
        let planner = BootPlanner {
            node: node(),
            slots: self.slots.clone(),
            wanted: self.wanted.clone(),
            recurring,
        };
        loops.spawn("boot planner", Arc::new(planner), boot_plan::run);
        let planner = InstancePlanner {
            node: node(),
            slots: self.slots.clone(),
            wanted: self.wanted.clone(),
            host_zone: host_zone.clone(),
        };
        loops.spawn("instance planner", Arc::new(planner), instances::run);
        let reconciler =
            Reconciler { node: node(), health: health(), wanted: self.wanted.clone(), host_zone };
        loops.spawn("reconciler", Arc::new(reconciler), reconciler::run);
    }

    /// Starts the loops that running jobs need. These loops end at the end of a stop.
    pub(super) fn spawn_upkeep(&self, loops: &Loops, executors: Arc<dyn Execute>) {
        let (node, health) = (|| self.node.clone(), || self.health.clone());
        loops.spawn("nudges", node(), nudges::run);
        let keeper = LeaseKeeper { node: node(), leases: self.leases.clone(), health: health() };
        loops.spawn("lease keeper", Arc::new(keeper), lease_keeper::run);
        loops.spawn("presence", Arc::new(self.presence(executors)), presence::run);
        loops.spawn(
            "suspend detector",
            health(),
            |health| async move { health.suspends.run().await },
        );
        let writer = NoteWriter { node: node(), slots: self.slots.clone(), health: health() };
        loops.spawn("event notes", Arc::new(writer), note_writer::run);
    }
}
