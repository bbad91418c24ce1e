//! The daemon `schedd`. If the first argument is that of the keeper, the process runs as the
//! keeper.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedd_keeper::run_from_args().unwrap_or_else(schedd_programs::daemon::main)
}
