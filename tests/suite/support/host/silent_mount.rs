//! A mount whose server does not answer: FUSE with only its handshake. Only root can create it.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The kind of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The server does not even read requests: a process that waits for one can be killed.
    Deaf,
    /// The server reads requests but does not answer: a waiting process hangs in the kernel until
    /// the mount is gone.
    Dumb,
}

/// A mount that answers nothing while this value lives. On drop it is removed, and waiting
/// processes get an error.
pub(crate) struct SilentMount {
    dir: tempfile::TempDir,
    is_over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

/// The longest request that is no write.
const LONGEST: usize = 64 * 1024;
const LOOK: Duration = Duration::from_millis(5);

impl SilentMount {
    /// Creates the mount. Prints why and returns `None` where the host does not allow it.
    pub(crate) fn new(silence: Silence) -> Option<Self> {
        let not_tested =
            |why: String| eprintln!("not tested: no mount that does not answer: {why}");
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        let device = File::options().read(true).write(true).custom_flags(flags).open("/dev/fuse");
        let device = device.map_err(|error| not_tested(format!("/dev/fuse: {error}"))).ok()?;
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "silent"])
            .arg(dir.path())
            .stdin(OwnedFd::from(device.try_clone().unwrap()))
            .stdout(Stdio::null())
            .output();
        match mounted {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                return (not_tested(String::from_utf8_lossy(&output.stderr).into_owned()), None).1;
            }
            Err(error) => return (not_tested(format!("mount: {error}")), None).1,
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&is_over);
        let server = std::thread::spawn(move || serve(device, silence, &reported));
        Some(Self { dir, is_over, server: Some(server) })
    }

    /// Returns a path in the mount; a lookup of it never gets an answer.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for SilentMount {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The server closes the device, so that all waiting processes get an error.
        let _ = self.server.take().map(JoinHandle::join);
        unmount(self.dir.path());
    }
}

fn unmount(dir: &Path) {
    let _ = Command::new("umount").arg("-l").arg(dir).stderr(Stdio::null()).status();
}

fn serve(mut device: File, silence: Silence, is_over: &AtomicBool) {
    let mut is_greeted = false;
    let mut request = vec![0; LONGEST];
    while !is_over.load(Ordering::Relaxed) {
        if is_greeted && silence == Silence::Deaf {
            std::thread::sleep(LOOK);
            continue;
        }
        match device.read(&mut request) {
            Ok(_) if !is_greeted => {
                device.write_all(&greeting(&request[8..16])).unwrap();
                is_greeted = true;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(_) => return,
        }
    }
}

/// Returns the answer to the `FUSE_INIT` request of that number: protocol 7.31, no options.
fn greeting(unique: &[u8]) -> Vec<u8> {
    let mut answer = [80_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    answer.extend(unique);
    let fields = [7_u32, 31, 0, 0, 0, 4096, 1];
    answer.extend(fields.iter().flat_map(|field| field.to_ne_bytes()));
    answer.resize(80, 0);
    answer
}
