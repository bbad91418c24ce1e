//! F11: a node in a network namespace of its own, whose only connection to Redis is a cable that
//! can be pulled.
//!
//! Invariant: names carry this process' number. The guard removes namespace and cable whatever
//! happens to the test.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::needs::run;
use super::{Fault, LEASE, name, outage, some_node};
use crate::evidence::{Harm, Hit};
use crate::stage::Stage;
use crate::world::grounds::Grounds;

/// F11.
pub(super) struct Partition {
    node: usize,
}

impl Partition {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes) })
    }

    /// Returns the name of its cable's end on this side.
    fn cable(&self) -> String {
        format!("sc{}n{}", std::process::id(), self.node + 1)
    }
}

impl Fault for Partition {
    fn row(&self) -> &'static str {
        "F11"
    }
    fn what(&self) -> String {
        format!("the cable between {} and Redis down for {:?}", name(self.node), self.lasts())
    }
    fn lasts(&self) -> Duration {
        LEASE * 5
    }
    fn harm(&self) -> Harm {
        outage(Hit::Nodes(vec![name(self.node)]), self.lasts())
    }
    fn prepare(&self, grounds: &mut Grounds) {
        let store = grounds.store;
        let footing = &mut grounds.nodes[self.node];
        if footing.network.is_some() {
            return;
        }
        let network = format!("schedd-{}-{}", std::process::id(), name(self.node));
        let (here, there) = addresses(self.node);
        let (cable, far) = (self.cable(), format!("{}x", self.cable()));
        // From here on, the guard removes both if anything fails.
        let is_over = Arc::new(AtomicBool::new(false));
        footing.guards.push(Box::new(Guard {
            network: network.clone(),
            cable: cable.clone(),
            is_over: Arc::clone(&is_over),
        }));
        let lay = |words: String| {
            run("ip", &words.split(' ').collect::<Vec<_>>()).unwrap();
        };
        lay(format!("netns add {network}"));
        lay(format!("link add {cable} type veth peer name {far} netns {network}"));
        lay(format!("addr add {here}/30 dev {cable}"));
        lay(format!("link set {cable} up"));
        lay(format!("-n {network} addr add {there}/30 dev {far}"));
        lay(format!("-n {network} link set {far} up"));
        lay(format!("-n {network} link set lo up"));
        forward(&network, store, is_over);
        footing.address = Some(here);
        footing.network = Some(network);
    }
    fn inflict(&mut self, _stage: &Stage) {
        run("ip", &["link", "set", &self.cable(), "down"]).unwrap();
    }
    fn heal(&mut self, _stage: &Stage) {
        run("ip", &["link", "set", &self.cable(), "up"]).unwrap();
    }
}

/// Returns the addresses of both ends of a cable, derived from this process' number and the node's.
fn addresses(node: usize) -> (Ipv4Addr, Ipv4Addr) {
    let [.., high, low] = std::process::id().to_be_bytes();
    let last = u8::try_from(node % 16 * 4).unwrap();
    let net = |end: u8| {
        Ipv4Addr::new(10, 128 | (high & 0x7f), low, (u8::from(high > 0x7f) << 6) + last + end)
    };
    (net(1), net(2))
}

struct Guard {
    network: String,
    cable: String,
    is_over: Arc<AtomicBool>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The far end goes with it.
        let _ = run("ip", &["link", "del", &self.cable]);
        let _ = run("ip", &["netns", "del", &self.network]);
    }
}

/// Makes the store answer in that namespace too, at the same address: only the connection to Redis
/// must be cut.
fn forward(network: &str, store: SocketAddr, is_over: Arc<AtomicBool>) {
    let file = std::fs::File::open(format!("/run/netns/{network}")).unwrap();
    // Only this thread moves into the namespace; the socket it leaves stays there.
    let inside = std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        TcpListener::bind(store).unwrap()
    });
    let listener = inside.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            match listener.accept() {
                Ok((client, _)) => {
                    let _ = client.set_nonblocking(false);
                    // A client may disconnect at any time.
                    std::thread::spawn(move || drop(carry(&client, store)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    });
}

fn carry(client: &TcpStream, store: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(store)?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let asking = std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut &server, &mut &*client)?;
    client.shutdown(Shutdown::Both)?;
    let _ = asking.join();
    Ok(())
}
