//! The daemon. With the keeper's argument it runs as the keeper instead.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedd::keeper::run_from_args().unwrap_or_else(schedd::daemon::main)
}
