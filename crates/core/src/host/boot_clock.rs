//! Instants and timers on `CLOCK_BOOTTIME`.
//!
//! Invariant: the end of a lease and a timeout on this clock count the time for which the machine
//! was suspended. An instant on `CLOCK_MONOTONIC` would not count that time.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::host::awaited::Awaited;

/// A number of nanoseconds since this machine booted, time asleep included (`clock_gettime(2)`,
/// `CLOCK_BOOTTIME`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootInstant(u64);

impl BootInstant {
    /// Returns the present instant.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(NANOS).saturating_add(nanos))
    }

    /// Returns the instant `nanos` nanoseconds after the boot.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the boot.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this instant moved later by `by`; at most the greatest instant.
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(by)))
    }

    /// Returns this instant moved earlier by `by`; at the earliest the boot.
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(by)))
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

const NANOS: u64 = 1_000_000_000;

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A timer that fires at a [`BootInstant`] (`timerfd_create(2)`).
///
/// After the machine resumes, the timer fires at once if its instant has passed meanwhile.
pub struct BootTimer {
    fd: Awaited,
}

impl BootTimer {
    /// Creates a timer that is not set.
    ///
    /// Must be called inside a runtime. Fails if the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self { fd: Awaited::new(fd)? })
    }

    /// Waits until the instant `at`. The caller may drop the future and call again. Fails if the
    /// system refuses the timer.
    pub async fn until(&self, at: BootInstant) -> io::Result<()> {
        // A value of zero would disarm the timer.
        let nanos = at.0.max(1);
        let value = Timespec {
            tv_sec: i64::try_from(nanos / NANOS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanos % NANOS).unwrap_or(0),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once)?;
        while BootInstant::now() < at {
            let mut ready = self.fd.readable().await?;
            let mut fired = [0_u8; 8];
            if rustix::io::read(&self.fd, &mut fired).is_err() {
                ready.clear_ready();
            }
        }
        Ok(())
    }
}

/// A [`BootTimer`] for any number of tasks of one thread.
///
/// The timer is set to the earliest instant that a task waits for. When it fires, every waiting
/// task looks at the clock.
pub struct SharedTimer {
    timer: BootTimer,
    /// The earliest instant that a task waits for.
    next: Cell<BootInstant>,
    /// Wakes the task in [`Self::run`], which must set the timer again, because `next` is earlier
    /// than before.
    is_earlier: Notify,
    fired: Notify,
}

/// The instant to which a timer is set while no task waits.
const NEVER: BootInstant = BootInstant(u64::MAX);

impl SharedTimer {
    /// Creates a timer that is not set. A separate task must call [`Self::run`], which wakes the
    /// waiting tasks.
    ///
    /// Must be called inside a runtime. Fails if the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        let (is_earlier, fired) = (Notify::new(), Notify::new());
        Ok(Self { timer: BootTimer::new()?, next: Cell::new(NEVER), is_earlier, fired })
    }

    /// Wakes the tasks that wait in [`Self::until`] whenever the timer fires. Never returns.
    pub async fn run(&self) -> Infallible {
        loop {
            tokio::select! {
                _ = self.timer.until(self.next.get()) => {
                    self.next.set(NEVER);
                    self.fired.notify_waiters();
                }
                () = self.is_earlier.notified() => {}
            }
        }
    }

    /// Waits until the instant `at`. The caller may drop the future and call again.
    pub async fn until(&self, at: BootInstant) {
        while BootInstant::now() < at {
            let fired = self.fired.notified();
            if at < self.next.get() {
                self.next.set(at);
                self.is_earlier.notify_one();
            }
            fired.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_never_fires_early_and_takes_a_past_instant_at_once() {
        let timer = BootTimer::new().unwrap();
        let start = BootInstant::now();
        timer.until(start).await.unwrap();
        let at = start.saturating_add(Duration::from_millis(30));
        timer.until(at).await.unwrap();
        assert!(BootInstant::now() >= at);
        timer.until(BootInstant::from_nanos(0)).await.unwrap();
    }

    #[tokio::test]
    async fn tasks_that_share_a_timer_each_wait_for_their_own_instant() {
        let (timer, start) = (SharedTimer::new().unwrap(), BootInstant::now());
        let wait = async |ms| {
            let at = start.saturating_add(Duration::from_millis(ms));
            timer.until(at).await;
            assert!(BootInstant::now() >= at);
        };
        let waits = async {
            tokio::join!(wait(30), wait(10), wait(0), async {
                wait(10).await;
                wait(20).await;
            })
        };
        tokio::select! {
            never = timer.run() => match never {},
            _ = waits => {}
        }
    }

    #[test]
    fn arithmetic_holds_at_both_ends() {
        let end = BootInstant::from_nanos(u64::MAX);
        assert_eq!(end.saturating_add(Duration::MAX), end);
        assert_eq!(end.saturating_sub(Duration::MAX).as_nanos(), 0);
        assert_eq!(BootInstant::from_nanos(1).since(end), Duration::ZERO);
    }
}
