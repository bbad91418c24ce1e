//! The requirements of faults that this machine may lack. Such a fault is left out of the deck, and
//! the reason is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns what the fault of this name lacks here; `None` if it can be made.
pub(crate) fn missing(fault: &str) -> Option<String> {
    match fault {
        "clock" => {
            library().is_none().then(|| "needs libfaketime (script/setup --tests)".to_owned())
        }
        "partition" => {
            network().err().map(|why| format!("needs root and network namespaces: {why}"))
        }
        "full-disk" => {
            mount().err().map(|why| format!("needs root, to mount a small file system: {why}"))
        }
        _ => None,
    }
}

/// The rows of the table of faults that nothing here makes, and why.
pub(crate) const NOT_MADE: &[&str] = &[
    "F17: not among these: steps of Redis' clock have a run and a judgement of their own, --redis-clock",
    "F20: fork refused with EAGAIN is not made here: a limit on processes does not hold for root, and for others it hits the test too",
];

/// Returns the library that gives a process another clock.
pub(super) fn library() -> Option<PathBuf> {
    let known = |dir: fs::DirEntry| {
        Some(dir.path().join("faketime/libfaketime.so.1")).filter(|file| file.exists())
    };
    ["/usr/lib", "/usr/lib64", "/usr/local/lib"].iter().find_map(|place| {
        let here = Path::new(place).join("faketime/libfaketime.so.1");
        here.exists()
            .then_some(here)
            .or_else(|| fs::read_dir(place).ok()?.flatten().find_map(known))
    })
}

fn network() -> Result<(), String> {
    let name = format!("schedd-try-{}", std::process::id());
    run("ip", &["netns", "add", &name])?;
    run("nsenter", &[&format!("--net=/run/netns/{name}"), "true"])
        .and(run("ip", &["netns", "del", &name]))
        .inspect_err(|_| drop(run("ip", &["netns", "del", &name])))
}

fn mount() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = dir.path().display().to_string();
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "schedd-chaos", &path])?;
    run("umount", &[&path])
}

/// Runs a program to its end. Fails with its error output.
pub(super) fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
