//! Signals, turned once into what they ask for.

use std::io;

use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// TERM or INT.
    Stop,
    /// HUP.
    Reload,
}

/// The signals of this process, from the moment it listens.
pub(super) struct Signals {
    stream: signal_hook_tokio::Signals,
}

impl Signals {
    /// Listens from now on. Fails if the handlers cannot be set.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { stream: signal_hook_tokio::Signals::new([SIGTERM, SIGINT, SIGHUP])? })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        match self.stream.next().await {
            Some(SIGHUP) => Asked::Reload,
            // The stream ends only with its handle, which nobody closes.
            Some(_) | None => Asked::Stop,
        }
    }

    /// The next one that asks to stop.
    pub(super) async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}
