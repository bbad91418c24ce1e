//! Programs that a test writes and then starts.
//!
//! A test that writes such a file itself holds it open for writing.
//! A child that another thread forks at that moment inherits the descriptor until it executes its
//! own program.
//! Until then the kernel refuses to start the file ("Text file busy").

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that everyone may execute. Another process opens the file, so no process of
/// this test has it open.
pub(crate) fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let mut install = Command::new("install");
    let mut child =
        install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(child.wait().unwrap().success(), "install(1) writes {}", path.display());
}

/// Copies a program in the same way, with the permission bits `mode` of chmod(1).
#[allow(dead_code, reason = "the suite's; the chaos test writes scripts only")]
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path, mode: &str) {
    let copied =
        Command::new("install").args(["-m", mode]).arg(from.as_ref()).arg(to).status().unwrap();
    assert!(copied.success(), "install(1) writes {}", to.display());
}
