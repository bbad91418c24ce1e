//! What the keeper's tasks share: who lives here, what goes to the daemon, and the sweep of what nobody owns.
//!
//! Invariant: a resident's number is known here before any other task can look, so a sweep never takes a direct child for a
//! stray.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc};

use super::attend::GivenUp;
use super::cgroup::Cgroup;
use super::clock::BootInstant;
use super::delegation::seat_beside;
use super::excerpt::{OutputBounds, Stream};
use super::outbox::{Item, Pending};
use super::tree::{self, Claim, Identity, Process, Snapshot};
use super::wire::{Key, Launch, News};
use crate::domain::limits::Limits;

/// What a run's task is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word {
    /// A new lease deadline.
    Extend(BootInstant),
    /// Stop with grace.
    Stop,
    /// Stop without.
    Abandon,
}

struct Resident {
    identity: Identity,
    /// The number of the user it becomes; none = it stays who the keeper is.
    owner: Option<u32>,
    cgroup: Option<Cgroup>,
    /// Number and start of each process once seen to be its own: still so when its parent and its environment are gone.
    known: HashSet<(i32, u64)>,
    words: mpsc::UnboundedSender<Word>,
}

/// The state of a keeper; one thread, so plain cells.
pub(super) struct House {
    residents: RefCell<HashMap<Key, Resident>>,
    changed: Notify,
    outbox: mpsc::UnboundedSender<Item>,
    buffer: RefCell<Vec<u8>>,
    /// The last reading of all processes, and when it began.
    read: RefCell<Option<(BootInstant, Rc<Snapshot>)>>,
    output: OutputBounds,
    /// Where each run gets a cgroup of its own.
    cgroups: Option<Cgroup>,
    /// Those of runs that are over, which could not be removed yet.
    left_cgroups: RefCell<Vec<Cgroup>>,
    /// Children that were killed and do not die: nobody's any more, until they can be reaped.
    given_up: RefCell<HashMap<i32, GivenUp>>,
}

const BUFFER: usize = 64 * 1024;
/// How old a reading of all processes may be to tell who is sent TERM: runs that are to stop at once share it.
const FRESH: Duration = Duration::from_millis(20);

impl House {
    /// An empty house, whose runs get cgroups below `cgroups`, and what it will have to say.
    pub(super) fn new(output: OutputBounds, cgroups: Option<Cgroup>) -> (Rc<Self>, mpsc::UnboundedReceiver<Item>) {
        let (outbox, items) = mpsc::unbounded_channel();
        let house = Self {
            residents: RefCell::default(),
            changed: Notify::new(),
            outbox,
            buffer: RefCell::new(vec![0; BUFFER]),
            read: RefCell::default(),
            output,
            cgroups,
            left_cgroups: RefCell::default(),
            given_up: RefCell::default(),
        };
        (Rc::new(house), items)
    }

    /// Takes a run in, before it has a process; none if the key is taken.
    pub(super) fn admit(&self, key: Key, launch: &Launch) -> Option<mpsc::UnboundedReceiver<Word>> {
        let mut residents = self.residents.borrow_mut();
        if residents.contains_key(&key) {
            return None;
        }
        let (words, heard) = mpsc::unbounded_channel();
        let identity = Identity { run: launch.run.clone(), fence: launch.fence, leader: None };
        let owner = launch.owner.as_ref().map(|owner| owner.uid);
        residents.insert(key, Resident { identity, owner, cgroup: None, known: HashSet::new(), words });
        self.changed.notify_one();
        Some(heard)
    }

    /// Makes the cgroup of a run; none where runs have none. A run that asks for nothing only a cgroup can give starts without
    /// one if it cannot be made; for any other that is an error.
    pub(super) fn make_cgroup(&self, key: Key, limits: &Limits) -> io::Result<Option<Cgroup>> {
        let Some(cgroups) = &self.cgroups else { return Ok(None) };
        let made = cgroups.make(&key.to_string()).and_then(|made| match made.limit(limits) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove();
                Err(error)
            }
        });
        let cgroup = match made {
            Ok(cgroup) => cgroup,
            Err(_) if limits.asked().iter().all(|kind| kind.controller().is_none()) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(resident) = self.residents.borrow_mut().get_mut(&key) {
            resident.cgroup = Some(cgroup.clone());
        }
        Ok(Some(cgroup))
    }

    /// Whether one of a run's processes was killed because memory had run out.
    pub(super) fn is_out_of_memory(&self, key: Key) -> bool {
        self.cgroup(key).is_some_and(|cgroup| cgroup.oom_kills() > 0)
    }

    fn cgroup(&self, key: Key) -> Option<Cgroup> {
        self.residents.borrow().get(&key)?.cgroup.clone()
    }

    /// Notes a run's process. To be called before the next await after its fork.
    pub(super) fn note_leader(&self, key: Key, pid: i32) {
        if let Some(resident) = self.residents.borrow_mut().get_mut(&key) {
            resident.identity.leader = Some(pid);
        }
    }

    /// Waits no longer for the process of a run, which was killed: from now on it is no other run's, and in nobody's way.
    pub(super) fn give_up(&self, key: Key, how: GivenUp) {
        let mut residents = self.residents.borrow_mut();
        let Some(resident) = residents.get_mut(&key) else { return };
        let Some(pid) = resident.identity.leader.take() else { return };
        let has_to_move = how == GivenUp::Unbegun && resident.cgroup.is_some();
        if let Some(seat) = self.cgroups.as_ref().filter(|_| has_to_move).and_then(seat_beside) {
            // If it cannot be moved its cgroup stays, and is cleared with all others in the end.
            let _ = seat.write("cgroup.procs", &pid.to_string());
        }
        self.given_up.borrow_mut().insert(pid, how);
    }

    /// Whether that process will never run anything of a job.
    pub(super) fn never_begins(&self, pid: i32) -> bool {
        self.given_up.borrow().get(&pid) == Some(&GivenUp::Unbegun)
    }

    /// Lets a run go: it is over.
    pub(super) fn release(&self, key: Key) {
        let resident = self.residents.borrow_mut().remove(&key);
        self.left_cgroups.borrow_mut().extend(resident.and_then(|resident| resident.cgroup));
        self.remove_left_cgroups();
        self.changed.notify_one();
    }

    fn remove_left_cgroups(&self) {
        self.left_cgroups.borrow_mut().retain(|cgroup| !cgroup.remove());
    }

    /// Kills all in the cgroups of all runs; whether there is nobody.
    pub(super) fn clear_cgroups(&self) -> bool {
        self.remove_left_cgroups();
        let Some(cgroups) = self.cgroups.as_ref().filter(|cgroups| cgroups.is_populated()) else { return true };
        cgroups.kill();
        false
    }

    /// Passes a word on to a run, if it is still here.
    pub(super) fn tell(&self, key: Key, word: Word) {
        if let Some(resident) = self.residents.borrow().get(&key) {
            let _ = resident.words.send(word);
        }
    }

    /// Passes a word on to every run.
    pub(super) fn tell_all(&self, word: Word) {
        for resident in self.residents.borrow().values() {
            let _ = resident.words.send(word);
        }
    }

    /// Waits until a run came or went.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether no run is here.
    pub(super) fn is_empty(&self) -> bool {
        self.residents.borrow().is_empty()
    }

    /// A place for what the run `key` writes.
    pub(super) fn pending(&self, key: Key) -> Rc<Pending> {
        Rc::new(Pending::new(key, self.output))
    }

    /// Whether no run is here and none was given up, so that what is left is about to go.
    pub(super) fn is_ending(&self) -> bool {
        self.is_empty() && self.given_up.borrow().is_empty()
    }

    /// Queues news.
    pub(super) fn say(&self, news: News) {
        let _ = self.outbox.send(Item::News(news));
    }

    /// Reads what a pipe has now into `pending`. Whether the pipe is still open; fails with `WouldBlock` when it is empty.
    pub(super) fn drain(
        &self,
        pipe: &tokio::net::unix::pipe::Receiver,
        stream: Stream,
        pending: &Rc<Pending>,
    ) -> io::Result<bool> {
        let mut buffer = self.buffer.borrow_mut();
        let count = pipe.try_read(&mut buffer)?;
        if pending.append(stream, buffer.get(..count).unwrap_or_default()) {
            let _ = self.outbox.send(Item::Output(Rc::clone(pending)));
        }
        Ok(count > 0)
    }

    /// The living processes of a run but its leader. Cheap when there are none. `None` if this process lacks the descriptors to look.
    pub(super) fn remaining(&self, key: Key) -> Option<Vec<Process>> {
        // What a dead leader left is our child now, so no living orphan means nothing was left.
        let is_empty = self.cgroup(key).is_none_or(|cgroup| !cgroup.is_populated());
        if self.living_orphans()?.is_empty() && is_empty {
            return Some(Vec::new());
        }
        let remaining = || {
            let (leader, mut members) = self.members(key, &Snapshot::try_take()?);
            members.retain(|process| Some(process.pid) != leader && !process.is_zombie);
            Some(members)
        };
        let found = remaining()?;
        // One that changed its parent while we read may have been missed; twice it will not be.
        if found.is_empty() { remaining() } else { Some(found) }
    }

    /// Asks all of a run to end.
    pub(super) fn terminate(&self, key: Key) {
        let snapshot = self.recent_snapshot(self.leader(key));
        tree::signal_all(&self.members(key, &snapshot).1, Signal::TERM);
    }

    /// Kills the leader of a run with its process group, in no time: however many runs are out of time at once, none waits for
    /// the others to be searched. To be called before the leader is reaped.
    pub(super) fn kill_group(&self, key: Key) {
        if let Some(leader) = self.leader(key).and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
            let _ = rustix::process::kill_process(leader, Signal::KILL); // Just forked it leads no group yet.
        }
        self.kill_cgroup(key);
    }

    /// Kills all in the cgroup of a run, if it has one.
    pub(super) fn kill_cgroup(&self, key: Key) {
        if let Some(cgroup) = self.cgroup(key) {
            cgroup.kill();
        }
    }

    /// Kills all of a run.
    pub(super) fn kill(&self, key: Key) {
        self.kill_cgroup(key);
        tree::signal_all(&self.members(key, &Snapshot::take()).1, Signal::KILL);
    }

    fn leader(&self, key: Key) -> Option<i32> {
        self.residents.borrow().get(&key)?.identity.leader
    }

    /// A reading of all processes that is fresh and shows `leader`.
    fn recent_snapshot(&self, leader: Option<i32>) -> Rc<Snapshot> {
        let now = BootInstant::now();
        let mut read = self.read.borrow_mut();
        match &*read {
            Some((at, snapshot)) if now.since(*at) < FRESH && leader.is_none_or(|leader| snapshot.shows(leader)) => {
                Rc::clone(snapshot)
            }
            _ => Rc::clone(&read.insert((now, Rc::new(Snapshot::take()))).1),
        }
    }

    /// The leader of a run and all its processes, the dead among them.
    fn members(&self, key: Key, snapshot: &Snapshot) -> (Option<i32>, Vec<Process>) {
        let mut residents = self.residents.borrow_mut();
        let mut leaders: HashSet<i32> = self.given_up.borrow().keys().copied().collect();
        leaders.extend(residents.values().filter_map(|resident| resident.identity.leader));
        let is_alone = residents.len() == 1;
        // A keeper may not read what became another user; but there may be one run only it can be of. What a run with a cgroup
        // started is in that.
        let own_user = residents.get(&key).filter(|resident| resident.cgroup.is_none()).and_then(|resident| resident.owner);
        let own_user = own_user.filter(|uid| residents.values().filter(|other| other.owner == Some(*uid)).count() == 1);
        let others = residents.values().filter(|_| own_user.is_some());
        let others: Vec<Cgroup> = others.filter_map(|resident| resident.cgroup.clone()).collect();
        let Some(Resident { identity, cgroup, known, .. }) = residents.get_mut(&key) else { return (None, Vec::new()) };
        let mut members = snapshot.members(identity, &leaders, |orphan, claim| {
            let is_elsewhere = || others.iter().any(|cgroup| cgroup.pids().contains(&orphan.pid));
            let is_of_user = || claim == Claim::Hidden && own_user.is_some_and(|uid| orphan.is_bound_to(uid)) && !is_elsewhere();
            !leaders.contains(&orphan.pid) && (is_alone || is_of_user()) || known.contains(&(orphan.pid, orphan.started))
        });
        // Whoever is in its cgroup is its own, whatever else it says.
        let seen: HashSet<i32> = members.iter().map(|member| member.pid).collect();
        let inside = cgroup.iter().flat_map(Cgroup::pids).filter(|pid| !seen.contains(pid));
        members.extend(inside.filter_map(Process::read));
        known.extend(members.iter().map(|member| (member.pid, member.started)));
        (identity.leader, members)
    }

    /// Our children that are no leaders and alive; the dead are reaped. `None` if this process lacks the descriptors to look.
    fn living_orphans(&self) -> Option<Vec<Process>> {
        let residents = self.residents.borrow();
        let leads = |pid: i32| residents.values().any(|resident| resident.identity.leader == Some(pid));
        let is_leader = |pid: i32| leads(pid) || self.given_up.borrow().contains_key(&pid);
        let orphans = tree::own_children()?.into_iter().filter(|child| !is_leader(child.pid));
        let (dead, living): (Vec<_>, Vec<_>) = orphans.partition(|orphan| orphan.is_zombie);
        dead.iter().for_each(Process::reap);
        Some(living)
    }

    /// Reaps dead orphans and kills those whose run is over. Returns how many children are left beside the residents.
    pub(super) fn sweep(&self) -> usize {
        self.remove_left_cgroups();
        self.given_up.borrow_mut().retain(|pid, _| {
            let alive = Pid::from_raw(*pid).filter(|pid| tree::is_alive_child(*pid));
            alive.is_some_and(|pid| {
                // In vain so far; it is not reaped, so its number is its own.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                true
            })
        });
        // Unseen, at least one may be there.
        let Some(orphans) = self.living_orphans() else { return 1 };
        let residents = self.residents.borrow();
        for orphan in &orphans {
            let mut claims = residents.values().map(|resident| resident.identity.claim(orphan.pid));
            // One that says nothing may be anyone's who is still here.
            if claims.all(|claim| claim == Claim::Other) {
                orphan.signal(Signal::KILL);
            }
        }
        orphans.len() + self.given_up.borrow().len()
    }
}
