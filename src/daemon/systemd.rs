//! Notifies the service manager about this process (`sd_notify(3)`), if the manager requested this.
//!
//! Invariant: the watchdog is notified only while the loops of the engine make progress. An outage
//! of Redis causes no restart, because the loops keep trying. A separate thread sends the
//! notifications, so a manager that does not read blocks no other thread.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::{error, info, warn};

use super::notify_socket::NotifySocket;
use super::status::words;
use schedd::engine::StatusView;

/// The longest time for which `systemctl start` waits for Redis. After this time schedd notifies
/// the manager that the start is done, and continues to wait for Redis.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which a stop asks the service manager for more time.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between two status lines.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// The shortest delay of a heartbeat with which a loop counts as stuck. A call to Redis may delay a
/// heartbeat by this time. If half of the watchdog's period is longer, the half counts instead.
const LEAST_SLACK: Duration = Duration::from_secs(5);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The longest time for the steps of a stop after the loops have ended. These steps end the keeper
/// and then a private redis-server.
const LAST_STAGES: Duration = Duration::from_secs(90);
/// The longest wait, at the end of the process, until the last notification is sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// The connection to the service manager of this process, or `None` if the manager requested no
/// notifications.
pub(super) struct ServiceManager(Option<Notified>);

struct Notified {
    news: Sender<UnitNews>,
    teller: JoinHandle<()>,
}

enum UnitNews {
    /// The start of schedd waits. The text says why, such as `Looking for Redis`.
    Waiting(String),
    /// The loops of the engine run.
    Up(StatusView),
    /// The jobs file is being read, because a signal requested a reload.
    Reloading,
    /// The jobs file was read or refused.
    Reloaded,
    /// A stop has begun. The process ends within this time.
    Stopping(Duration),
}

impl ServiceManager {
    /// Connects to the service manager that `NOTIFY_SOCKET` names. After a failure, which is
    /// logged, no notifications are sent.
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

    /// Notifies the service manager that the start waits, for the reason `words`.
    pub(super) fn waiting(&self, words: String) {
        self.send(UnitNews::Waiting(words));
    }

    /// Notifies the service manager that the loops of the engine run.
    pub(super) fn up(&self, view: StatusView) {
        self.send(UnitNews::Up(view));
    }

    /// Notifies the service manager that the jobs file is being read again because of a signal.
    pub(super) fn reloading(&self) {
        self.send(UnitNews::Reloading);
    }

    /// Notifies the service manager that the jobs file was read again.
    pub(super) fn reloaded(&self) {
        self.send(UnitNews::Reloaded);
    }

    /// Notifies the service manager that a stop has begun. The loops of the engine end within the
    /// time `loops`.
    pub(super) fn stopping(&self, loops: Duration) {
        self.send(UnitNews::Stopping(loops.saturating_add(LAST_STAGES)));
    }

    fn send(&self, news: UnitNews) {
        if let Some(thread) = &self.0 {
            // Sending fails only if the thread that notifies the manager has ended, so the error is
            // ignored.
            let _ = thread.news.send(news);
        }
    }

    /// Ends the notifications, and waits at most `FAREWELL` until the last notification is sent.
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

/// The stage of this process in the last notification to the service manager.
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
    /// True if the log has reported a stuck loop that is still stuck.
    is_stuck: bool,
    status: String,
    status_at: Option<Instant>,
    /// The time until which the service manager is asked to wait for the end of a stop. `None`
    /// before a stop has begun.
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
                // systemd treats a reload message without a time as an error, so no message is
                // sent.
                Err(error) => {
                    warn!("schedd cannot notify the service manager about the reload: {error}.");
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

    /// Notifies the service manager that the start is done, unless the manager already knows.
    fn be_ready(&mut self) {
        if self.stage == Stage::Starting {
            self.stage = Stage::Ready;
            self.socket.send(&[NotifyState::Ready]);
        }
    }

    /// Asks the service manager to wait for the remaining time of a stop. The request is repeated,
    /// because one message can ask for at most 71 minutes.
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

    /// Notifies the watchdog four times in each watchdog period, if all loops make progress.
    ///
    /// Before the loops run, no loop counts as stuck. So a start that waits long for Redis is not
    /// ended by the watchdog.
    fn feed_watchdog(&mut self) {
        let Some(time) = self.watchdog.filter(|_| self.stage != Stage::Starting) else { return };
        let slack = (time / 2).max(LEAST_SLACK);
        if let Some(part) = self.engine.as_ref().and_then(|engine| engine.stuck(slack)) {
            if !std::mem::replace(&mut self.is_stuck, true) {
                let late_s = slack.as_secs();
                error!(
                    part,
                    late_s,
                    "A loop of this node hangs, so the watchdog of systemd will end this process."
                );
            }
            return;
        }
        if std::mem::take(&mut self.is_stuck) {
            info!("No loop of this node hangs any more.");
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
