//! The command line tool `schedctl`.

fn main() -> std::process::ExitCode {
    schedd_programs::cli::main()
}
