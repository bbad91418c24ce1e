//! The daemon with one rule broken, chosen by `SCHEDD_MUTANT`: what the chaos checker must catch. Never installed.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(problem) = schedd::store::mutants::from_environment() {
        eprintln!("{problem}");
        return ExitCode::from(2);
    }
    schedd::store::mutants::load_all();
    schedd::keeper::run_from_args().unwrap_or_else(schedd::daemon::main)
}
