//! The command line tool `schedctl`.

fn main() -> std::process::ExitCode {
    schedd::cli::main()
}
