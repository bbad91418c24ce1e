//! The daemon with one broken rule, chosen by `SCHEDD_MUTANT`, which the chaos checker must notice.
//! Never installed.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(problem) = schedd_store::server::mutants::from_environment() {
        eprintln!("{problem}");
        return ExitCode::from(2);
    }
    schedd_store::server::load_all();
    schedd_keeper::run_from_args().unwrap_or_else(schedd_programs::daemon::main)
}
