//! FW: workers that are killed, stopped, asked to end or cut off. The table of faults has no row for
//! them.
//! They come beside the faults of nodes, which also hit waiting workers.
//!
//! An app is a node, so a fault does to it what it does to a node. An app stands still as a whole,
//! because its handlers are a part of it.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::{Fault, LEASE, outage};
use crate::effects;
use crate::evidence::{Delay, Harm, Hit, SECOND};
use crate::proxy::LinkState;
use crate::stage::Stage;
use crate::worker::{Crew, Worker};

/// The time for which a fault looks for a worker at work.
const SEEK: Duration = Duration::from_secs(4);

/// A worker that a fault hits.
#[derive(Debug, Clone, Copy)]
struct Target {
    crew: Crew,
    number: usize,
}

impl Target {
    fn draw(crew: Crew, rng: &mut Rng, workers: usize) -> Self {
        Self { crew, number: rng.usize(..workers) }
    }

    fn name(self) -> String {
        self.crew.name(self.number)
    }

    fn of(self, stage: &Stage) -> &Worker {
        stage.workers().iter().find(|worker| worker.name == self.name()).unwrap()
    }

    /// Takes the worker that executes a run of a job whose name begins with this, if there is one.
    fn seek(&mut self, stage: &Stage, job: &str) {
        let crew = stage.workers().iter().filter(|worker| worker.crew == self.crew);
        let crew: Vec<&Worker> = crew.collect();
        let _ = stage.wait(SEEK, || {
            let at_work = effects::at_work(stage.dir());
            let found = at_work.iter().find_map(|(node, run)| {
                let is_wanted = run.starts_with(job);
                crew.iter().position(|worker| is_wanted && worker.name == *node)
            });
            self.number = found.unwrap_or(self.number);
            found.is_some()
        });
    }

    /// Returns the harm of the sudden loss of the worker.
    fn lost(self) -> Harm {
        Harm {
            hit: Hit::Nodes(vec![self.name()]),
            delay: Delay::AtBegin,
            may_repeat: true,
            may_overlap: false,
        }
    }
}

/// `kill -9` of a worker at work. Its keeper kills its processes; handlers end with their app.
pub(super) struct Kill {
    target: Target,
    down: Duration,
}

impl Kill {
    pub(super) fn draw(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        let down = Duration::from_millis(rng.u64(100..4_000));
        Box::new(Self { target: Target::draw(crew, rng, workers), down })
    }
}

impl Fault for Kill {
    fn row(&self) -> &'static str {
        "FW"
    }
    fn what(&self) -> String {
        format!("kill -9 of {}, started again after {:?}", self.target.name(), self.down)
    }
    fn lasts(&self) -> Duration {
        self.down
    }
    fn harm(&self) -> Harm {
        self.target.lost()
    }
    fn seek(&mut self, stage: &Stage) {
        self.target.seek(stage, "pulled-long");
    }
    fn inflict(&mut self, stage: &Stage) {
        self.target.of(stage).kill();
    }
    fn heal(&mut self, stage: &Stage) {
        self.target.of(stage).start_again();
    }
}

/// The processes of a worker that stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Only the worker itself: the work goes on, and its end is reported late.
    Worker,
    /// The worker, its keeper and its work, as when its host stands still.
    Whole,
}

/// A worker stands still for longer than its lease.
pub(super) struct Freeze {
    target: Target,
    part: Part,
    stopped: Vec<Pid>,
}

impl Freeze {
    pub(super) fn draw(rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        Self::of(Part::Worker, Target::draw(Crew::Pulling, rng, workers))
    }

    pub(super) fn draw_whole(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        Self::of(Part::Whole, Target::draw(crew, rng, workers))
    }

    fn of(part: Part, target: Target) -> Box<dyn Fault> {
        Box::new(Self { target, part, stopped: Vec::new() })
    }
}

impl Fault for Freeze {
    fn row(&self) -> &'static str {
        "FW"
    }
    fn what(&self) -> String {
        let part = match (self.part, self.target.crew) {
            (Part::Worker, _) => "alone",
            (Part::Whole, Crew::Pulling) => "whole: worker, keeper and jobs",
            (Part::Whole, Crew::Apps) => "with its handlers",
        };
        format!("SIGSTOP of {} {part}", self.target.name())
    }
    fn lasts(&self) -> Duration {
        LEASE * 2
    }
    fn harm(&self) -> Harm {
        let lost = Harm { may_overlap: self.part == Part::Whole, ..self.target.lost() };
        match self.target.crew {
            // Its question waits at a node for a while, and may get runs that nobody begins.
            Crew::Pulling => Harm { delay: Delay::Throughout, ..lost },
            Crew::Apps => lost,
        }
    }
    fn seek(&mut self, stage: &Stage) {
        self.target.seek(stage, "pulled-short");
    }
    fn inflict(&mut self, stage: &Stage) {
        let worker = self.target.of(stage);
        worker.signal_if_alive(Signal::STOP);
        self.stopped = vec![worker.pid()];
        if self.part == Part::Whole {
            self.stopped.extend(worker.keepers());
            for keeper in self.stopped.iter().skip(1) {
                let _ = kill_process(*keeper, Signal::STOP);
            }
            let jobs = stage.marked_processes().into_iter().map(|(pid, _)| pid);
            let of_worker = jobs.filter(|pid| super::frozen::is_of(*pid, &worker.name));
            for pid in of_worker.filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::STOP);
                self.stopped.push(pid);
            }
        }
    }
    fn heal(&mut self, _stage: &Stage) {
        for pid in self.stopped.drain(..) {
            // It may have been killed meanwhile.
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

/// SIGTERM of a worker, which finishes its runs first, or SIGINT of an app, which gives them back.
pub(super) struct Term {
    target: Target,
    signal: Signal,
}

impl Term {
    pub(super) fn draw(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        Box::new(Self { target: Target::draw(crew, rng, workers), signal: Signal::TERM })
    }

    pub(super) fn draw_at_once(rng: &mut Rng, apps: usize) -> Box<dyn Fault> {
        Box::new(Self { target: Target::draw(Crew::Apps, rng, apps), signal: Signal::INT })
    }
}

impl Fault for Term {
    fn row(&self) -> &'static str {
        "FW"
    }
    fn what(&self) -> String {
        let signal = if self.signal == Signal::INT { "SIGINT" } else { "SIGTERM" };
        format!("{signal} of {}, started again when it has ended", self.target.name())
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn harm(&self) -> Harm {
        let may_repeat = self.signal == Signal::INT;
        Harm { delay: Delay::None, may_repeat, ..self.target.lost() }
    }
    fn seek(&mut self, stage: &Stage) {
        if self.signal == Signal::INT {
            self.target.seek(stage, "pulled-");
        }
    }
    fn inflict(&mut self, stage: &Stage) {
        let worker = self.target.of(stage);
        worker.hold();
        worker.signal_if_alive(self.signal);
    }
    fn heal(&mut self, stage: &Stage) {
        let worker = self.target.of(stage);
        // A worker that does not end is killed, which its runs show.
        if !matches!(stage.wait(Duration::from_secs(30), || worker.has_ended().is_some()), Ok(true))
        {
            worker.kill();
        }
        worker.start_again();
    }
}

/// A bad connection between a worker and the nodes, or between an app and Redis.
pub(super) struct Bad {
    target: Target,
    link_state: LinkState,
    length: Duration,
}

impl Bad {
    fn drawn(
        rng: &mut Rng,
        target: Target,
        link_state: LinkState,
        millis: &[u64],
    ) -> Box<dyn Fault> {
        let length = Duration::from_millis(millis[rng.usize(..millis.len())]);
        Box::new(Self { target, link_state, length })
    }

    pub(super) fn lost_answers(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        let target = Target::draw(crew, rng, workers);
        Self::drawn(rng, target, LinkState::Swallow, &[300, 1_200, 4_000])
    }

    pub(super) fn cut_answers(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        let target = Target::draw(crew, rng, workers);
        Self::drawn(rng, target, LinkState::Cut, &[300, 1_200, 4_000])
    }

    pub(super) fn slow(rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        let (target, by) = (Target::draw(Crew::Pulling, rng, workers), Duration::from_millis(500));
        Self::drawn(rng, target, LinkState::Slow(by), &[5_000])
    }

    pub(super) fn slow_app(rng: &mut Rng, apps: usize) -> Box<dyn Fault> {
        let (target, by) = (Target::draw(Crew::Apps, rng, apps), Duration::from_millis(200));
        Self::drawn(rng, target, LinkState::Slow(by), &[3_000, 8_000])
    }

    pub(super) fn blackhole(crew: Crew, rng: &mut Rng, workers: usize) -> Box<dyn Fault> {
        let target = Target::draw(crew, rng, workers);
        Self::drawn(rng, target, LinkState::Blackhole, &[1_000, 4_000, 12_000])
    }
}

impl Fault for Bad {
    fn row(&self) -> &'static str {
        "FW"
    }
    fn what(&self) -> String {
        let (state, worker) = (self.link_state, self.target.name());
        let other = match self.target.crew {
            Crew::Pulling => "the nodes",
            Crew::Apps => "Redis",
        };
        format!("{state:?} between {worker} and {other} for {:?}", self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        let hit = Hit::Nodes(vec![self.target.name()]);
        match (self.target.crew, self.link_state) {
            // A question on a connection that fell silent is asked again within its lease, so that a
            // run may begin that much later, and any run may be lost.
            (Crew::Pulling, _) => outage(hit, LEASE.max(self.length)),
            // A few round trips lie between a due time and a start.
            (Crew::Apps, LinkState::Slow(_)) => {
                Harm { hit, delay: Delay::Brief(3 * SECOND), may_repeat: false, may_overlap: false }
            }
            (Crew::Apps, _) => outage(hit, self.length),
        }
    }
    fn seek(&mut self, stage: &Stage) {
        self.target.seek(stage, "pulled-");
    }
    fn inflict(&mut self, stage: &Stage) {
        self.target.of(stage).proxy.set(self.link_state);
    }
    fn heal(&mut self, stage: &Stage) {
        self.target.of(stage).proxy.set(LinkState::Clear);
    }
}
