//! The daemon. Started with the keeper's own argument it is the keeper instead.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedd::keeper::run_from_args().unwrap_or_else(schedd::daemon::main)
}
