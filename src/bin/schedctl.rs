//! The command line tool `schedctl`. If the first argument is that of the keeper, the process runs as
//! the keeper of a worker (`schedctl work`).

use std::process::ExitCode;

fn main() -> ExitCode {
    schedd_keeper::run_from_args().unwrap_or_else(schedd_programs::cli::main)
}
