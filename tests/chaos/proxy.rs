//! The TCP connection of one node to Redis, or of one worker to the nodes, with faults: answers get
//! lost, connections break or fall silent.
//!
//! Invariant: lost bytes are never made up for.
//! A connection that lost some stays silent until it is closed, like a connection whose other end
//! vanished.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The fault on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// No fault.
    Clear,
    /// Answers are lost although the commands are done; the connection stays.
    Swallow,
    /// Each answer comes only in its first half, then the connection breaks.
    Cut,
    /// Answers come this much later.
    Slow(Duration),
    /// Answers come a few bytes at a time.
    Trickle,
    /// Nothing passes in either direction, and new connections get no answer.
    Blackhole,
}

/// A listening address that forwards to a Redis, or to nodes.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    /// The sockets of the servers. Each new connection goes to the next that answers.
    targets: Mutex<Vec<PathBuf>>,
    link_state: Mutex<LinkState>,
    is_over: AtomicBool,
    streams: Mutex<Vec<(TcpStream, UnixStream)>>,
}

impl Proxy {
    /// Starts a proxy on this address of the host, to the Redis at this unix socket's URL.
    pub(crate) fn to(url: &str, from: Ipv4Addr) -> Self {
        Self::between(vec![PathBuf::from(url.strip_prefix("unix://").unwrap())], from)
    }

    /// Starts a proxy on this address of the host, to the servers at these sockets in turn.
    pub(crate) fn between(targets: Vec<PathBuf>, from: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((from, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            targets: Mutex::new(targets),
            link_state: Mutex::new(LinkState::Clear),
            is_over: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        let listener = std::thread::spawn(move || accepting.accept(&listener));
        Self { address, shared, listener: Some(listener) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    pub(crate) fn set(&self, link_state: LinkState) {
        *self.shared.link_state.lock().unwrap_or_else(PoisonError::into_inner) = link_state;
    }

    /// Breaks every open connection.
    pub(crate) fn break_all(&self) {
        for (client, server) in
            self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..)
        {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let _ = self.listener.take().map(JoinHandle::join);
        self.break_all();
    }
}

impl Shared {
    fn link_state(&self) -> LinkState {
        *self.link_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to the next server that answers.
    fn connect(&self) -> Option<UnixStream> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..targets.len() {
            let server = UnixStream::connect(&targets[0]);
            targets.rotate_left(1);
            if let Ok(server) = server {
                return Some(server);
            }
        }
        None
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.is_over.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            // Without a server the client sees a closed connection.
            let Some(server) = self.connect() else { continue };
            client.set_nonblocking(false).unwrap();
            let _ = client.set_nodelay(true);
            let kept = (client.try_clone().unwrap(), server.try_clone().unwrap());
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let this = Arc::clone(self);
            std::thread::spawn(move || this.carry_commands(from, to));
            let this = Arc::clone(self);
            std::thread::spawn(move || this.carry_answers(server, client));
        }
    }

    fn carry_commands(&self, mut from: TcpStream, mut to: UnixStream) {
        let mut bytes = vec![0; 1 << 16];
        let mut is_silent = false;
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            is_silent |= self.link_state() == LinkState::Blackhole;
            if !is_silent && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn carry_answers(&self, mut from: UnixStream, mut to: TcpStream) {
        let mut bytes = vec![0; 1 << 16];
        let mut is_silent = false;
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            let link_state = self.link_state();
            is_silent |= matches!(link_state, LinkState::Swallow | LinkState::Blackhole);
            if is_silent {
                continue;
            }
            let answer = &bytes[..count];
            let carried = match link_state {
                LinkState::Cut => {
                    let _ = to.write_all(&answer[..count / 2]);
                    break;
                }
                LinkState::Slow(length) => {
                    std::thread::sleep(length);
                    to.write_all(answer)
                }
                LinkState::Trickle => answer.chunks(8).try_for_each(|part| {
                    std::thread::sleep(Duration::from_millis(5));
                    to.write_all(part)
                }),
                _ => to.write_all(answer),
            };
            if carried.is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
