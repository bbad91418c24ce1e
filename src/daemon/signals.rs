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
    /// Asked for while only a stop could be, and still to be done.
    reload: bool,
}

impl Signals {
    /// Listens from now on. Fails if the handlers cannot be set.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { stream: signal_hook_tokio::Signals::new([SIGTERM, SIGINT, SIGHUP])?, reload: false })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        if std::mem::take(&mut self.reload) { Asked::Reload } else { self.heard().await }
    }

    async fn heard(&mut self) -> Asked {
        match self.stream.next().await {
            Some(SIGHUP) => Asked::Reload,
            // The stream ends only with its handle, which nobody closes.
            Some(_) | None => Asked::Stop,
        }
    }

    /// The next one that asks to stop. A wish to reload before that is kept.
    pub(super) async fn stop(&mut self) {
        while self.heard().await != Asked::Stop {
            self.reload = true;
        }
    }
}
