//! The command line.

fn main() -> std::process::ExitCode {
    schedd::cli::main()
}
