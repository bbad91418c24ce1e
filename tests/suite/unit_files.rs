//! The unit files are ones that systemd takes.

use std::fs;
use std::process::Command;

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/schedd.service");

#[test]
fn systemd_has_nothing_to_say_about_the_unit() {
    // The verifier wants the program to exist and the user to be known, which is so only on a host that has schedd.
    let text = fs::read_to_string(UNIT).unwrap();
    let here =
        text.replace("/usr/bin/schedd ", &format!("{} ", env!("CARGO_BIN_EXE_schedd"))).replace("User=schedd", "User=root");
    assert_ne!(text, here);
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("schedd.service");
    fs::write(&unit, here).unwrap();

    let output = match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no systemd-analyze here, so systemd/schedd.service was not verified");
            return;
        }
        Err(error) => panic!("systemd-analyze: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("schedd.service")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}
