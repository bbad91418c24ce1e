//! A settable clock for one server: a small preloaded library reads from a file how far ahead the
//! clock is.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub(crate) struct SteppedClock {
    path: PathBuf,
    file: File,
}

impl SteppedClock {
    /// Creates a clock with the true time, kept in `dir`.
    pub(crate) fn within(dir: &Path) -> Self {
        let path = dir.join("clock");
        let file = OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
        let clock = Self { path, file };
        clock.set(0);
        clock
    }

    /// Sets the clock this many seconds ahead of the true time, or behind it if negative.
    pub(crate) fn set(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// Makes a program use this clock.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("STEPPED_CLOCK", &self.path);
    }
}

/// Returns the library, compiled once for all tests of this process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, made) = (
            dir.join(format!("clock.{}.c", std::process::id())),
            dir.join(format!("clock.{}", std::process::id())),
        );
        fs::write(&source, include_str!("stepped_clock.c")).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&made)
            .arg(&source)
            .status()
            .unwrap();
        assert!(status.success(), "cc cannot compile {}", source.display());
        fs::remove_file(source).unwrap();
        // Other processes may have the library loaded from its final path, so it is replaced by a
        // rename.
        let library = dir.join("stepped_clock.so");
        fs::rename(made, &library).unwrap();
        library
    })
}
