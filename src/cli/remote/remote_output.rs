//! The output of a remote verb, printed as it arrives.

use anyhow::Context as _;
use reqwest::Response;
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;

use crate::cli::embedded::remote_frames::{FrameKind, take_frame};
use crate::cli::failure::CliFailure;
use crate::cli::render::Console;
use crate::cli::runs::run_verb::INTERRUPTED;

/// Prints the output in the body of `answer`. Returns the exit code in its last frame.
pub(super) async fn print(mut answer: Response, console: &mut Console) -> Result<u8, CliFailure> {
    let mut interrupts = Signals::new([SIGINT]).context("cannot listen for signals")?;
    let mut bytes = Vec::new();
    let lost = |why: String| {
        CliFailure::Unreachable(format!(
            "the connection to the API ended before the verb did: {why}; it is not known what the verb has done"
        ))
    };
    loop {
        while let Some((kind, data)) = take_frame(&mut bytes) {
            match kind {
                FrameKind::Output => console.bytes(&data),
                FrameKind::Errors => console.aside_bytes(&data),
                FrameKind::Code => return Ok(data.first().copied().unwrap_or(1)),
            }
        }
        console.flush();
        if console.is_closed() {
            return Ok(0);
        }
        tokio::select! {
            part = answer.chunk() => match part {
                Ok(Some(part)) => bytes.extend(part),
                Ok(None) => return Err(lost("there is no exit code".to_owned())),
                Err(error) => return Err(lost(error.to_string())),
            },
            _ = futures_util::StreamExt::next(&mut interrupts) => {
                console.error("interrupted; what the verb asked for goes on");
                return Ok(INTERRUPTED);
            }
        }
    }
}
