//! The signals that request a stop or a reload of this process.

use std::io;

use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The request that a signal stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// Requested by SIGTERM or SIGINT.
    Stop,
    /// Requested by SIGHUP.
    Reload,
}

/// A listener for the signals of this process.
pub(super) struct Signals {
    stream: signal_hook_tokio::Signals,
    /// True if a reload was requested while the process waited only for a stop. The next call of
    /// `next` returns this reload.
    reload: bool,
}

impl Signals {
    /// Starts to listen for signals. Returns an error if the signal handlers cannot be installed.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            stream: signal_hook_tokio::Signals::new([SIGTERM, SIGINT, SIGHUP])?,
            reload: false,
        })
    }

    /// Waits for a signal and returns its request.
    pub(super) async fn next(&mut self) -> SignalRequest {
        if std::mem::take(&mut self.reload) { SignalRequest::Reload } else { self.heard().await }
    }

    async fn heard(&mut self) -> SignalRequest {
        match self.stream.next().await {
            Some(SIGHUP) => SignalRequest::Reload,
            // `None` never comes, because the handle of the stream is never closed.
            Some(_) | None => SignalRequest::Stop,
        }
    }

    /// Waits for a signal to stop. An earlier request to reload is kept for `next`.
    pub(super) async fn stop(&mut self) {
        while self.heard().await != SignalRequest::Stop {
            self.reload = true;
        }
    }
}
