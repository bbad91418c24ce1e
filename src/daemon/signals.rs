//! The signals of this process, as requests.

use std::io;

use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The request that a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// TERM or INT.
    Stop,
    /// HUP.
    Reload,
}

/// A listener for the signals of this process.
pub(super) struct Signals {
    stream: signal_hook_tokio::Signals,
    /// True if a reload was requested while only a stop was awaited. The reload is still to be
    /// done.
    reload: bool,
}

impl Signals {
    /// Starts to listen for signals. Fails if the signal handlers cannot be set.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            stream: signal_hook_tokio::Signals::new([SIGTERM, SIGINT, SIGHUP])?,
            reload: false,
        })
    }

    /// Waits for a signal and returns the request that the signal means.
    pub(super) async fn next(&mut self) -> SignalRequest {
        if std::mem::take(&mut self.reload) { SignalRequest::Reload } else { self.heard().await }
    }

    async fn heard(&mut self) -> SignalRequest {
        match self.stream.next().await {
            Some(SIGHUP) => SignalRequest::Reload,
            // The stream ends only with its handle, which is never closed.
            Some(_) | None => SignalRequest::Stop,
        }
    }

    /// Waits for a signal to stop. A request to reload that comes earlier is kept for `next`.
    pub(super) async fn stop(&mut self) {
        while self.heard().await != SignalRequest::Stop {
            self.reload = true;
        }
    }
}
