//! A proxy to a test's Redis that counts round trips, can delay answers, and can lose an answer: the
//! command is done, but its caller never learns of it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The fate of the connection on which an answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The connection breaks.
    Cut,
    /// The connection stays open and silent.
    Silence,
}

/// A socket that forwards to a Redis.
pub(crate) struct Proxy {
    dir: TempDir,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    armed: Mutex<Option<(Vec<u8>, Loss)>>,
    lost: AtomicUsize,
    /// The text by which the connection is known whose round trips count.
    counted: Mutex<Vec<u8>>,
    round_trips: AtomicUsize,
    /// The delay of each answer, ms.
    delay: AtomicU64,
    is_over: AtomicBool,
    streams: Mutex<Vec<UnixStream>>,
}

impl Proxy {
    pub(crate) fn to(redis: &TestRedis) -> Self {
        let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(socket(&dir)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let target = PathBuf::from(redis.url().strip_prefix("unix://").unwrap());
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        let listener = std::thread::spawn(move || accepting.accept(&listener, &target));
        Self { dir, shared, listener: Some(listener) }
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", socket(&self.dir).display())
    }

    /// Drops the answer to the next command with an argument `word`.
    pub(crate) fn lose_answer_to(&self, word: &str, loss: Loss) {
        *self.shared.armed.lock().unwrap() = Some((format!("\r\n{word}\r\n").into_bytes(), loss));
    }

    /// Counts from now on the round trips of connections on which commands carry `text`, once they did.
    pub(crate) fn count_carriers_of(&self, text: &str) {
        *self.shared.counted.lock().unwrap() = text.into();
    }

    /// Returns how often commands followed an answer on a counted connection, up to now. Commands that
    /// are sent together count once.
    pub(crate) fn round_trips(&self) -> usize {
        self.shared.round_trips.load(Ordering::SeqCst)
    }

    /// Delays each answer by this many milliseconds from now on.
    pub(crate) fn delay_answers(&self, millis: u64) {
        self.shared.delay.store(millis, Ordering::SeqCst);
    }

    /// Waits until an answer was lost.
    #[track_caller]
    pub(crate) fn wait_lost(&self) {
        until("an answer is lost", LONG, || {
            Some(()).filter(|()| self.shared.lost.load(Ordering::SeqCst) > 0)
        });
    }
}

/// One connection.
struct Link {
    fate: Mutex<Option<Loss>>,
    /// True if an answer came after the last commands.
    is_answered: AtomicBool,
    /// True if round trips of the connection count.
    is_counted: AtomicBool,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The listener ends the connections too.
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("proxy.sock")
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &UnixListener, target: &PathBuf) {
        let mut pipes = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            // Without a server the client sees a closed connection.
            let Ok(server) = UnixStream::connect(target) else { continue };
            client.set_nonblocking(false).unwrap();
            let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
            self.streams.lock().unwrap().extend(both);
            let link = Arc::new(Link {
                fate: Mutex::new(None),
                is_answered: AtomicBool::new(true),
                is_counted: AtomicBool::new(false),
            });
            let (this, asked) = (self.clone(), link.clone());
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            pipes.push(std::thread::spawn(move || this.carry_commands(from, to, &asked)));
            let this = self.clone();
            pipes.push(std::thread::spawn(move || this.carry_answers(server, client, &link)));
        }
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for pipe in pipes {
            let _ = pipe.join();
        }
    }

    fn carry_commands(&self, mut from: UnixStream, mut to: UnixStream, link: &Link) {
        let mut bytes = vec![0; 1 << 20];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            let mut armed = self.armed.lock().unwrap();
            if let Some((word, loss)) = armed.take() {
                if bytes[..count].windows(word.len()).any(|part| part == word) {
                    *link.fate.lock().unwrap() = Some(loss);
                } else {
                    *armed = Some((word, loss));
                }
            }
            drop(armed);
            let counted = self.counted.lock().unwrap();
            if !counted.is_empty()
                && bytes[..count].windows(counted.len()).any(|part| part == *counted)
            {
                link.is_counted.store(true, Ordering::SeqCst);
            }
            drop(counted);
            if link.is_answered.swap(false, Ordering::SeqCst)
                && link.is_counted.load(Ordering::SeqCst)
            {
                self.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn carry_answers(&self, mut from: UnixStream, mut to: UnixStream, link: &Link) {
        let mut bytes = vec![0; 1 << 20];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            std::thread::sleep(Duration::from_millis(self.delay.load(Ordering::SeqCst)));
            link.is_answered.store(true, Ordering::SeqCst);
            let doomed = *link.fate.lock().unwrap();
            if doomed.is_some() {
                self.lost.fetch_add(1, Ordering::SeqCst);
            }
            match doomed {
                None if to.write_all(&bytes[..count]).is_ok() => {}
                Some(Loss::Silence) => {}
                None | Some(Loss::Cut) => break,
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}
