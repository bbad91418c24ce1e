//! The command line tool.

fn main() -> std::process::ExitCode {
    schedd::cli::main()
}
