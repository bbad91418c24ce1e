//! Writes the manual pages and the completions of the shells into a directory, for `script/install` and the package:
//! `cargo run --example manual -- DIR`. Not a part of the programs, so that they do not carry what makes pages.

mod markdown;
mod pages;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("manual: no directory given; wanted: cargo run --example manual -- DIR");
        return ExitCode::from(2);
    };
    for (name, text) in pages::all() {
        if let Err(error) =
            std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(dir.join(&name), text))
        {
            eprintln!("manual: {} cannot be written: {error}", dir.join(name).display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
