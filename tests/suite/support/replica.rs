//! A replica of a test's Redis whose connection can be cut, and a name for "the primary" that can
//! be moved between servers.
//! Writes that the primary accepts after the cut are lost with the primary.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

use super::redis::{TestRedis, let_replicate};
use super::wait::{LONG, until};

/// A server that replicates another.
pub(crate) struct Replica {
    pub(crate) redis: TestRedis,
    way: Arc<Way>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Way {
    is_cut: AtomicBool,
    is_over: AtomicBool,
    streams: Mutex<Vec<(TcpStream, UnixStream)>>,
}

impl Replica {
    /// Starts a replica that has all data of `primary`.
    pub(crate) fn of(primary: &TestRedis) -> Self {
        let (redis, way) = (TestRedis::start(), Arc::new(Way::default()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let_replicate(&mut redis.connection());
        let (target, accepting) = (socket_of(primary), way.clone());
        let listener = std::thread::spawn(move || accepting.accept(&listener, &target));
        let () = redis::cmd("REPLICAOF")
            .arg("127.0.0.1")
            .arg(port)
            .query(&mut redis.connection())
            .unwrap();
        let replica = Self { redis, way, listener: Some(listener) };
        until("the replica follows", LONG, || {
            Some(()).filter(|()| replica.info().contains("master_link_status:up"))
        });
        replica
    }

    /// Waits until the replica has all that `primary` has now.
    #[track_caller]
    pub(crate) fn catch_up(&self, primary: &TestRedis) {
        let offset = |info: &str, field: &str| -> Option<u64> {
            info.lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok())
        };
        let info: String =
            redis::cmd("INFO").arg("replication").query(&mut primary.connection()).unwrap();
        let wanted = offset(&info, "master_repl_offset").unwrap();
        until("the replica has all", LONG, || {
            offset(&self.info(), "slave_repl_offset").filter(|has| *has >= wanted)
        });
    }

    /// Cuts the connection: nothing more reaches the replica.
    pub(crate) fn cut(&self) {
        self.way.is_cut.store(true, Ordering::SeqCst);
        self.way.end_streams();
    }

    /// Ends the cut: the replica connects again, and gets what it missed.
    pub(crate) fn mend(&self) {
        self.way.is_cut.store(false, Ordering::SeqCst);
    }

    /// Makes the replica a primary.
    pub(crate) fn promote(&self) {
        let () = redis::cmd("REPLICAOF")
            .arg("NO")
            .arg("ONE")
            .query(&mut self.redis.connection())
            .unwrap();
    }

    fn info(&self) -> String {
        redis::cmd("INFO").arg("replication").query(&mut self.redis.connection()).unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.way.is_over.store(true, Ordering::SeqCst);
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

impl Way {
    fn accept(self: &Arc<Self>, listener: &TcpListener, target: &PathBuf) {
        let mut pipes = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            if self.is_cut.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(server) = UnixStream::connect(target) else { continue };
            client.set_nonblocking(false).unwrap();
            // A small answer of the replica must not wait for others.
            client.set_nodelay(true).unwrap();
            self.streams
                .lock()
                .unwrap()
                .push((client.try_clone().unwrap(), server.try_clone().unwrap()));
            let (back, forth) =
                ((server.try_clone().unwrap(), client.try_clone().unwrap()), (client, server));
            pipes.push(std::thread::spawn(move || carry(forth.0, forth.1)));
            pipes.push(std::thread::spawn(move || carry(back.0, back.1)));
        }
        self.end_streams();
        for pipe in pipes {
            let _ = pipe.join();
        }
    }

    fn end_streams(&self) {
        for (client, server) in self.streams.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: impl Read, mut to: impl Write) {
    let _ = std::io::copy(&mut from, &mut to);
}

fn socket_of(redis: &TestRedis) -> PathBuf {
    redis.url().strip_prefix("unix://").unwrap().into()
}

/// A socket name that leads to one server, and later to another.
pub(crate) struct Primary {
    dir: TempDir,
}

impl Primary {
    pub(crate) fn at(redis: &TestRedis) -> Self {
        let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
        let primary = Self { dir };
        primary.lead_to(redis);
        primary
    }

    /// Leads all new connections to this server.
    pub(crate) fn lead_to(&self, redis: &TestRedis) {
        let new = self.dir.path().join("new.sock");
        symlink(socket_of(redis), &new).unwrap();
        fs::rename(new, self.socket()).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }
}
