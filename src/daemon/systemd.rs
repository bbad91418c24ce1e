//! The notifications to the service manager about this process (`sd_notify(3)`). A manager that did
//! not ask for notifications gets none.
//!
//! Invariant: the watchdog is fed only while the loops of the engine make progress. An outage of
//! Redis is no reason for a restart, because the loops that wait for Redis keep trying. A separate
//! thread sends the notifications, so a manager that does not read blocks nothing.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::{error, info, warn};

use super::notify_socket::NotifySocket;
use super::status::words;
use crate::engine::StatusView;

/// The maximum time that a start waits for Redis. Then the start counts as done, because whoever
/// starts the unit must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between requests to the service manager for more time during a stop.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between two notifications of the state.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// The lateness that a loop is always allowed, because a call to Redis may take so long. The limit
/// is half of the watchdog's time if that is longer.
const LEAST_SLACK: Duration = Duration::from_secs(5);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The time for the steps of a stop after the loops have ended: the keeper leaves, then a private
/// server stops.
const LAST_STAGES: Duration = Duration::from_secs(90);
/// The maximum time to wait until the last message is sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// The connection to the service manager of this process; `None` if the manager is not to be
/// notified.
pub(super) struct ServiceManager(Option<Notified>);

struct Notified {
    news: Sender<UnitNews>,
    teller: JoinHandle<()>,
}

enum UnitNews {
    /// The start waits for the thing that the text names.
    Waiting(String),
    /// The engine runs.
    Up(StatusView),
    /// The jobs file is being read because a signal asked for a reload.
    Reloading,
    /// The jobs file was read, with or without success.
    Reloaded,
    /// A stop has begun and takes at most this duration.
    Stopping(Duration),
}

impl ServiceManager {
    /// Connects to the service manager that `NOTIFY_SOCKET` names. If the connection fails, the
    /// failure is logged and no notifications are sent.
    pub(super) fn from_env() -> Self {
        let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty())
        else {
            return Self(None);
        };
        let watchdog = sd_notify::watchdog_enabled().filter(|time| !time.is_zero());
        let started =
            NotifySocket::connect(&address).and_then(|socket| Notified::start(socket, watchdog));
        Self(
            started
                .inspect_err(|error| {
                    warn!(
                        "schedd cannot notify the service manager at {}: {error}.",
                        address.display()
                    );
                })
                .ok(),
        )
    }

    /// Notifies the service manager that the start waits for the thing that `words` name.
    pub(super) fn waiting(&self, words: String) {
        self.send(UnitNews::Waiting(words));
    }

    /// Notifies the service manager that the engine runs.
    pub(super) fn up(&self, view: StatusView) {
        self.send(UnitNews::Up(view));
    }

    /// Notifies the service manager that the jobs file is read again because of a signal.
    pub(super) fn reloading(&self) {
        self.send(UnitNews::Reloading);
    }

    /// Notifies the service manager that the jobs file was read again.
    pub(super) fn reloaded(&self) {
        self.send(UnitNews::Reloaded);
    }

    /// Notifies the service manager that a stop has begun, in which the loops take at most `loops`.
    pub(super) fn stopping(&self, loops: Duration) {
        self.send(UnitNews::Stopping(loops.saturating_add(LAST_STAGES)));
    }

    fn send(&self, news: UnitNews) {
        if let Some(thread) = &self.0 {
            // The receiver ends only with this sender.
            let _ = thread.news.send(news);
        }
    }

    /// Ends the notifications, and waits a moment until the last message is sent.
    pub(super) fn close(self) {
        let Some(Notified { news, teller }) = self.0 else { return };
        drop(news);
        let end = Instant::now() + FAREWELL;
        while !teller.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Notified {
    fn start(socket: NotifySocket, watchdog: Option<Duration>) -> io::Result<Self> {
        let (news, heard) = channel();
        let teller = Notifier::new(socket, watchdog);
        let teller = std::thread::Builder::new()
            .name("schedd-notify".to_owned())
            .spawn(move || teller.run(&heard))?;
        Ok(Self { news, teller })
    }
}

/// The stage of this process that the service manager was last notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Ready,
    Stopping,
}

struct Notifier {
    socket: NotifySocket,
    watchdog: Option<Duration>,
    began: Instant,
    stage: Stage,
    waits_for: String,
    engine: Option<StatusView>,
    fed_at: Option<Instant>,
    /// True if a loop hangs and the log has reported this.
    is_stuck: bool,
    status: String,
    status_at: Option<Instant>,
    /// The latest end of a stop that has begun. The service manager is asked to wait until then.
    stops_by: Option<Instant>,
    asked_at: Option<Instant>,
}

impl Notifier {
    fn new(socket: NotifySocket, watchdog: Option<Duration>) -> Self {
        Self {
            socket,
            watchdog,
            began: Instant::now(),
            stage: Stage::Starting,
            waits_for: "Starting".to_owned(),
            engine: None,
            fed_at: None,
            is_stuck: false,
            status: String::new(),
            status_at: None,
            stops_by: None,
            asked_at: None,
        }
    }

    fn run(mut self, heard: &Receiver<UnitNews>) {
        let look = self.watchdog.map_or(LONGEST_LOOK, |time| (time / 4).min(LONGEST_LOOK));
        loop {
            match heard.recv_timeout(look) {
                Ok(news) => self.hear(news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if self.stage != Stage::Stopping {
                        self.socket.send(&[NotifyState::Stopping]);
                    }
                    return;
                }
            }
            if self.stage == Stage::Starting && self.began.elapsed() >= PATIENCE {
                self.be_ready();
            }
            self.ask_for_time();
            self.feed_watchdog();
            self.report_status();
        }
    }

    fn hear(&mut self, news: UnitNews) {
        match news {
            UnitNews::Waiting(words) => self.waits_for = words,
            UnitNews::Up(view) => {
                self.engine = Some(view);
                self.status_at = None;
                self.be_ready();
            }
            UnitNews::Reloading => match NotifyState::monotonic_usec_now() {
                Ok(now) => self.socket.send(&[NotifyState::Reloading, now]),
                // A manager would take a message without the time for a fault.
                Err(error) => {
                    warn!("schedd cannot notify the service manager of the reload: {error}.");
                }
            },
            UnitNews::Reloaded => {
                self.socket.send(&[NotifyState::Ready]);
                self.status_at = None;
            }
            UnitNews::Stopping(time) => {
                self.stage = Stage::Stopping;
                self.stops_by = Some(Instant::now() + time);
                self.socket.send(&[NotifyState::Stopping]);
                self.ask_for_time();
                self.status_at = None;
            }
        }
    }

    /// Notifies the service manager that the start is done, unless this was notified before.
    fn be_ready(&mut self) {
        if self.stage == Stage::Starting {
            self.stage = Stage::Ready;
            self.socket.send(&[NotifyState::Ready]);
        }
    }

    /// Requests the time that a stop may still take. The request is repeated each minute, because
    /// one message can ask for at most 71 minutes.
    fn ask_for_time(&mut self) {
        let Some(left) = self.stops_by.and_then(|by| by.checked_duration_since(Instant::now()))
        else {
            return;
        };
        if self.asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
            self.asked_at = Some(Instant::now());
            self.socket.send(&[NotifyState::ExtendTimeoutUsec(
                u32::try_from(left.as_micros()).unwrap_or(u32::MAX),
            )]);
        }
    }

    /// Feeds the watchdog four times in each watchdog period, if all loops make progress.
    ///
    /// Before the engine runs, no loop counts as hanging. The start repeats its steps, and each
    /// step has a time limit.
    fn feed_watchdog(&mut self) {
        let Some(time) = self.watchdog.filter(|_| self.stage != Stage::Starting) else { return };
        let slack = (time / 2).max(LEAST_SLACK);
        if let Some(part) = self.engine.as_ref().and_then(|engine| engine.stuck(slack)) {
            if !std::mem::replace(&mut self.is_stuck, true) {
                let late_s = slack.as_secs();
                error!(
                    part,
                    late_s,
                    "A loop of this node hangs. The watchdog of systemd will end this process."
                );
            }
            return;
        }
        if std::mem::take(&mut self.is_stuck) {
            info!("All loops of this node are responsive again.");
        }
        if self.fed_at.is_none_or(|at| at.elapsed() >= time / 4) {
            self.fed_at = Some(Instant::now());
            self.socket.send(&[NotifyState::Watchdog]);
        }
    }

    fn report_status(&mut self) {
        if self.status_at.is_some_and(|at| at.elapsed() < STATUS_EVERY) {
            return;
        }
        let status = match &self.engine {
            Some(engine) => words(&engine.status(), &jiff::Zoned::now()),
            None => format!("{}.", self.waits_for),
        };
        if status != self.status {
            self.socket.send(&[NotifyState::Status(&status)]);
            self.status = status;
            self.status_at = Some(Instant::now());
        }
    }
}
