//! Programs that a test writes and then starts.
//!
//! A test that writes such a file itself holds it open for writing, and so does the child that another thread forks in that
//! moment, until the child executes its own program. The kernel refuses to start the file as long ("Text file busy").

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that everyone may execute. Another process opens the file, so no process of this test holds it.
pub(crate) fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let mut install = Command::new("install");
    let mut child = install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(child.wait().unwrap().success(), "install(1) writes {}", path.display());
}

/// Copies a program, with the permission bits `mode` of chmod(1), in the same way.
#[allow(dead_code, reason = "the suite's; the chaos test writes scripts only")]
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path, mode: &str) {
    let copied = Command::new("install").args(["-m", mode]).arg(from.as_ref()).arg(to).status().unwrap();
    assert!(copied.success(), "install(1) writes {}", to.display());
}
